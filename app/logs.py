"""Log lines: one JSON object a line on stderr, or text for people in front of a terminal.

Use cases and adapters say what happened through the port :class:`domain.ports.reports.Reports`; here it becomes
lines.  Secrets cannot get into one: the domain's type for them shows a mask, and nothing else holds their text.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, MutableMapping
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
    """Makes log lines of reports; keeps :class:`domain.ports.reports.Reports`."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._logger = structlog.get_logger()
        self._monotonic = monotonic
        self._said: MutableMapping[str, float] = {}

    def note(self, event: str, **facts: object) -> None:
        """Log at level info."""
        self._logger.info(event, **facts)

    def warn(self, event: str, **facts: object) -> None:
        """Log at level warning, unless exactly the same was logged within :data:`REPEAT`."""
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
