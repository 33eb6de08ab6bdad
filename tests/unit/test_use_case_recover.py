"""Recovery: what a new process makes of what the one before it left."""

import pytest

from app.settings import PoolSettings
from app.use_cases.plugin import pool_plugins
from domain.carry_over import DeviceIdsChanged
from domain.identity import AllocationId
from domain.ledger import Standing
from domain.pool import Health, Pool, SecretDelivery
from domain.ports.journal import JournalUnusable
from domain.ports.sockets import DirectoryUnusable, NoRoom
from tests.unit.house import (
    FAST,
    HOST_DIR,
    NOTHING,
    OTHER,
    RESOURCE,
    STRANGE_ID,
    House,
    a_directory,
    an_answer,
    dev,
    named,
)


@pytest.fixture
async def before() -> House:
    return await House().recover()


def healthy(pool: Pool) -> set[str]:
    """Return the ids that the kubelet may hand out."""
    return {device.id for device in pool.devices() if device.health is Health.HEALTHY}


def listed(pool: Pool) -> set[str]:
    """Return all ids that the kubelet is told of."""
    return {device.id for device in pool.devices()}


class TestTheFirstStart:
    async def test_an_empty_node_gives_an_empty_ledger_and_open_directories(self) -> None:
        house = House(PoolSettings(), FAST)
        await house.recover()

        assert house.traces == NOTHING
        assert [asked for asked in house.sockets.asked if asked.startswith("open")] == [
            f"open {HOST_DIR}",
            "open /var/run/fast",
        ]
        assert set(house.journal.pools) == {RESOURCE, OTHER}
        assert house.heard.warned == []

    async def test_neither_runtime_nor_kubelet_is_asked(self) -> None:
        """The daemon must be registered before the kubelet admits its pods anew, which is some 80 ms later."""
        house = await House().recover()

        assert house.asked_besides_storage() == []

    async def test_an_answer_of_contiv_is_taken_over(self) -> None:
        house = House()
        house.store(an_answer(STRANGE_ID), dev(5))
        await house.recover()

        assert house.allocation(STRANGE_ID).devices == (dev(5),)
        assert house.exists(STRANGE_ID)


class TestASecondProcess:
    async def test_everything_is_as_it_was(self, before: House) -> None:
        name = await before.granted(dev(1))
        after = await House(after=before).recover()

        assert after.allocation(name) == before.allocation(name)
        assert after.traces == before.traces
        assert after.record(name).inode == before.record(name).inode

    async def test_times_from_before_count_as_the_moment_of_becoming_active(self, before: House) -> None:
        """Monotonic times of another process mean nothing, and grace must not be shortened by a restart."""
        name = await before.granted(dev(1))
        before.clock.advance(1000)
        after = await House(after=before).recover()

        assert after.record(name).touched == after.state.active_since == after.clock.monotonic()

    async def test_a_wiped_base_directory_is_back_with_the_same_paths_and_secrets(self) -> None:
        """After a reboot ``/var/run`` is empty; the kubelet starts containers from its record at once."""
        before = await House(PoolSettings(secret_delivery=SecretDelivery.BOTH)).recover()
        names = {await before.granted(dev(index), uid=f"uid-{index}") for index in range(3)}
        before.sockets.wipe()
        after = await House(PoolSettings(secret_delivery=SecretDelivery.BOTH), after=before).recover()

        assert after.traces.directories == names
        for name in names:
            assert after.allocation(name) == before.allocation(name)
            directory = after.allocation(name).directory
            assert after.sockets.read(directory, "secret") == before.allocation(name).secret.reveal()

    async def test_what_a_runtime_made_in_the_meantime_is_mended(self, before: House) -> None:
        name = await before.granted(dev(1))
        before.sockets.replace(a_directory(name))
        after = await House(after=before).recover()

        assert after.sockets.mode(a_directory(name)) == 0o2770

    async def test_a_directory_that_cannot_be_had_does_not_keep_the_daemon_from_starting(self, before: House) -> None:
        lost = await before.granted(dev(1), uid="lost")
        kept = await before.granted(dev(2), uid="kept")
        before.sockets.wipe()
        before.sockets.add_stranger(HOST_DIR, lost)
        after = await House(after=before).recover()

        assert after.exists(kept)
        assert after.heard.facts("the directory of a living allocation cannot be had")["allocation"] == lost

    async def test_a_release_that_was_interrupted_is_finished(self, before: House) -> None:
        name = await before.granted(dev(1))
        before.stand(name, Standing.RELEASING)
        before.forgotten("uid-1")
        after = await House(after=before).recover()
        assert after.record(name).standing is Standing.RELEASING
        after.another_pod_runs()
        await after.reconcile()

        assert after.traces == NOTHING

    async def test_what_an_interrupted_removal_left_is_deleted_once_the_pools_are_served(self, before: House) -> None:
        """A tenant may have left so much that deleting it takes seconds, and until it is served no pod can start."""
        name = await before.granted(dev(1))
        before.sockets.litter(a_directory(name), 10_000)
        before.sockets.remove(a_directory(name))
        assert before.sockets.waiting(HOST_DIR) == {name: 1}
        after = await House(after=before).recover()
        assert after.sockets.waiting(HOST_DIR) == {name: 1}
        await after.reconcile()

        assert after.sockets.waiting(HOST_DIR) == {}

    async def test_a_forced_record_stays_hidden_although_the_kubelet_names_it(self, before: House) -> None:
        name = await before.granted(dev(1))
        before.stand(name, Standing.FORCED)
        before.sockets.remove(a_directory(name))
        after = await House(after=before).recover()

        assert after.standing(name) == (Standing.FORCED, Standing.FORCED)
        assert not after.exists(name)


class TestTheJournalIsLost:
    async def test_it_is_adopted_from_the_checkpoint_with_the_same_path_and_secret(self, before: House) -> None:
        name = await before.granted(dev(1), dev(7))
        was = before.allocation(name)
        before.journal.damage("it was damaged and lies at state.db.bad now")
        after = await House(after=before).recover()

        now = after.allocation(name)
        assert (now.host_socket, now.secret, now.devices) == (was.host_socket, was.secret, was.devices)
        assert (now.owner.uid, now.owner.container) == ("uid-1", "app")
        assert after.traces.journal == {name}
        assert after.heard.warnings[0] == (
            "the journal could not be used and was set aside; allocations are adopted from the kubelet's record",
            {"reason": "it was damaged and lies at state.db.bad now"},
        )

    async def test_one_that_cannot_be_opened_at_all_stops_the_start(self) -> None:
        house = House()
        house.journal.fail_next(JournalUnusable("read-only"))
        with pytest.raises(JournalUnusable):
            await house.recover()

    async def test_a_full_disk_does_not(self, before: House) -> None:
        """What lives must be served; new grants are refused until there is room."""
        name = await before.granted(dev(1))
        after = House(after=before)
        after.store(an_answer(STRANGE_ID), dev(2), uid="uid-2")
        opened = after.journal.open

        def full_after_opening() -> object:
            recovered = opened()
            after.journal.fail(JournalUnusable("its disk is full"))
            return recovered

        after.journal.open = full_after_opening  # type: ignore[assignment,method-assign]  # a disk that fills up then
        await after.recover()

        assert after.traces.ledger == {name, STRANGE_ID}
        assert after.heard.warned == [
            "an adopted allocation is not in the journal",
            "the pools are not in the journal",
        ]


class TestBaseDirectories:
    @pytest.mark.parametrize("error", [DirectoryUnusable("a symbolic link"), NoRoom("full")])
    async def test_one_of_a_pool_that_cannot_be_used_stops_the_start(self, error: Exception) -> None:
        house = House()
        house.sockets.fail_next(error)
        with pytest.raises(type(error)):
            await house.recover()

    @pytest.mark.parametrize("error", [DirectoryUnusable("a symbolic link"), NoRoom("full")])
    async def test_one_that_only_old_allocations_use_is_reported(self, error: Exception) -> None:
        before = await House(PoolSettings(host_dir="/var/run/zzz-old"), FAST).recover()
        (answer,) = await before.allocate([dev(1)])
        after = House(PoolSettings(), FAST, after=before)
        opened = after.sockets.open

        def failing(host_dir: str) -> None:
            if host_dir == "/var/run/zzz-old":
                raise error
            opened(host_dir)

        after.sockets.open = failing  # type: ignore[method-assign]  # one of several
        await after.recover()

        assert named(answer) in after.traces.ledger
        assert after.heard.warned == ["a base directory that living allocations use cannot be used"]

    async def test_an_allocation_keeps_the_place_and_the_rules_that_it_was_made_with(self) -> None:
        before = await House(
            PoolSettings.model_validate({"host_dir": "/var/run/old", "directory_mode": "0750"})
        ).recover()
        name = await before.granted(dev(1))
        before.sockets.wipe()
        after = await House(after=before).recover()

        assert after.allocation(name) == before.allocation(name)
        assert after.sockets.mode(after.allocation(name).directory) == 0o750
        assert after.allocation(name).host_dir == "/var/run/old"


class TestCapacityIsLowered:
    @pytest.fixture
    async def before(self) -> House:
        return await House(PoolSettings(capacity=8)).recover()

    async def test_while_the_checkpoint_is_unknown_every_id_stays_listed(self, before: House) -> None:
        """To withdraw an id whose Allocate is in flight crashes the kubelet."""
        before.checkpoint.lose()
        after = await House(PoolSettings(capacity=3), after=before).recover()

        assert listed(after.pool) == {dev(index) for index in range(8)}
        assert healthy(after.pool) == {dev(0), dev(1), dev(2)}

    async def test_when_it_is_known_only_ids_that_somebody_holds_stay(self, before: House) -> None:
        before.store(an_answer(STRANGE_ID), dev(6))
        (answer,) = await before.allocate([dev(4)])
        after = await House(PoolSettings(capacity=3), after=before).recover()

        assert listed(after.pool) == {dev(0), dev(1), dev(2), dev(4), dev(6)}
        assert healthy(after.pool) == {dev(0), dev(1), dev(2)}
        assert named(answer) in after.traces.ledger

    async def test_an_id_that_was_kept_goes_at_the_start_after_its_last_holder(self, before: House) -> None:
        before.checkpoint.lose()
        middle = await House(PoolSettings(capacity=3), after=before).recover()
        middle.checkpoint.write()
        after = await House(PoolSettings(capacity=3), after=middle).recover()

        assert listed(after.pool) == {dev(0), dev(1), dev(2)}

    async def test_a_container_that_holds_such_an_id_is_still_prepared(self, before: House) -> None:
        name = await before.granted(dev(7))
        after = await House(PoolSettings(capacity=3), after=before).recover()
        after.sockets.wipe()
        await after.pre_start(dev(7))

        assert after.exists(name)


class TestAPoolIsTakenOut:
    async def _after(self, *requests: list[int]) -> tuple[House, list[AllocationId]]:
        before = await House(PoolSettings(), FAST).recover()
        names = []
        for request in requests:
            (answer,) = await before.allocate([dev(index, OTHER) for index in request], pool=OTHER)
            names.append(named(answer))
        return await House(PoolSettings(), after=before).recover(), names

    async def test_it_is_drained_while_something_of_it_lives(self) -> None:
        after, (name,) = await self._after([2])

        assert list(after.state.pools) == [RESOURCE, OTHER]
        assert listed(after.state.pools[OTHER]) == {dev(index, OTHER) for index in range(4)}
        assert healthy(after.state.pools[OTHER]) == set()
        assert name in after.traces.ledger
        served = pool_plugins(
            state=after.state, allocate=after.container.allocate(), pre_start=after.container.pre_start()
        )
        assert [plugin.resource for plugin in served] == [RESOURCE, OTHER]

    async def test_it_is_gone_when_nothing_of_it_lives(self) -> None:
        after, _ = await self._after()

        assert list(after.state.pools) == [RESOURCE]

    async def test_a_container_of_it_is_still_prepared(self) -> None:
        after, (name,) = await self._after([2])
        after.sockets.wipe()
        await after.pre_start(dev(2, OTHER), pool=OTHER)

        assert after.exists(name)

    async def test_without_any_pool_configured_the_last_one_is_drained(self) -> None:
        before = await House().recover()
        await before.granted(dev(1))
        after = await House(after=before, empty=True).recover()

        assert listed(after.pool) == {dev(index) for index in range(100)}
        assert healthy(after.pool) == set()


class TestDeviceIdsAreChanged:
    async def test_while_something_lives_it_is_refused(self) -> None:
        before = await House().recover()
        await before.granted(dev(1))
        after = House(PoolSettings(device_id="memif-{index}"), after=before)
        with pytest.raises(
            DeviceIdsChanged,
            match=r"device_id of contivpp.io/memif cannot change from '\{resource\}/\{index\}' to 'memif-\{index\}' "
            "while 1 of its allocations live; change it back",
        ):
            await after.recover()

    async def test_the_journal_still_has_the_pool_as_it_was(self) -> None:
        """Otherwise the next start would not notice any more."""
        before = await House().recover()
        await before.granted(dev(1))
        for _ in range(2):
            with pytest.raises(DeviceIdsChanged):
                await House(PoolSettings(device_id="memif-{index}"), after=before).recover()

        assert before.journal.pools[RESOURCE].device_id == "{resource}/{index}"

    async def test_on_an_empty_pool_it_is_fine(self) -> None:
        before = await House().recover()
        after = await House(PoolSettings(device_id="memif-{index}", capacity=2), after=before).recover()

        assert listed(after.pool) == {"memif-0", "memif-1"}
