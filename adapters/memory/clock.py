"""A clock that stands still until it is told to go on."""

from datetime import UTC, datetime, timedelta
from typing import Final

_BEGINNING: Final = datetime(2030, 1, 1, tzinfo=UTC)


class ManualClock:
    """A :class:`~domain.ports.clock.Clock` moved by hand.

    Args:
        monotonic: seconds at which it begins; not zero, so that no rule may take zero for "long ago".
        now: time of day at which it begins.
    """

    def __init__(self, monotonic: float = 1000.0, now: datetime = _BEGINNING) -> None:
        self._monotonic = monotonic
        self._now = now

    def monotonic(self) -> float:
        """See the port."""
        return self._monotonic

    def now(self) -> datetime:
        """See the port."""
        return self._now

    # Levers.

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: time does not go back; see :meth:`set_back`.
        """
        if seconds < 0:
            raise ValueError("monotonic time never goes back")
        self._monotonic += seconds
        self._now += timedelta(seconds=seconds)

    def set_back(self, seconds: float) -> None:
        """Set the time of day back, or forward if negative, as an administrator or NTP does."""
        self._now -= timedelta(seconds=seconds)
