"""Time."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The two times that there are.

    * ``monotonic`` never goes back and is what rules compare; its zero means nothing.
    * ``now`` is wall-clock time in UTC, for people and for the journal; no rule depends on it.
    """

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        ...

    def now(self) -> datetime:
        """Return the time of day, with UTC as its zone."""
        ...
