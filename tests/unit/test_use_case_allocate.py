"""Allocate: what a container is given, and what is left of a call that fails."""

import asyncio

import pytest

from app.settings import PoolSettings
from app.use_cases.allocate import BUDGET
from domain.answer import Mount
from domain.grant import DeviceAskedTwice, NothingAsked, UnknownDevice
from domain.ledger import Standing
from domain.pool import SecretDelivery
from domain.ports.journal import JournalUnusable
from domain.ports.sockets import DirectoryUnusable, NoRoom
from domain.ports.worker import OverBudget
from tests.unit.house import HOST_DIR, NOTHING, STRANGE_ID, House, a_directory, dev, named, secret_in


@pytest.fixture
async def house() -> House:
    return await House().recover()


async def turns() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


class TestGranted:
    async def test_a_container_is_given_a_directory_a_socket_and_a_secret(self, house: House) -> None:
        (answer,) = await house.allocate([dev(7)])

        name = named(answer)
        allocation = house.allocation(name)
        assert answer.mounts == (Mount(host_path=f"{HOST_DIR}/{name}", container_path="/run/vpp"),)
        assert answer.envs == {"MEMIF_SOCKET": "/run/vpp/memif.sock", "MEMIF_SECRET": allocation.secret.reveal()}
        assert answer.annotations == {
            "io.contivpp.memif.socket.host": f"{HOST_DIR}/{name}/memif.sock",
            "io.contivpp.memif.socket.container": "/run/vpp/memif.sock",
            "io.contivpp.memif.secret": allocation.secret.reveal(),
        }

    async def test_it_is_in_ledger_and_journal_and_on_disk_before_the_answer(self, house: House) -> None:
        (answer,) = await house.allocate([dev(7)])

        name = named(answer)
        assert house.traces.ledger == house.traces.journal == house.traces.directories == {name}
        assert house.journal.contents[name] == (house.allocation(name), Standing.LIVE)
        assert house.sockets.mode(a_directory(name)) == 0o2770
        assert house.record(name).inode == house.sockets.look(HOST_DIR).inodes[name]
        assert house.record(name).touched == house.clock.monotonic()

    async def test_several_devices_of_one_container_share_one_directory_whatever_their_order(
        self, house: House
    ) -> None:
        (answer,) = await house.allocate([dev(11), dev(2), dev(10)])

        assert house.allocation(named(answer)).devices == (dev(2), dev(10), dev(11))
        assert len(house.traces.directories) == 1

    async def test_each_request_of_a_call_is_an_allocation_of_its_own_answered_in_order(self, house: House) -> None:
        first, second = await house.allocate([dev(1)], [dev(2), dev(3)])

        assert house.allocation(named(first)).devices == (dev(1),)
        assert house.allocation(named(second)).devices == (dev(2), dev(3))
        assert named(first) != named(second)
        assert secret_in(first) != secret_in(second)

    async def test_the_same_device_again_does_not_touch_the_grant_before(self, house: House) -> None:
        """The kubelet gives an init container's devices to the next container before either starts."""
        (setup,) = await house.allocate([dev(19)])
        before = house.record(named(setup))
        (side,) = await house.allocate([dev(19)])

        assert house.record(named(setup)) == before
        assert house.exists(named(setup))
        assert house.exists(named(side))
        assert secret_in(setup) != secret_in(side)

    async def test_an_id_that_is_in_use_is_drawn_again(self, house: House) -> None:
        (first,) = await house.allocate([dev(1)])
        house.entropy.draw_next(named(first), named(first))
        (second,) = await house.allocate([dev(2)])

        assert named(second) != named(first)
        assert house.allocation(named(first)).devices == (dev(1),)

    async def test_two_calls_at_once_are_both_granted(self, house: House) -> None:
        house.worker.hold()
        calls = [asyncio.create_task(house.allocate([dev(index)])) for index in (1, 2)]
        await turns()
        house.worker.resume()
        ((one,), (two,)) = await asyncio.gather(*calls)

        assert house.allocation(named(one)).devices == (dev(1),)
        assert house.allocation(named(two)).devices == (dev(2),)
        assert house.traces.ledger == house.traces.journal == house.traces.directories == {named(one), named(two)}

    async def test_a_secret_in_a_file_is_on_disk_and_the_record_is_synced_before_the_answer(self) -> None:
        """The kubelet's own record does not hold such a secret, so a power loss must not lose it."""
        house = await House(PoolSettings(secret_delivery=SecretDelivery.FILE)).recover()
        (answer,) = await house.allocate([dev(1)])

        name = named(answer)
        written = house.sockets.read(house.allocation(name).directory, "secret")
        assert written == house.allocation(name).secret.reveal()
        assert house.journal.durable == {name}
        assert written not in f"{dict(answer.envs)} {dict(answer.annotations)}"

    async def test_an_ordinary_record_is_not_synced(self, house: House) -> None:
        await house.allocate([dev(1)])

        assert house.journal.durable == set()


class TestOnlyStorage:
    async def test_neither_runtime_nor_kubelet_is_asked(self, house: House) -> None:
        """The kubelet admits no other pod while it waits, and a listing meanwhile gives one device twice."""
        house.worker.asked.clear()
        await house.allocate([dev(1)], [dev(2)])

        assert house.asked_besides_storage() == []
        assert house.checkpoint.reads == 1  # the one of the start
        assert house.worker.asked == ["storing an allocation"]

    async def test_a_refused_call_does_not_even_reach_storage(self, house: House) -> None:
        house.worker.asked.clear()
        with pytest.raises(UnknownDevice):
            await house.allocate([dev(100)])

        assert house.worker.asked == []
        assert house.asked_besides_storage() == []

    async def test_no_secret_is_reported(self, house: House) -> None:
        (answer,) = await house.allocate([dev(1)])

        assert secret_in(answer) not in repr(house.heard.notes)
        assert house.heard.facts("allocated") == {
            "allocation": named(answer),
            "resource": "contivpp.io/memif",
            "devices": [dev(1)],
        }


class TestRefused:
    async def test_an_id_that_the_pool_never_listed(self, house: House) -> None:
        with pytest.raises(UnknownDevice, match=r"'contivpp.io/memif/100' is not one of the 100 devices of contivpp"):
            await house.allocate([dev(100)])

        assert house.traces == NOTHING

    async def test_an_id_twice_in_one_request(self, house: House) -> None:
        with pytest.raises(DeviceAskedTwice, match=r"'contivpp.io/memif/5' is named twice in one container request"):
            await house.allocate([dev(5), dev(6), dev(5)])

        assert house.traces == NOTHING

    async def test_a_request_without_ids_and_a_call_without_requests(self, house: House) -> None:
        with pytest.raises(NothingAsked, match=r"a container request for contivpp.io/memif names no device id"):
            await house.allocate([])
        with pytest.raises(NothingAsked):
            await house.allocate()

        assert house.traces == NOTHING

    async def test_one_wrong_request_refuses_the_whole_call(self, house: House) -> None:
        with pytest.raises(UnknownDevice):
            await house.allocate([dev(1)], [dev(100)])

        assert house.traces == NOTHING


class TestStorageFails:
    async def test_no_room(self, house: House) -> None:
        house.sockets.fill(HOST_DIR)
        with pytest.raises(NoRoom):
            await house.allocate([dev(1)])

        assert house.traces == NOTHING

    async def test_a_directory_that_cannot_be_made(self, house: House) -> None:
        house.sockets.fail_next(DirectoryUnusable("read-only"))
        with pytest.raises(DirectoryUnusable):
            await house.allocate([dev(1)])

        assert house.traces == NOTHING

    async def test_a_journal_that_cannot_be_written_leaves_the_disk_alone(self, house: House) -> None:
        """The record comes first: a directory without one would outlive a crash unnoticed."""
        house.journal.fail(JournalUnusable("its disk is full"))
        house.sockets.asked.clear()
        with pytest.raises(JournalUnusable):
            await house.allocate([dev(1)])

        assert house.sockets.asked == []
        assert house.traces == NOTHING

    async def test_the_second_of_two_requests_takes_the_first_with_it_and_nothing_else(self, house: House) -> None:
        """All or none; and what lies in the way is somebody's, so it is not cleared away either."""
        house.sockets.make(a_directory(STRANGE_ID))
        before = house.traces
        house.entropy.draw_next(house.entropy.allocation_id(), STRANGE_ID)
        with pytest.raises(DirectoryUnusable):
            await house.allocate([dev(1)], [dev(2)])

        assert house.traces == before
        assert before.directories == {STRANGE_ID}

    async def test_an_error_that_nobody_foresaw_leaves_nothing_either(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(_: object) -> int:
            raise RuntimeError("a mistake in the adapter")

        monkeypatch.setattr(house.sockets, "make", broken)
        with pytest.raises(RuntimeError):
            await house.allocate([dev(1)])

        assert house.traces == NOTHING

    async def test_a_record_that_cannot_be_taken_back_is_reported_and_hides_nothing(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The next start finds a record without a holder, and the resync rules release it."""

        def full(_: object) -> None:
            raise JournalUnusable("its disk is full")

        monkeypatch.setattr(house.journal, "drop", full)
        house.sockets.fill(HOST_DIR)
        with pytest.raises(NoRoom):
            await house.allocate([dev(1)])

        assert house.heard.warned == ["an aborted allocation stays in the journal until the next start"]
        assert house.traces.ledger == house.traces.directories == frozenset()

    async def test_it_works_again_after_the_cure(self, house: House) -> None:
        house.sockets.fill(HOST_DIR)
        with pytest.raises(NoRoom):
            await house.allocate([dev(1)])
        house.sockets.free(HOST_DIR)
        (answer,) = await house.allocate([dev(1)])

        assert house.traces.ledger == house.traces.journal == house.traces.directories == {named(answer)}


class TestLate:
    async def test_a_call_whose_storage_hangs_fails_in_time_and_is_undone_when_it_ends(self, house: House) -> None:
        house.worker.late_next()
        with pytest.raises(OverBudget, match=f"storing an allocation took longer than {BUDGET:g} s"):
            await house.allocate([dev(1)])

        assert house.traces.ledger == frozenset()
        house.worker.resume()
        assert house.traces == NOTHING
        assert house.journal.asked[-2:] == ["add", "drop"]

    async def test_a_call_that_waited_behind_others_for_too_long_is_never_begun(self, house: House) -> None:
        house.worker.hold()
        call = asyncio.create_task(house.allocate([dev(1)]))
        await turns()
        house.worker.spend()
        with pytest.raises(OverBudget):
            await call
        house.worker.resume()

        assert house.traces == NOTHING
        assert "add" not in house.journal.asked

    async def test_a_call_that_the_kubelet_gave_up_while_it_ran_is_undone(self, house: House) -> None:
        house.worker.hang_next()
        call = asyncio.create_task(house.allocate([dev(1)]))
        await turns()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        house.worker.resume()

        assert house.traces == NOTHING
        assert house.journal.asked[-2:] == ["add", "drop"]

    async def test_the_next_call_is_served_after_one_that_was_undone(self, house: House) -> None:
        house.worker.late_next()
        with pytest.raises(OverBudget):
            await house.allocate([dev(1)])
        call = asyncio.create_task(house.allocate([dev(1)]))
        await turns()
        house.worker.resume()
        (answer,) = await call

        assert house.traces.ledger == house.traces.journal == house.traces.directories == {named(answer)}


class TestInFlight:
    async def test_the_state_knows_of_a_call_from_its_beginning_to_its_answer(self, house: House) -> None:
        house.worker.hang_next()
        call = asyncio.create_task(house.allocate([dev(1)]))
        await turns()
        house.clock.advance(1.0)
        during = house.state.allocated_since(house.clock.monotonic())
        house.worker.resume()
        await call
        answered = house.clock.monotonic()
        house.clock.advance(1.0)

        assert during
        assert house.state.allocated_since(answered)
        assert not house.state.allocated_since(house.clock.monotonic())

    async def test_a_call_that_failed_counts_as_answered_too(self, house: House) -> None:
        """The kubelet chose ids for it, and a listing right after makes it choose them again."""
        with pytest.raises(UnknownDevice):
            await house.allocate([dev(100)])

        assert house.state.allocated_since(house.clock.monotonic())
