"""Pools that change while the daemon runs."""

import asyncio

import pytest

from app.settings import PoolSettings
from app.use_cases.plugin import PoolPlugin, pool_plugins
from domain.carry_over import DeviceIdsChanged
from domain.evidence import CheckpointView
from domain.ports.journal import JournalUnusable
from domain.ports.sockets import DirectoryUnusable
from domain.resource import ResourceName
from domain.start import NotServing
from tests.unit.house import FAST, NOTHING, OTHER, RESOURCE, House, dev, named

DEFAULT = PoolSettings()


async def serve(house: House, *pools: PoolSettings) -> None:
    """Take a configuration with these pools over."""
    await house.container.serve_pools()([pool.to_domain() for pool in pools])


def plugin_of(house: House, resource: ResourceName) -> PoolPlugin:
    """Return a pool's plugin as its session has it."""
    served = pool_plugins(state=house.state, allocate=house.container.allocate(), pre_start=house.container.pre_start())
    (found,) = [each for each in served if each.resource == resource]
    return found


def quiet(house: House) -> None:
    """Let the moment after an Allocate pass, in which the kubelet is left alone."""
    house.clock.advance(1)


@pytest.fixture
async def house() -> House:
    return await House().recover()


class TestChanges:
    async def test_a_new_pool_has_its_base_directory_and_is_in_the_journal(self, house: House) -> None:
        await serve(house, DEFAULT, FAST)
        (answer,) = await house.allocate([dev(0, OTHER)], pool=OTHER)

        assert list(house.state.pools) == [RESOURCE, OTHER]
        assert "open /var/run/fast" in house.sockets.asked
        assert house.journal.pools[OTHER].host_dir == "/var/run/fast"
        assert named(answer) in house.traces.ledger
        assert house.lists.published == []

    async def test_only_pools_whose_list_is_another_one_are_sent_again(self) -> None:
        house = await House(DEFAULT, FAST).recover()
        await serve(house, PoolSettings(capacity=101), FAST.model_copy(update={"container_dir": "/run/faster"}))

        assert house.lists.published == [frozenset({RESOURCE})]
        assert house.state.pools[OTHER].container_dir == "/run/faster"

    async def test_a_pool_that_is_not_configured_is_drained_and_said_to_be_once(self) -> None:
        house = await House(DEFAULT, FAST).recover()
        for _ in range(2):
            await serve(house, DEFAULT)

        assert house.state.pools[OTHER].drained
        assert house.lists.published == [frozenset({OTHER})]
        assert house.heard.facts("a pool is not configured any more and is drained") == {"resource": OTHER}

    async def test_what_an_earlier_answer_says_is_still_understood(self, house: House) -> None:
        """The ledger may lose it: then the kubelet's record has it in the words of the pool as it was."""
        name = await house.granted(dev(1))
        await serve(house, PoolSettings(annotation_prefix="io.example.memif", container_dir="/run/memif"))
        house.state.ledger = house.state.ledger.without((name,))
        view = await house.container.adopt().from_checkpoint()

        assert isinstance(view, CheckpointView)
        assert house.allocation(name).container_dir == "/run/vpp"

    async def test_the_same_configuration_again_remembers_nothing_twice(self, house: House) -> None:
        for _ in range(3):
            await serve(house, PoolSettings(capacity=50))
            await serve(house, DEFAULT)

        assert len(house.state.earlier) == len(set(house.state.earlier)) <= 3


class TestRefusals:
    async def test_other_device_ids_change_nothing_while_something_lives(self, house: House) -> None:
        await house.granted(dev(1))
        before = dict(house.state.pools)
        with pytest.raises(DeviceIdsChanged):
            await serve(house, FAST, PoolSettings(device_id="memif-{index}"))

        assert house.state.pools == before
        assert house.journal.pools[RESOURCE].device_id == "{resource}/{index}"
        assert OTHER not in house.journal.pools

    async def test_something_that_is_granted_meanwhile_counts_too(self, house: House) -> None:
        house.worker.hold()
        change = asyncio.create_task(serve(house, PoolSettings(device_id="memif-{index}")))
        grant = asyncio.create_task(house.granted(dev(1)))
        while "storing an allocation" not in house.worker.asked:  # noqa: ASYNC110 -- a turn of the loop or two
            await asyncio.sleep(0)
        house.worker.resume()
        with pytest.raises(DeviceIdsChanged):
            await change
        await grant

        assert house.pool.device_id == "{resource}/{index}"
        assert house.journal.pools[RESOURCE].device_id == "{resource}/{index}"

    async def test_a_base_directory_that_cannot_be_had_changes_nothing(self, house: House) -> None:
        house.sockets.fail_next(DirectoryUnusable("read-only"))
        with pytest.raises(DirectoryUnusable):
            await serve(house, DEFAULT, FAST)

        assert list(house.state.pools) == [RESOURCE]
        assert OTHER not in house.journal.pools

    async def test_a_journal_that_cannot_be_written_is_said_and_hinders_nothing(self, house: House) -> None:
        house.journal.fail(JournalUnusable("disk full"))
        await serve(house, DEFAULT, FAST)

        assert list(house.state.pools) == [RESOURCE, OTHER]
        assert house.heard.warned == ["the pools are not in the journal"]


class TestDrained:
    async def test_it_is_served_until_nothing_of_it_is_left(self) -> None:
        house = await House(DEFAULT, FAST).recover()
        (answer,) = await house.allocate([dev(0, OTHER)], pool=OTHER)
        await serve(house, DEFAULT)
        quiet(house)
        assert not house.container.serve_pools().drop_drained()
        await house.release(named(answer))

        assert house.container.serve_pools().drop_drained()
        assert list(house.state.pools) == [RESOURCE]
        assert house.state.earlier[0].resource == OTHER
        assert house.traces == NOTHING
        assert not house.container.serve_pools().drop_drained()

    async def test_what_was_forced_out_may_still_run_and_keeps_it(self) -> None:
        house = await House(DEFAULT, FAST).recover()
        (answer,) = await house.allocate([dev(0, OTHER)], pool=OTHER)
        await serve(house, DEFAULT)
        await house.container.release().force(house.record(named(answer)), reason="a test")
        quiet(house)

        assert not house.container.serve_pools().drop_drained()

    async def test_it_is_not_dropped_while_the_kubelet_may_be_asking(self) -> None:
        house = await House(DEFAULT, FAST).recover()
        await serve(house, DEFAULT)
        with house.state.allocating():
            assert not house.container.serve_pools().drop_drained()
        assert not house.container.serve_pools().drop_drained()
        quiet(house)

        assert house.container.serve_pools().drop_drained()

    async def test_a_pool_that_is_configured_is_never_dropped(self, house: House) -> None:
        quiet(house)

        assert not house.container.serve_pools().drop_drained()

    async def test_its_plugin_refuses_calls_and_shows_the_last_list(self) -> None:
        """Its session ends a moment later."""
        house = await House(DEFAULT, FAST).recover()
        plugin = plugin_of(house, OTHER)
        await serve(house, DEFAULT)
        shown = plugin.devices()
        quiet(house)
        house.container.serve_pools().drop_drained()

        assert plugin.devices() == shown
        assert plugin.list_interval == 0
        with pytest.raises(NotServing, match="taken out of the configuration"):
            await plugin.allocate([[dev(0, OTHER)]])
        with pytest.raises(NotServing):
            await plugin.pre_start([dev(0, OTHER)])
