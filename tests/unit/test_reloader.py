"""Taking a changed configuration over: when, how often, and what a failure leaves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from adapters.memory.worker import InlineWorker
from app.health import Phase
from app.reloader import Reloader
from app.settings import Effective, PoolSettings, Settings
from tests.unit.house import FAST, OTHER, RESOURCE, House

REFUSED = "the configuration was not reloaded; the one before stays in force"


class Rereading:
    """What is found when the configuration is read again."""

    def __init__(self, house: House) -> None:
        self.before: Settings = house.container.settings()
        self.pools: tuple[PoolSettings, ...] = self.before.pools
        self.error: Exception | None = None
        self.times = 0

    def __call__(self) -> Effective:
        self.times += 1
        if self.error is not None:
            raise self.error
        return Effective(self.before.model_copy(update={"pools": self.pools}), ())


class Scene:
    def __init__(self, house: House) -> None:
        self.house = house
        self.worker = InlineWorker()
        self.found = Rereading(house)
        house.container.settings_worker.override(self.worker)
        self.reloader: Reloader = house.container.reloader(reread=self.found)
        house.container.health().enter(Phase.SERVING)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop turn until something is true."""
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 -- turns of the loop are all that passes
                await asyncio.sleep(0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have it run for the length of a block."""
        run = asyncio.create_task(self.reloader.run())
        try:
            yield
        finally:
            run.cancel()
            await asyncio.wait((run,))

    @property
    def reasons(self) -> list[object]:
        """Why configurations were refused."""
        return [facts["reason"] for event, facts in self.house.heard.warnings if event == REFUSED]


@pytest.fixture
async def scene() -> Scene:
    return Scene(await House().recover())


async def test_what_is_wanted_several_times_at_once_is_done_once(scene: Scene) -> None:
    for _ in range(5):
        scene.reloader.trigger()
    async with scene.running():
        await scene.until(lambda: scene.house.measures.reloads == [True])
        for _ in range(20):
            await asyncio.sleep(0)

    assert scene.found.times == 1


async def test_what_is_wanted_while_one_is_going_on_is_done_after_it(scene: Scene) -> None:
    scene.worker.hold()
    scene.reloader.trigger()
    async with scene.running():
        await scene.until(lambda: len(scene.worker.asked) == 1)
        scene.found.pools = (*scene.found.pools, FAST)
        scene.reloader.trigger()
        scene.worker.resume()
        await scene.until(lambda: len(scene.house.measures.reloads) == 2)

    assert list(scene.house.state.pools) == [RESOURCE, OTHER]
    assert scene.reloader.settings.pools == scene.found.pools


async def test_nothing_is_taken_over_while_somebody_must_not_meet_it_half_done(scene: Scene) -> None:
    scene.reloader.trigger()
    async with scene.running():
        async with scene.reloader.turn:
            for _ in range(20):
                await asyncio.sleep(0)
            assert scene.found.times == 0
        await scene.until(lambda: scene.found.times == 1)


@pytest.mark.parametrize("error", [ValueError("what nobody foresaw"), OSError(5, "Input/output error")])
async def test_whatever_goes_wrong_the_one_before_is_still_good(scene: Scene, error: Exception) -> None:
    before = scene.house.state.configuration.loaded
    scene.found.error = error
    async with scene.running():
        scene.reloader.trigger()
        await scene.until(lambda: scene.house.measures.reloads == [False])
        scene.found.error = None
        scene.house.clock.advance(1)
        scene.reloader.trigger()
        await scene.until(lambda: scene.house.measures.reloads == [False, True])

    assert scene.reasons == [str(error)]
    assert scene.house.state.configuration.error is None
    assert scene.house.state.configuration.loaded > before


async def test_a_file_on_storage_that_hangs_is_given_up(scene: Scene) -> None:
    scene.worker.late_next()
    async with scene.running():
        scene.reloader.trigger()
        await scene.until(lambda: scene.house.measures.reloads == [False])

    assert scene.reasons == ["reading the configuration took longer than 5 s; the node's storage is slow or hangs"]
    assert scene.house.state.configuration.error == scene.reasons[0]


async def test_a_standby_serves_nothing_of_it_yet(scene: Scene) -> None:
    scene.house.container.health().enter(Phase.STANDBY)
    scene.found.pools = (FAST,)
    asked = list(scene.house.worker.asked)
    async with scene.running():
        scene.reloader.trigger()
        await scene.until(lambda: scene.house.measures.reloads == [True])

    assert list(scene.house.state.pools) == [OTHER]
    assert scene.house.worker.asked == asked


async def test_who_is_about_to_leave_takes_nothing_over(scene: Scene) -> None:
    scene.house.container.health().enter(Phase.STOPPING)
    async with scene.running():
        scene.reloader.trigger()
        for _ in range(20):
            await asyncio.sleep(0)

    assert (scene.found.times, scene.house.measures.reloads) == (0, [])


async def test_without_anything_to_read_again_nothing_is_said() -> None:
    house = await House().recover()
    reloader = house.container.reloader()
    run = asyncio.create_task(reloader.run())
    reloader.trigger()
    for _ in range(20):
        await asyncio.sleep(0)
    run.cancel()
    await asyncio.wait((run,))

    assert house.measures.reloads == []
    assert REFUSED not in house.heard.warned
