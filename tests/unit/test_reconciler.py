"""When to reconcile."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.runtime import MemoryRuntime
from app import reconciler as module
from app.reconciler import Reconciler
from app.use_cases.reconcile import Reconcile, Reconciled
from domain.evidence import Unknown
from tests.unit.house import Heard

NEVER = 3600.0
DONE = Reconciled(runtime=Unknown("a test"), checkpoint=Unknown("a test"), effects=())


class Scripted(Reconcile):
    """A reconcile that does what it is told, and counts."""

    def __init__(self) -> None:  # nothing of the real one's parts
        self.runs: list[bool] = []
        self.at_once = 0
        self.most_at_once = 0
        self.error: Exception | None = None
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self, *, dry_run: bool = False) -> Reconciled:
        self.runs.append(dry_run)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.go_on.wait()
            await asyncio.sleep(0)
            if self.error is not None:
                raise self.error
        finally:
            self.at_once -= 1
        return DONE


@pytest.fixture
def reconcile() -> Scripted:
    return Scripted()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def runtime() -> MemoryRuntime:
    return MemoryRuntime(ManualClock())


@pytest.fixture
def reconciler(reconcile: Scripted, runtime: MemoryRuntime, heard: Heard) -> Reconciler:
    """One that runs when it is wanted, and at no interval that a test lives to see."""
    return Reconciler(reconcile=reconcile, runtime=runtime, reports=heard, interval=NEVER)


@asynccontextmanager
async def running(reconciler: Reconciler, *, follow: bool = False) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(reconciler.run())]
    if follow:
        tasks.append(asyncio.create_task(reconciler.follow()))
    try:
        yield
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the counters have no event
            await asyncio.sleep(0)


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_nothing_is_done_before_somebody_wants_it(reconciler: Reconciler, reconcile: Scripted) -> None:
    """The first registration wants it: what is slow comes after."""
    async with running(reconciler):
        await turns()
        assert reconcile.runs == []
        reconciler.trigger()
        await until(lambda: reconcile.runs == [False])


async def test_it_runs_at_the_interval_when_nobody_wants_it(
    reconcile: Scripted, runtime: MemoryRuntime, heard: Heard
) -> None:
    async with running(Reconciler(reconcile=reconcile, runtime=runtime, reports=heard, interval=0.001)):
        await until(lambda: len(reconcile.runs) >= 3)


async def test_each_turn_tells_how_long_it_may_take_until_the_next(reconciler: Reconciler) -> None:
    """Whoever watches over it takes it for hung after that."""
    told: list[float] = []
    task = asyncio.create_task(reconciler.run(told.append))
    await until(lambda: told == [NEVER + module.LATEST])
    reconciler.trigger()
    await until(lambda: told == [NEVER + module.LATEST, module.LONGEST, NEVER + module.LATEST])
    task.cancel()
    await asyncio.wait((task,))

    assert len(told) == 3


async def test_many_wishes_until_it_runs_are_one(reconciler: Reconciler, reconcile: Scripted) -> None:
    async with running(reconciler):
        for _ in range(5):
            reconciler.trigger()
        await turns()

        assert len(reconcile.runs) == 1


async def test_a_wish_while_it_runs_makes_it_run_once_more(reconciler: Reconciler, reconcile: Scripted) -> None:
    """What suggests it may have happened after the node was read."""
    async with running(reconciler):
        reconcile.go_on.clear()
        reconciler.trigger()
        await until(lambda: reconcile.at_once == 1)
        reconciler.trigger()
        reconcile.go_on.set()
        await until(lambda: len(reconcile.runs) == 2)
        await turns()

        assert len(reconcile.runs) == 2


async def test_two_never_run_at_a_time(reconcile: Scripted, runtime: MemoryRuntime, heard: Heard) -> None:
    reconciler = Reconciler(reconcile=reconcile, runtime=runtime, reports=heard, interval=0.001)
    async with running(reconciler):
        await asyncio.gather(*(reconciler.once() for _ in range(5)), reconciler.once(dry_run=True))

        assert reconcile.most_at_once == 1
        assert True in reconcile.runs


async def test_one_that_fails_is_reported_and_the_next_one_comes(
    reconciler: Reconciler, reconcile: Scripted, heard: Heard
) -> None:
    async with running(reconciler):
        reconciler.trigger()
        await until(lambda: reconciler.last is DONE)
        reconcile.error = RuntimeError("a mistake")
        reconciler.trigger()
        await until(lambda: heard.warned == ["a reconcile failed"])
        assert reconciler.last is None
        reconcile.error = None
        reconciler.trigger()
        await until(lambda: reconciler.last is DONE)

    assert heard.facts("a reconcile failed") == {"fault": "RuntimeError", "reason": "a mistake"}


async def test_a_dry_run_is_not_remembered_as_the_last(reconciler: Reconciler) -> None:

    assert await reconciler.once(dry_run=True) is DONE
    assert reconciler.last is None


async def test_the_one_who_asked_for_a_run_gets_what_it_raises(reconciler: Reconciler, reconcile: Scripted) -> None:
    reconcile.error = RuntimeError("a mistake")
    with pytest.raises(RuntimeError):
        await reconciler.once()


class TestHintsOfTheRuntime:
    @pytest.fixture(autouse=True)
    def _no_pauses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "PAUSE", 0.0)
        monkeypatch.setattr(module, "RETRY", 0.001)

    async def test_are_not_followed_before_the_first_reconcile(
        self, reconciler: Reconciler, reconcile: Scripted, runtime: MemoryRuntime
    ) -> None:
        """The first hint comes as soon as the feed is up, and nothing slow may come before registering."""
        async with running(reconciler, follow=True):
            runtime.add_sandbox(uid="1", namespace="telco", name="cnf")
            await turns()

            assert reconcile.runs == []

    async def test_make_it_run(self, reconciler: Reconciler, reconcile: Scripted, runtime: MemoryRuntime) -> None:
        async with running(reconciler, follow=True):
            reconciler.trigger()
            await until(lambda: len(reconcile.runs) == 2)  # the second for the feed that is up
            await turns()
            runtime.add_sandbox(uid="1", namespace="telco", name="cnf")
            await until(lambda: len(reconcile.runs) == 3)

    async def test_are_asked_for_again_when_the_runtime_is_back(
        self, reconciler: Reconciler, reconcile: Scripted, runtime: MemoryRuntime
    ) -> None:
        runtime.cut()
        async with running(reconciler, follow=True):
            reconciler.trigger()
            await until(lambda: len(reconcile.runs) == 1)
            await turns()
            runtime.restore()
            await until(lambda: len(reconcile.runs) == 2)
