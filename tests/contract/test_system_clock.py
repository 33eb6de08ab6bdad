"""The node's clock keeps the port's promises."""

from datetime import UTC, datetime

import pytest

from adapters.system.clock import SystemClock
from tests.contract.clock import ClockContract, Stage


class _Stage:
    def __init__(self) -> None:
        self.clock = SystemClock()

    def pass_time(self) -> None:
        now, monotonic = self.clock.now(), self.clock.monotonic()
        while self.clock.now() <= now or self.clock.monotonic() <= monotonic:
            pass


class TestSystemClock(ClockContract):
    @pytest.fixture
    def stage(self) -> Stage:
        return _Stage()

    def test_it_tells_the_node_s_time(self, stage: _Stage) -> None:
        before = datetime.now(UTC)
        told = stage.clock.now()

        assert before <= told <= datetime.now(UTC)
