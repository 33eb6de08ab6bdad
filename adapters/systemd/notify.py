"""The protocol of sd_notify: one datagram of lines ``NAME=value`` to the socket that the environment names."""

import os
import re
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from domain.ports.reports import Reports

_LONGEST: Final = 300
"""Characters of a status: it is one line on somebody's screen."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class ServiceManager:
    """Whoever started us, if it wants to know how we are: systemd, or another that speaks like it.

    Args:
        address: of its socket: a path, or a name in the abstract namespace after an ``@``; ``None`` = nobody asks.
        watchdog: seconds within which it wants a sign of life, ``None`` if it does not watch.
        reports: told once if it cannot be reached.
    """

    def __init__(self, *, address: str | None, watchdog: float | None, reports: Reports) -> None:
        self._address = address
        self._reports = reports
        self._trouble: str | None = None
        self.wanted = address is not None
        """Whether anybody wants to know."""
        self.watchdog = watchdog
        """Seconds within which it wants a sign of life, ``None`` if it does not."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], *, reports: Reports) -> "ServiceManager":
        """Read what systemd sets: ``NOTIFY_SOCKET``, ``WATCHDOG_USEC``, and ``WATCHDOG_PID`` for whom that is."""
        address = environment.get("NOTIFY_SOCKET") or None
        if address is not None and address[0] not in "/@":
            reports.warn("the service manager cannot be told anything", reason=f"NOTIFY_SOCKET is {address!a}")
            address = None
        return cls(address=address, watchdog=_watchdog(environment), reports=reports)

    def ready(self, status: str) -> None:
        """Say that the start, or a reload, is over, so that what is ordered after us begins."""
        self._send("READY=1", f"STATUS={_one_line(status)}")

    def reloading(self) -> None:
        """Say that a changed configuration is being taken over; READY is said again when that is over."""
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={microseconds}")

    def status(self, text: str) -> None:
        """Say how we are, in one line for people."""
        self._send(f"STATUS={_one_line(text)}")

    def alive(self) -> None:
        """Give a sign of life."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Say that we are about to end, and mean to."""
        self._send("STOPPING=1")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        # As Python wants it: a name in the abstract namespace begins with a zero byte.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto("\n".join(lines).encode(), address)
        except OSError as error:
            self._tell(os.strerror(error.errno) if error.errno else str(error))
        else:
            self._trouble = None

    def _tell(self, reason: str) -> None:
        if reason != self._trouble:
            self._trouble = reason
            self._reports.warn("the service manager cannot be told anything", reason=reason, socket=self._address)


def _watchdog(environment: Mapping[str, str]) -> float | None:
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    with suppress(KeyError, ValueError):
        microseconds = int(environment["WATCHDOG_USEC"])
        return microseconds / 1e6 if microseconds > 0 else None
    return None


def _one_line(text: str) -> str:
    """Return a text in which nothing can pass for a line of its own."""
    return _CONTROL.sub(" ", text)[:_LONGEST]
