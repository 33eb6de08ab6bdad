"""Log lines: one JSON object a line on stderr, or text for people in front of a terminal.

Use cases and adapters say what happened through the port :class:`domain.ports.reports.Reports`; here it becomes
lines.  Secrets cannot get into one: the domain's type for them shows a mask, and nothing else holds their text.
"""

import asyncio
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping
from contextvars import Context, copy_context
from typing import Any, Final, TextIO

import structlog

from app.settings import LogFormat, LogLevel

REPEAT: Final = 3600.0
"""Seconds in which a warning that says exactly the same is logged once: a trouble that lasts is met at every turn."""

_REMEMBERED: Final = 1000
"""Warnings that are remembered for that; more different ones than this are themselves the news."""


def configure(*, level: LogLevel, form: LogFormat, stream: TextIO | None = None) -> None:
    """Set logging up for the process, for our own lines and for those of libraries.

    Libraries are heard from warnings on, whatever our own level is: what they say below that is for their authors,
    and some of them print what they send.
    """
    out = stream or sys.stderr
    numeric = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Callable[..., Any]] = [
        structlog.contextvars.merge_contextvars,  # which request a line belongs to
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
    ]
    renderer: Callable[..., Any] = (
        structlog.processors.JSONRenderer(default=str)
        if form is LogFormat.JSON
        else structlog.dev.ConsoleRenderer(
            colors=out.isatty() and "NO_COLOR" not in os.environ,
            timestamp_key="time",
            exception_formatter=structlog.dev.plain_traceback,
        )
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            foreign_pre_chain=[*shared[:-1], structlog.stdlib.add_logger_name, structlog.processors.format_exc_info],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(numeric, logging.WARNING))


class StructlogReports:
    """Makes log lines of reports; keeps :class:`domain.ports.reports.Reports`.

    In the event loop a note becomes a line in the loop's next turn: the kubelet admits no pod while it waits for an
    answer, and does not have to wait for the line about it as well.  A warning is a line at once, after those notes.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._logger = structlog.get_logger()
        self._monotonic = monotonic
        self._said: MutableMapping[str, float] = {}
        self._waiting: deque[tuple[Context, str, Mapping[str, object]]] = deque()

    def note(self, event: str, **facts: object) -> None:
        """Log at level info."""
        loop = _loop()
        if loop is None:
            self._logger.info(event, **facts)
            return
        self._waiting.append((copy_context(), event, facts))
        loop.call_soon(self._catch_up)

    def warn(self, event: str, **facts: object) -> None:
        """Log at level warning, unless exactly the same was logged within :data:`REPEAT`."""
        if _loop() is not None:
            self._catch_up()
        key = repr((event, sorted(facts.items())))
        now = self._monotonic()
        last = self._said.pop(key, None)
        if last is not None and now - last < REPEAT:
            self._said[key] = last
            return
        self._said[key] = now
        while len(self._said) > _REMEMBERED:
            del self._said[next(iter(self._said))]
        self._logger.warning(event, **facts)

    def lost(self, what: str, error: BaseException) -> None:
        """Log what a storage job raised for which nobody waits any more."""
        self.warn("an abandoned storage job failed", job=what, fault=type(error).__name__, reason=str(error))

    def _catch_up(self) -> None:
        """Make lines of the notes that wait, in the event loop's thread, which alone lets notes wait."""
        while self._waiting:
            context, event, facts = self._waiting.popleft()
            context.run(self._logger.info, event, **facts)


def _loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of this thread, ``None`` if there is none: in the storage thread, and before the start."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
