"""CheckHealth: devices turn unhealthy for what no pod can bring about, steadily, and come back."""

import asyncio
from collections.abc import Callable

import pytest

from app.settings import PoolSettings
from domain.pool import Health
from domain.ports.journal import JournalUnusable
from domain.ports.sockets import DirectoryUnusable, NoRoom
from domain.resource import ResourceName
from tests.unit.house import FAST, HOST_DIR, OTHER, RESOURCE, House, dev

READ_ONLY = "the file system of /var/run/contiv/memif is read-only; remount it writable"
ILL = "the devices of a pool are unhealthy"
WELL = "the devices of a pool are healthy again"


@pytest.fixture
async def house() -> House:
    return await House().recover()


async def look(house: House, times: int = 1, *, trouble: str | None = None) -> None:
    """Look so often, and let the default pool's base directory be in trouble each time."""
    for _ in range(times):
        if trouble is not None:
            house.sockets.fail_next(DirectoryUnusable(trouble))
        await house.container.check_health()()


def healthy(house: House, resource: ResourceName = RESOURCE) -> set[Health]:
    """Return which kinds of health the devices of a pool have."""
    plugins = {plugin.resource: plugin for plugin in house.container.plugins()._plugins()}
    return {device.health for device in plugins[resource].devices()}


class TestABaseDirectory:
    async def test_that_is_as_it_must_be_changes_nothing(self, house: House) -> None:
        await look(house, 5)

        assert healthy(house) == {Health.HEALTHY}
        assert house.lists.published == []
        assert house.heard.warned == []

    async def test_that_is_in_trouble_once_changes_nothing(self, house: House) -> None:
        for _ in range(3):
            await look(house, trouble=READ_ONLY)
            await look(house)

        assert healthy(house) == {Health.HEALTHY}
        assert house.lists.published == []
        assert house.heard.warned == []

    async def test_that_is_in_trouble_twice_makes_every_device_unhealthy_and_is_told_once(self, house: House) -> None:
        await look(house, 5, trouble=READ_ONLY)

        assert healthy(house) == {Health.UNHEALTHY}
        assert house.lists.published == [frozenset({RESOURCE})]
        assert house.heard.warnings == [(ILL, {"resource": RESOURCE, "reason": READ_ONLY})]

    async def test_that_is_well_twice_brings_them_back(self, house: House) -> None:
        await look(house, 2, trouble=READ_ONLY)
        await look(house)
        assert healthy(house) == {Health.UNHEALTHY}
        await look(house, 4)

        assert healthy(house) == {Health.HEALTHY}
        assert house.lists.published == [frozenset({RESOURCE})] * 2
        assert house.heard.facts(WELL) == {"resource": RESOURCE, "was": READ_ONLY}

    async def test_whose_trouble_becomes_another_is_told_again_and_sends_no_list(self, house: House) -> None:
        await look(house, 2, trouble=READ_ONLY)
        await look(house, 2, trouble="it belongs to uid 65534")

        assert [facts["reason"] for _, facts in house.heard.warnings] == [READ_ONLY, "it belongs to uid 65534"]
        assert house.lists.published == [frozenset({RESOURCE})]

    async def test_without_room_is_no_reason(self, house: House) -> None:
        """One tenant could take the devices of all others away."""
        for _ in range(5):
            house.sockets.fail_next(NoRoom("no inode is left"))
            await look(house)

        assert healthy(house) == {Health.HEALTHY}
        assert house.lists.published == []

    async def test_that_is_missing_is_made_again(self, house: House) -> None:
        house.sockets.wipe()
        await look(house)

        assert house.sockets.asked[-1] == f"open {HOST_DIR}"
        assert healthy(house) == {Health.HEALTHY}

    async def test_of_one_pool_does_not_concern_another(self) -> None:
        house = await House(FAST, PoolSettings()).recover()
        really_open: Callable[[str], None] = house.sockets.open

        def one_fails(host_dir: str) -> None:
            really_open(host_dir)
            if host_dir == HOST_DIR:
                raise DirectoryUnusable(READ_ONLY)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(house.sockets, "open", one_fails)
            await look(house, 2)

        assert (healthy(house), healthy(house, OTHER)) == ({Health.UNHEALTHY}, {Health.HEALTHY})
        assert house.lists.published == [frozenset({RESOURCE})]


class TestTheJournal:
    async def test_in_trouble_concerns_every_pool(self) -> None:
        house = await House(PoolSettings(), FAST).recover()
        house.journal.fail(JournalUnusable("its disk is full"))
        await look(house, 2)

        assert healthy(house) == healthy(house, OTHER) == {Health.UNHEALTHY}
        assert house.lists.published == [frozenset({RESOURCE}), frozenset({OTHER})]
        assert {facts["reason"] for _, facts in house.heard.warnings} == {"its disk is full"}
        house.journal.fail(None)
        await look(house, 2)
        assert healthy(house) == healthy(house, OTHER) == {Health.HEALTHY}

    async def test_is_only_checked(self, house: House) -> None:
        before = len(house.journal.asked)
        await look(house, 3)

        assert house.journal.asked[before:] == ["check"] * 3


class TestStorageThatHangs:
    async def test_makes_every_device_unhealthy(self) -> None:
        house = await House(PoolSettings(), FAST).recover()
        house.worker.hang_next()
        for _ in range(2):
            looking = asyncio.create_task(look(house))
            await asyncio.sleep(0)
            house.worker.spend()
            await looking

        assert healthy(house) == healthy(house, OTHER) == {Health.UNHEALTHY}
        assert {facts["reason"] for _, facts in house.heard.warnings} == {
            "storage hangs: looking at it took longer than 4 s; see dmesg"
        }
        house.worker.resume()
        await look(house, 2)
        assert healthy(house) == healthy(house, OTHER) == {Health.HEALTHY}

    async def test_is_not_looked_at_again_and_again_once_it_is_back(self, house: House) -> None:
        """Looks that nobody waits for any more are not made up for."""
        house.worker.hang_next()
        for _ in range(5):
            looking = asyncio.create_task(look(house))
            await asyncio.sleep(0)
            house.worker.spend()
            await looking
        before = house.journal.asked.count("check")
        house.worker.resume()

        assert house.journal.asked.count("check") == before + 1


class TestWhatIsUnhealthyAnyway:
    async def test_a_drained_pools_list_is_not_sent_for_a_change_that_it_does_not_show(self) -> None:
        before = await House(PoolSettings(), FAST).recover()
        (answer,) = await before.allocate([dev(1, OTHER)], pool=OTHER)
        before.store(answer, dev(1, OTHER), resource=OTHER)
        house = await House(PoolSettings(), after=before).recover()
        assert house.state.pools[OTHER].drained
        house.journal.fail(JournalUnusable("its disk is full"))
        await look(house, 2)

        assert house.lists.published == [frozenset({RESOURCE})]
        assert healthy(house, OTHER) == {Health.UNHEALTHY}

    async def test_retired_ids_stay_so_when_the_pool_is_well_again(self) -> None:
        before = await House(PoolSettings(capacity=3)).recover()
        (answer,) = await before.allocate([dev(2)])
        before.store(answer, dev(2))
        house = await House(PoolSettings(capacity=2), after=before).recover()
        await look(house, 2, trouble=READ_ONLY)
        assert healthy(house) == {Health.UNHEALTHY}
        await look(house, 2)

        (plugin,) = house.container.plugins()._plugins()
        assert [device.health for device in plugin.devices()] == [Health.HEALTHY, Health.HEALTHY, Health.UNHEALTHY]


async def test_a_fault_of_its_own_is_nobody_elses_to_hide(house: House) -> None:
    """The daemon ends of it: a health that is not looked after any more must not stay healthy by default."""
    house.worker.fail_next(ZeroDivisionError())

    with pytest.raises(ZeroDivisionError):
        await look(house)


async def test_a_draining_pool_has_no_healthy_device_however_well_it_is(house: House) -> None:
    house.state.draining = True
    await look(house, 3)

    assert healthy(house) == {Health.UNHEALTHY}
    assert house.lists.published == []
