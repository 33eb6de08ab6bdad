"""The worker without a thread keeps the port's promises."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from adapters.memory.worker import InlineWorker
from domain.ports.worker import OverBudget
from tests.contract.worker import Stage, WorkerContract, turns

T = TypeVar("T")


class _Stage:
    def __init__(self) -> None:
        self.worker = InlineWorker()
        self.lost = self.worker.lost

    async def hold(self) -> None:
        self.worker.hold()

    def hanging(self, job: Callable[[], T]) -> Callable[[], T]:
        self.worker.hang_next()
        return job

    async def begun(self) -> None:
        await turns()
        assert self.worker.busy

    def spend(self) -> None:
        self.worker.spend()

    async def resume(self) -> None:
        self.worker.resume()
        await turns()


class TestInlineWorker(WorkerContract):
    @pytest.fixture
    def stage(self) -> Stage:
        return _Stage()

    async def test_it_remembers_what_it_was_asked(self, stage: _Stage) -> None:
        await stage.worker.run("a", lambda: None)
        await stage.worker.run("b", lambda: None)

        assert stage.worker.asked == ["a", "b"]

    async def test_a_job_is_done_at_once(self, stage: _Stage) -> None:
        seen: list[str] = []
        task = asyncio.create_task(stage.worker.run("a", lambda: seen.append("done")))
        await asyncio.sleep(0)

        assert seen == ["done"]
        await task

    async def test_a_failure_can_be_ordered(self, stage: _Stage) -> None:
        seen: list[str] = []
        stage.worker.fail_next(OSError("the disk is gone"))
        with pytest.raises(OSError, match="the disk is gone"):
            await stage.worker.run("a", lambda: seen.append("a"))
        await stage.worker.run("b", lambda: seen.append("b"))

        assert seen == ["b"]

    async def test_a_job_that_takes_longer_than_its_budget_can_be_ordered(self, stage: _Stage) -> None:
        seen: list[str] = []
        stage.worker.late_next()
        with pytest.raises(OverBudget):
            await stage.worker.run("a", lambda: seen.append("job"), undo=lambda _: seen.append("undo"), budget=2.0)
        before = list(seen)
        await stage.resume()

        assert before == []
        assert seen == ["job", "undo"]

    async def test_a_late_job_without_a_budget_is_waited_for(self, stage: _Stage) -> None:
        stage.worker.late_next()
        task = asyncio.create_task(stage.worker.run("a", lambda: 1))
        await stage.begun()
        await stage.resume()

        assert await task == 1
