"""The service manager: datagrams on real sockets."""

import os
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.systemd.notify import ServiceManager
from tests.integration.filesystem import short_place
from tests.unit.house import Heard

TROUBLE = "the service manager cannot be told anything"


class Listener:
    """The other end."""

    def __init__(self, name: str) -> None:
        self.address = f"@{name[1:]}" if name.startswith("\0") else name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind(name)

    def heard(self) -> list[bytes]:
        """Return the datagrams that have come."""
        found = []
        while True:
            try:
                found.append(self.socket.recv(65536))
            except BlockingIOError:
                return found


@pytest.fixture
def place() -> Iterator[Path]:
    with short_place() as made:
        yield made


@pytest.fixture(params=["path", "abstract"])
def listener(request: pytest.FixtureRequest, place: Path) -> Iterator[Listener]:
    """A socket of each kind that systemd and others use."""
    name = str(place / "notify") if request.param == "path" else f"\0memif-test-{secrets.token_hex(8)}"
    made = Listener(name)
    yield made
    made.socket.close()


@pytest.fixture
def reports() -> Heard:
    return Heard()


def manager(reports: Heard, **environment: str) -> ServiceManager:
    return ServiceManager.from_environment(environment, reports=reports)


class TestTold:
    def test_each_thing_is_one_datagram(self, listener: Listener, reports: Heard) -> None:
        told = manager(reports, NOTIFY_SOCKET=listener.address)
        told.ready("waiting for the kubelet")
        told.status("registered")
        told.alive()
        told.stopping()

        assert listener.heard() == [
            b"READY=1\nSTATUS=waiting for the kubelet",
            b"STATUS=registered",
            b"WATCHDOG=1",
            b"STOPPING=1",
        ]
        assert reports.warnings == []

    def test_a_reload_is_told_with_the_time_that_counts_since_the_machine_started(
        self, listener: Listener, reports: Heard
    ) -> None:
        before = time.monotonic()
        manager(reports, NOTIFY_SOCKET=listener.address).reloading()
        after = time.monotonic()

        (told,) = listener.heard()
        state, _, stamp = told.decode().partition("\nMONOTONIC_USEC=")
        assert state == "RELOADING=1"
        assert before - 1e-6 <= int(stamp) / 1e6 <= after

    @pytest.mark.parametrize("end", ["\n", "\r", "\0", "\x85", "\u2028"])
    def test_no_text_of_others_becomes_a_line_of_its_own(self, listener: Listener, reports: Heard, end: str) -> None:
        """The kubelet's words, say; whoever forged them could have us stopped."""
        manager(reports, NOTIFY_SOCKET=listener.address).status(f"refused{end}STOPPING=1")

        assert listener.heard() == [b"STATUS=refused STOPPING=1"]

    def test_a_status_is_cut(self, listener: Listener, reports: Heard) -> None:
        manager(reports, NOTIFY_SOCKET=listener.address).status("a" * 10_000)

        (datagram,) = listener.heard()
        assert len(datagram) < 400

    def test_nobody_is_waited_for_who_does_not_read(self, listener: Listener, reports: Heard) -> None:
        """The kernel keeps a few datagrams; what does not fit is dropped."""
        told = manager(reports, NOTIFY_SOCKET=listener.address)
        for _ in range(2000):
            told.alive()

        assert 0 < len(listener.heard()) < 2000
        assert reports.warned == [TROUBLE]
        told.alive()
        assert listener.heard() == [b"WATCHDOG=1"]

    def test_one_that_went_is_told_of_once_and_again_the_next_time(self, place: Path, reports: Heard) -> None:
        first = Listener(str(place / "notify"))
        told = manager(reports, NOTIFY_SOCKET=first.address)
        first.socket.close()
        (place / "notify").unlink()
        for _ in range(3):
            told.alive()
        assert reports.warnings == [(TROUBLE, {"reason": "No such file or directory", "socket": str(place / "notify")})]
        second = Listener(str(place / "notify"))
        told.alive()
        assert second.heard() == [b"WATCHDOG=1"]
        second.socket.close()
        told.alive()

        assert [facts["reason"] for _, facts in reports.warnings] == ["No such file or directory", "Connection refused"]

    def test_a_path_that_is_too_long_hurts_nobody(self, reports: Heard) -> None:
        manager(reports, NOTIFY_SOCKET=f"/{'a' * 200}").ready("here")

        assert reports.warned == [TROUBLE]


class TestWanted:
    @pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}])
    def test_without_a_service_manager_nothing_is_told(self, environment: dict[str, str], reports: Heard) -> None:
        told = manager(reports, **environment)
        told.ready("here")
        told.stopping()

        assert not told.wanted
        assert reports.warnings == []

    def test_an_address_of_another_kind_is_told(self, reports: Heard) -> None:
        told = manager(reports, NOTIFY_SOCKET="vsock:2:1234")

        assert not told.wanted
        assert reports.facts(TROUBLE) == {"reason": "NOTIFY_SOCKET is 'vsock:2:1234'"}

    @pytest.mark.parametrize(
        "environment, seconds",
        [
            ({}, None),
            ({"WATCHDOG_USEC": "30000000"}, 30.0),
            ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, 0.5),
            ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getppid())}, None),
            ({"WATCHDOG_USEC": "0"}, None),
            ({"WATCHDOG_USEC": "-1"}, None),
            ({"WATCHDOG_USEC": "soon"}, None),
        ],
    )
    def test_signs_of_life(self, environment: dict[str, str], seconds: float | None, reports: Heard) -> None:
        assert manager(reports, NOTIFY_SOCKET="@nobody", **environment).watchdog == seconds
