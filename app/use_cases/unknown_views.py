"""Views that stay unknown: nothing is released meanwhile, so somebody has to know."""

from datetime import datetime
from typing import Final

from app.use_cases.state import State
from domain.evidence import Unknown
from domain.figures import Source
from domain.ports.reports import Reports

LONG: Final = 300.0
"""Seconds after which it is reported: restarts of a runtime or a kubelet take less."""


class TellUnknownViews:
    """Reports each view that has been unknown for long, once each time, and when it is known again."""

    def __init__(self, *, state: State, reports: Reports) -> None:
        self._state = state
        self._reports = reports
        self._told: set[Source] = set()

    def __call__(self) -> None:
        """Look once."""
        for source in Source:
            seconds = self._state.unknown_for(source)
            if seconds >= LONG and source not in self._told:
                self._told.add(source)
                self._reports.warn(
                    "a view of the node has been unknown for long; nothing is released until it is known",
                    view=source.value,
                    seconds=round(seconds),
                    since=self._since(source).isoformat(),
                    reason=self._reason(source),
                )
            elif seconds == 0 and source in self._told:
                self._told.remove(source)
                self._reports.note("a view of the node is known again", view=source.value)

    def _since(self, source: Source) -> datetime:
        return self._state.runtime_since if source is Source.RUNTIME else self._state.checkpoint_since

    def _reason(self, source: Source) -> str | None:
        view = self._state.runtime if source is Source.RUNTIME else self._state.checkpoint
        return view.reason if isinstance(view, Unknown) else None
