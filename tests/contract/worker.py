"""What every :class:`~domain.ports.worker.Worker` promises."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

import pytest

from domain.ports.worker import OverBudget, Worker

T = TypeVar("T")

BUDGET = 60.0
"""Seconds; never spent by itself in a test, only by :meth:`Stage.spend`."""


class Stage(Protocol):
    """A worker that can be made to wait, and what it reported."""

    @property
    def worker(self) -> Worker:
        """The worker."""
        ...

    @property
    def lost(self) -> list[tuple[str, BaseException]]:
        """What abandoned jobs raised."""
        ...

    async def hold(self) -> None:
        """Keep the worker busy, so that no job begins until :meth:`resume`."""
        ...

    def hanging(self, job: Callable[[], T]) -> Callable[[], T]:
        """Return a job for the next call that begins, hangs until :meth:`resume`, and then does what it does."""
        ...

    async def begun(self) -> None:
        """Wait until the hanging job has begun."""
        ...

    def spend(self) -> None:
        """Let the time pass in which all budgets are spent."""
        ...

    async def resume(self) -> None:
        """Let everything go on, and wait until nothing is left to do."""
        ...


class Trouble(Exception):
    """What a job of these tests raises."""


async def turns() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def given_up(task: "asyncio.Task[T]") -> None:
    """Cancel a task and wait until it has ended."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()


class WorkerContract:
    """Subclass this for an adapter, with a fixture ``stage``."""

    async def test_a_job_s_result_reaches_its_caller(self, stage: Stage) -> None:
        assert await stage.worker.run("count", lambda: 42) == 42
        assert await stage.worker.run("count", lambda: 43, budget=BUDGET, undo=lambda _: None) == 43

    @pytest.mark.parametrize("budget", [None, BUDGET])
    async def test_what_a_job_raises_reaches_its_caller(self, stage: Stage, budget: float | None) -> None:
        trouble, undone = Trouble("no"), list[None]()

        def job() -> None:
            raise trouble

        with pytest.raises(Trouble) as caught:
            await stage.worker.run("fail", job, undo=undone.append, budget=budget)

        assert caught.value is trouble
        assert undone == []
        assert stage.lost == []

    async def test_a_worker_outlives_a_job_that_failed(self, stage: Stage) -> None:
        def job() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            await stage.worker.run("fail", job)

        assert await stage.worker.run("count", lambda: 1) == 1

    async def test_jobs_run_one_at_a_time_in_the_order_in_which_they_were_handed_over(self, stage: Stage) -> None:
        seen: list[str] = []

        def job(name: str) -> Callable[[], None]:
            def work() -> None:
                seen.append(f"{name} begins")
                seen.append(f"{name} ends")

            return work

        await stage.hold()
        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(stage.worker.run(name, job(name)))
            await turns()
            before = list(seen)
            await stage.resume()

        assert before == []
        assert seen == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]

    async def test_meanwhile_the_event_loop_goes_on(self, stage: Stage) -> None:
        task = asyncio.create_task(stage.worker.run("hang", stage.hanging(lambda: 1)))
        await stage.begun()
        await turns()
        waiting = not task.done()
        await stage.resume()

        assert waiting
        assert await task == 1

    async def test_a_result_that_was_delivered_is_not_undone(self, stage: Stage) -> None:
        undone: list[int] = []
        await stage.worker.run("count", lambda: 1, undo=undone.append, budget=BUDGET)
        await stage.resume()

        assert undone == []

    async def test_the_caller_hears_of_a_spent_budget_while_the_job_hangs(self, stage: Stage) -> None:
        task = asyncio.create_task(stage.worker.run("make it", stage.hanging(lambda: 1), budget=BUDGET))
        await stage.begun()
        stage.spend()
        with pytest.raises(OverBudget, match=r"make it took longer than 60 s") as caught:
            await task
        await stage.resume()

        assert caught.value.budget == BUDGET
        assert stage.lost == []

    async def test_a_job_over_budget_ends_and_is_undone_before_any_later_job(self, stage: Stage) -> None:
        """A call that was not answered leaves nothing behind."""
        seen: list[str] = []

        def job() -> str:
            seen.append("job")
            return "result"

        late = asyncio.create_task(
            stage.worker.run("a", stage.hanging(job), undo=lambda got: seen.append(f"undo {got}"), budget=BUDGET)
        )
        await stage.begun()
        later = asyncio.create_task(stage.worker.run("b", lambda: seen.append("later")))
        await turns()
        stage.spend()
        with pytest.raises(OverBudget):
            await late
        before = list(seen)
        await stage.resume()
        await later

        assert before == []
        assert seen == ["job", "undo result", "later"]

    async def test_a_cancelled_job_ends_and_is_undone_before_any_later_job(self, stage: Stage) -> None:
        seen: list[str] = []

        def job() -> str:
            seen.append("job")
            return "result"

        task = asyncio.create_task(
            stage.worker.run("a", stage.hanging(job), undo=lambda got: seen.append(f"undo {got}"))
        )
        await stage.begun()
        later = asyncio.create_task(stage.worker.run("b", lambda: seen.append("later")))
        await turns()
        await given_up(task)
        await stage.resume()
        await later

        assert seen == ["job", "undo result", "later"]

    async def test_a_job_whose_budget_is_spent_before_it_begins_is_never_begun(self, stage: Stage) -> None:
        seen: list[str] = []
        await stage.hold()
        task = asyncio.create_task(
            stage.worker.run("a", lambda: seen.append("job"), undo=lambda _: seen.append("undo"), budget=BUDGET)
        )
        await turns()
        stage.spend()
        with pytest.raises(OverBudget):
            await task
        await stage.resume()

        assert seen == []

    async def test_a_job_that_is_cancelled_before_it_begins_is_never_begun(self, stage: Stage) -> None:
        seen: list[str] = []
        await stage.hold()
        task = asyncio.create_task(
            stage.worker.run("a", lambda: seen.append("job"), undo=lambda _: seen.append("undo"))
        )
        await turns()
        await given_up(task)
        await stage.resume()

        assert seen == []

    async def test_a_result_on_its_way_to_a_caller_who_leaves_is_undone_once(self, stage: Stage) -> None:
        """The caller is cancelled when the outcome has arrived and it has not been woken up yet."""
        undone: list[int] = []
        call = stage.worker.run("a", stage.hanging(lambda: 7), undo=undone.append)
        call.send(None)
        await stage.begun()
        await stage.resume()
        before = list(undone)
        with pytest.raises(asyncio.CancelledError):
            call.throw(asyncio.CancelledError())
        await stage.resume()

        assert before == []
        assert undone == [7]

    async def test_what_an_abandoned_job_raises_is_reported_as_lost(self, stage: Stage) -> None:
        trouble, undone = Trouble("no"), list[None]()

        def job() -> None:
            raise trouble

        task = asyncio.create_task(stage.worker.run("make it", stage.hanging(job), undo=undone.append))
        await stage.begun()
        await given_up(task)
        await stage.resume()

        assert stage.lost == [("make it", trouble)]
        assert undone == []

    async def test_what_undoing_raises_is_reported_as_lost(self, stage: Stage) -> None:
        trouble = Trouble("no")

        def undo(_: int) -> None:
            raise trouble

        task = asyncio.create_task(stage.worker.run("make it", stage.hanging(lambda: 1), undo=undo))
        await stage.begun()
        await given_up(task)
        await stage.resume()

        assert stage.lost == [("undoing make it", trouble)]
        assert await stage.worker.run("count", lambda: 1) == 1
