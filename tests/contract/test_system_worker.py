"""The storage thread keeps the port's promises."""

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from adapters.memory.clock import ManualClock
from adapters.system.worker import ThreadWorker, WorkerClosed
from tests.contract.worker import BUDGET, Stage, WorkerContract, given_up, turns

T = TypeVar("T")


class _Stage:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.lost: list[tuple[str, BaseException]] = []
        self.clock = ManualClock()
        self.worker = ThreadWorker(lambda what, error: self.lost.append((what, error)), self.clock)
        self._gate = threading.Event()
        self._begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._holding: set[asyncio.Task[None]] = set()

    async def hold(self) -> None:
        self._holding.add(asyncio.create_task(self.worker.run("hold", self.hanging(lambda: None))))
        await self.begun()

    def hanging(self, job: Callable[[], T]) -> Callable[[], T]:
        def work() -> T:
            self._loop.call_soon_threadsafe(self._begun.set)
            self._gate.wait()
            return job()

        return work

    async def begun(self) -> None:
        await self._begun.wait()

    def spend(self) -> None:
        """Set the loop's clock forward, by which it keeps its timers."""
        now = self._loop.time() + BUDGET
        self._monkeypatch.setattr(self._loop, "time", lambda: now)

    async def resume(self) -> None:
        self._gate.set()
        await self.worker.run("last", lambda: None)
        await asyncio.gather(*self._holding)

    async def close(self) -> None:
        self._monkeypatch.undo()
        self._gate.set()
        assert await self.worker.aclose(10)


class TestThreadWorker(WorkerContract):
    @pytest.fixture
    async def stage(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
        stage = _Stage(monkeypatch)
        yield stage
        await stage.close()

    async def test_all_jobs_and_undos_run_in_one_thread_that_is_not_the_loop_s(self, stage: _Stage) -> None:
        threads = [await stage.worker.run("who", threading.get_ident) for _ in range(3)]
        task = asyncio.create_task(
            stage.worker.run("a", stage.hanging(lambda: None), undo=lambda _: threads.append(threading.get_ident()))
        )
        await stage.begun()
        await given_up(task)
        await stage.resume()

        assert len(threads) == 4
        assert len(set(threads)) == 1
        assert threads[0] != threading.get_ident()

    async def test_the_thread_starts_with_the_first_job(self) -> None:
        before = threading.active_count()
        worker = ThreadWorker(lambda _what, _error: None, ManualClock())
        unused = threading.active_count()
        await worker.run("a", lambda: None)
        used = threading.active_count()
        await worker.aclose()

        assert (unused, used, threading.active_count()) == (before, before + 1, before)

    async def test_a_hanging_job_can_be_told_from_an_idle_worker(self, stage: _Stage) -> None:
        idle = stage.worker.busy_since
        stage.clock.advance(5)
        began = stage.clock.monotonic()
        task = asyncio.create_task(stage.worker.run("hang", stage.hanging(lambda: None)))
        await stage.begun()
        stage.clock.advance(60)
        hanging = stage.worker.busy_since
        await stage.resume()
        await task

        assert idle is None
        assert hanging == began
        assert stage.worker.busy_since is None

    async def test_closing_finishes_what_is_queued_and_takes_no_more(self, stage: _Stage) -> None:
        await stage.hold()
        queued = asyncio.create_task(stage.worker.run("a", lambda: 1))
        await turns()
        closing = asyncio.create_task(stage.worker.aclose())
        await turns()
        with pytest.raises(WorkerClosed, match="b was not begun"):
            await stage.worker.run("b", lambda: 2)
        stage._gate.set()

        assert await queued == 1
        assert await closing
        assert await stage.worker.aclose()

    async def test_closing_does_not_wait_longer_than_it_is_told_for_a_job_that_hangs(self, stage: _Stage) -> None:
        await stage.hold()

        assert not await stage.worker.aclose(0.01)
        assert not await stage.worker.aclose(0)
        assert not stage.worker.close(0.01)

    async def test_it_can_be_closed_from_outside_of_the_loop(self) -> None:
        worker = ThreadWorker(lambda _what, _error: None, ManualClock())
        await worker.run("a", lambda: None)

        assert worker.close(10)
        assert worker.close()

    async def test_closing_a_worker_that_did_nothing_is_fine(self) -> None:
        worker = ThreadWorker(lambda _what, _error: None, ManualClock())

        assert worker.close()
        assert await worker.aclose()

    async def test_a_caller_who_leaves_after_the_end_of_the_thread_has_the_result_undone_too(
        self, stage: _Stage
    ) -> None:
        undone: list[int] = []
        task = asyncio.create_task(stage.worker.run("a", lambda: 1, undo=undone.append))
        await asyncio.sleep(0)
        # Blocks the loop, so the outcome cannot have been delivered.
        assert stage.worker.close(10)
        await given_up(task)

        assert undone == [1]

    async def test_a_job_that_raises_stop_iteration_does_not_leave_its_caller_waiting(self, stage: _Stage) -> None:
        """A future refuses to carry that one exception."""

        def job() -> None:
            raise StopIteration

        with pytest.raises(RuntimeError, match="StopIteration"):
            await stage.worker.run("a", job)

    async def test_nothing_keeps_a_result_alive_while_the_worker_waits(self, stage: _Stage) -> None:
        class Big:
            pass

        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        seen = weakref.ref(await stage.worker.run("a", Big), lambda _: loop.call_soon_threadsafe(gone.set))
        # The thread lets go of it just before it waits again.
        if seen() is not None:
            await asyncio.wait_for(gone.wait(), 10)

        assert seen() is None

    async def test_failures_leave_no_garbage_in_circles(self, stage: _Stage) -> None:
        def fail() -> None:
            raise OSError("no")

        async def once() -> None:
            with suppress(OSError):
                await stage.worker.run("a", fail)

        await once()
        gc.collect()
        gc.disable()
        try:
            errors = [id(each) for each in gc.get_objects() if isinstance(each, OSError)]
            await once()
            left = [each for each in gc.get_objects() if isinstance(each, OSError) and id(each) not in errors]
        finally:
            gc.enable()

        assert left == []

    async def test_a_report_that_fails_does_not_end_the_thread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shown: list[threading.ExceptHookArgs] = []
        monkeypatch.setattr(threading, "excepthook", shown.append)

        def lost(_what: str, _error: BaseException) -> None:
            raise BrokenPipeError

        worker = ThreadWorker(lost, ManualClock())
        gate, begun = threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def job() -> None:
            loop.call_soon_threadsafe(begun.set)
            gate.wait()
            raise OSError

        task = asyncio.create_task(worker.run("a", job))
        await begun.wait()
        await given_up(task)
        gate.set()

        assert await worker.run("b", lambda: 1) == 1
        assert [each.exc_type for each in shown] == [BrokenPipeError]
        assert await worker.aclose()


def test_a_job_that_ends_after_its_event_loop_is_undone() -> None:
    """The daemon's loop may be gone while a disk still hangs."""
    undone: list[int] = []
    gate = threading.Event()
    worker = ThreadWorker(lambda _what, _error: None, ManualClock())

    async def leave() -> None:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def job() -> int:
            loop.call_soon_threadsafe(begun.set)
            gate.wait()
            return 7

        task = asyncio.create_task(worker.run("a", job, undo=undone.append))
        await begun.wait()
        await given_up(task)

    asyncio.run(leave())
    gate.set()

    assert worker.close(10)
    assert undone == [7]


def test_a_job_that_ends_while_its_loop_is_closed_under_its_caller_is_undone_once() -> None:
    """Without the cancellation that a well-behaved end of a loop sends; the caller is thrown away later."""
    undone: list[int] = []
    gate, begun = threading.Event(), threading.Event()
    worker = ThreadWorker(lambda _what, _error: None, ManualClock())

    def job() -> int:
        begun.set()
        gate.wait()
        return 7

    async def start() -> Coroutine[Any, Any, int]:
        call = worker.run("a", job, undo=undone.append)
        call.send(None)
        return call

    call = asyncio.run(start())
    begun.wait()
    gate.set()
    closed = worker.close(10)
    undone_by_then = list(undone)
    call.close()

    assert closed
    assert undone_by_then == [7]
    assert undone == [7]
