"""Figures: what is measured now."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from app.use_cases.figures import TellFigures
from domain.figures import Figures, PoolFigures, Source
from domain.ledger import Standing
from domain.ports.kubelet import Registration
from domain.resource import ResourceName
from tests.unit.house import FAST, OTHER, RESOURCE, STRANGE_ID, House, an_answer, dev


class Standings:
    """How pools stand with the kubelet, as somebody put it here."""

    def __init__(self) -> None:
        self.obstacle: str | None = None
        self.kubelet_restarts = 0
        self.pools: dict[ResourceName, Registration] = {}

    def registrations(self) -> Mapping[ResourceName, Registration]:
        return self.pools


class Scene:
    """A house and what is measured of it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.standings = Standings()
        self._figures = TellFigures(
            state=house.state,
            registrations=self.standings,
            plugins=house.container.pools(),
            clock=house.clock,
        )

    def __call__(self) -> Figures:
        return self._figures()

    def pool(self, resource: ResourceName = RESOURCE) -> PoolFigures:
        """Return the figures of one pool."""
        (found,) = [each for each in self._figures().pools if each.resource == resource]
        return found


@pytest.fixture
async def scene() -> Scene:
    house = await House().recover()
    house.another_pod_runs()
    return Scene(house)


async def test_at_first_every_device_is_healthy_and_nothing_is_held(scene: Scene) -> None:
    assert scene().pools == (PoolFigures(resource=RESOURCE, healthy=100),)
    assert scene().kubelet_restarts == 0


async def test_every_pool_has_figures_of_its_own() -> None:
    house = await House(FAST).recover()
    scene = Scene(house)
    await house.allocate([dev(1, OTHER)], pool=OTHER)

    assert scene.pool(OTHER).pending == 1
    assert [each.resource for each in scene().pools] == [OTHER]


async def test_an_allocation_is_pending_until_its_owner_is_known(scene: Scene) -> None:
    name = await scene.house.granted(dev(1))
    before = scene.pool()
    scene.house.runs(name)
    await scene.house.reconcile()

    assert (before.pending, before.bound) == (1, 0)
    assert (scene.pool().pending, scene.pool().bound, scene.pool().oldest_pending) == (0, 1, 0.0)


async def test_the_oldest_pending_one_tells_its_age(scene: Scene) -> None:
    await scene.house.granted(dev(1))
    scene.house.clock.advance(30)
    await scene.house.granted(dev(2))
    scene.house.clock.advance(10)

    assert scene.pool().oldest_pending == 40


async def test_a_clock_that_was_set_back_makes_no_age_below_zero(scene: Scene) -> None:
    await scene.house.granted(dev(1))
    scene.house.clock.set_back(3600)

    assert scene.pool().oldest_pending == 0.0


@pytest.mark.parametrize("standing", [Standing.RELEASING, Standing.FORCED])
async def test_what_does_not_live_any_more_is_not_counted(scene: Scene, standing: Standing) -> None:
    name = await scene.house.granted(dev(1))
    scene.house.stand(name, standing)

    assert (scene.pool().pending, scene.pool().bound) == (0, 0)


async def test_allocations_of_a_resource_without_a_pool_are_counted_all_the_same(scene: Scene) -> None:
    await scene.house.granted(dev(1))
    pool = scene.house.state.pools.pop(RESOURCE)

    assert scene().pools == (PoolFigures(resource=RESOURCE, pending=1),)
    scene.house.state.pools[RESOURCE] = pool


async def test_withdrawn_devices_are_unhealthy(scene: Scene) -> None:
    scene.house.state.draining = True

    assert (scene.pool().healthy, scene.pool().unhealthy) == (0, 100)


async def test_how_a_pool_stands_with_the_kubelet_is_part_of_it(scene: Scene) -> None:
    scene.standings.pools[RESOURCE] = Registration(registered=True, streams=2, registrations=5, failures=3)
    scene.standings.kubelet_restarts = 4
    found = scene.pool()

    assert (found.registered, found.streams, found.registrations, found.failures) == (True, 2, 5, 3)
    assert scene().kubelet_restarts == 4


class TestUnknownViews:
    """Seconds of the monotonic clock: a node's time of day may jump at boot."""

    async def test_a_view_is_unknown_from_when_we_became_active_until_it_is_read(self, scene: Scene) -> None:
        scene.house.clock.advance(12)
        before = scene().unknown
        await scene.house.reconcile()

        assert before == {Source.RUNTIME: 12, Source.CHECKPOINT: 0}  # recovery has read the kubelet's record
        assert scene().unknown == {Source.RUNTIME: 0, Source.CHECKPOINT: 0}

    async def test_a_view_that_was_lost_is_unknown_since_then(self, scene: Scene) -> None:
        await scene.house.reconcile()
        scene.house.clock.advance(100)
        scene.house.runtime.cut("connection refused")
        await scene.house.reconcile()
        scene.house.clock.advance(50)
        await scene.house.reconcile()
        scene.house.clock.set_back(-86400)

        assert scene().unknown == {Source.RUNTIME: 50, Source.CHECKPOINT: 0}

    async def test_what_a_standby_did_not_know_is_not_counted(self) -> None:
        house = House()
        house.clock.advance(1000)
        await house.recover()

        assert Scene(house)().unknown[Source.RUNTIME] == 0


class TestLongUnknownViews:
    """Reported once each time: nothing is released meanwhile."""

    LONG = "a view of the node has been unknown for long; nothing is released until it is known"
    AGAIN = "a view of the node is known again"

    async def test_five_minutes_are_long(self, scene: Scene) -> None:
        tell = scene.house.container.unknown_views()
        await scene.house.reconcile()
        scene.house.runtime.cut("connection refused")
        since = scene.house.clock.now()
        await scene.house.reconcile()
        scene.house.clock.advance(299)
        tell()
        assert self.LONG not in scene.house.heard.warned
        scene.house.clock.advance(1)
        tell()

        assert scene.house.heard.facts(self.LONG) == {
            "view": "runtime",
            "seconds": 300,
            "since": since.isoformat(),
            "reason": "connection refused",
        }

    async def test_it_is_said_once_and_when_it_is_over_and_again_the_next_time(self, scene: Scene) -> None:
        tell = scene.house.container.unknown_views()
        with self._cut(scene):
            await scene.house.reconcile()
            for _ in range(3):
                scene.house.clock.advance(300)
                tell()
        await scene.house.reconcile()
        tell()
        tell()
        assert scene.house.heard.warned.count(self.LONG) == 1
        assert scene.house.heard.facts(self.AGAIN) == {"view": "runtime"}
        with self._cut(scene):
            await scene.house.reconcile()
            scene.house.clock.advance(300)
            tell()

        assert scene.house.heard.warned.count(self.LONG) == 2

    async def test_the_kubelets_record_is_watched_too(self, scene: Scene) -> None:
        scene.house.checkpoint.lose()
        await scene.house.reconcile()
        scene.house.clock.advance(300)
        scene.house.container.unknown_views()()

        assert scene.house.heard.facts(self.LONG)["view"] == "checkpoint"

    @staticmethod
    @contextmanager
    def _cut(scene: Scene) -> Iterator[None]:
        scene.house.runtime.cut("connection refused")
        yield
        scene.house.runtime.restore()


async def test_an_adopted_allocation_counts_like_a_granted_one(scene: Scene) -> None:
    scene.house.store(an_answer(STRANGE_ID), dev(3))
    await scene.house.reconcile()

    assert scene.pool().pending == 1
