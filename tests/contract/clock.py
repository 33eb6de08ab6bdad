"""What every :class:`~domain.ports.clock.Clock` promises."""

from datetime import UTC
from typing import Protocol

from domain.ports.clock import Clock


class Stage(Protocol):
    """A clock, and time that passes."""

    @property
    def clock(self) -> Clock:
        """The clock."""
        ...

    def pass_time(self) -> None:
        """Let some time pass, however little."""
        ...


class ClockContract:
    """Subclass this for an adapter, with a fixture ``stage``."""

    def test_monotonic_time_goes_on_and_never_back(self, stage: Stage) -> None:
        before = stage.clock.monotonic()
        stage.pass_time()
        after = stage.clock.monotonic()

        assert before < after
        assert after <= stage.clock.monotonic()

    def test_the_time_of_day_is_in_utc_and_goes_on(self, stage: Stage) -> None:
        before = stage.clock.now()
        stage.pass_time()
        after = stage.clock.now()

        assert before.tzinfo is UTC
        assert after.tzinfo is UTC
        assert before < after
