"""The clock that is moved by hand keeps the port's promises."""

from datetime import timedelta

import pytest

from adapters.memory.clock import ManualClock
from tests.contract.clock import ClockContract, Stage


class _Stage:
    def __init__(self) -> None:
        self.clock = ManualClock()

    def pass_time(self) -> None:
        self.clock.advance(0.001)


class TestManualClock(ClockContract):
    @pytest.fixture
    def stage(self) -> Stage:
        return _Stage()

    def test_it_stands_still_by_itself(self, stage: _Stage) -> None:
        assert stage.clock.monotonic() == stage.clock.monotonic()
        assert stage.clock.now() == stage.clock.now()

    def test_both_times_advance_together(self, stage: _Stage) -> None:
        monotonic, now = stage.clock.monotonic(), stage.clock.now()
        stage.clock.advance(30)

        assert stage.clock.monotonic() == monotonic + 30
        assert stage.clock.now() == now + timedelta(seconds=30)

    def test_only_the_time_of_day_can_be_set_back(self, stage: _Stage) -> None:
        monotonic, now = stage.clock.monotonic(), stage.clock.now()
        stage.clock.set_back(3600)
        with pytest.raises(ValueError, match="never goes back"):
            stage.clock.advance(-1)

        assert stage.clock.monotonic() == monotonic
        assert stage.clock.now() == now - timedelta(hours=1)
