"""PreStartContainer: whatever a starting container may mount is there, as it was."""

import pytest

from app.settings import PoolSettings
from domain.identity import AllocationId
from domain.ledger import Standing
from domain.pool import SecretDelivery
from domain.ports.journal import JournalUnusable
from domain.ports.sockets import DirectoryUnusable, NoRoom
from domain.ports.worker import OverBudget
from domain.start import NothingKnown
from tests.unit.house import HOST_DIR, NOTHING, RESOURCE, STRANGE_ID, House, an_answer, dev


@pytest.fixture
async def house() -> House:
    return await House().recover()


def blocked(house: House, name: AllocationId) -> None:
    """Lose a directory, and let something that is none lie in its place."""
    house.sockets.remove(house.allocation(name).directory)
    house.sockets.add_stranger(HOST_DIR, name)


class TestNothingToDo:
    async def test_a_call_without_ids_does_nothing(self, house: House) -> None:
        """The kubelet makes it for a container that wants none."""
        house.worker.asked.clear()
        await house.pre_start()

        assert house.worker.asked == []
        assert house.asked_besides_storage() == []

    async def test_a_directory_that_is_as_it_must_be_is_left_so(self, house: House) -> None:
        name = await house.granted(dev(1))
        inode = house.record(name).inode
        await house.pre_start(dev(1))

        assert house.sockets.look(HOST_DIR).inodes == {name: inode}
        assert house.heard.warned == []

    async def test_neither_runtime_nor_kubelet_is_asked(self, house: House) -> None:
        await house.granted(dev(1))
        await house.pre_start(dev(1))

        assert house.asked_besides_storage() == []


class TestNobodyKnowsTheIds:
    async def test_it_says_what_to_do_and_the_list_is_sent_again(self, house: House) -> None:
        """The kubelet writes its record anew at a list, and a later try may find the answer there."""
        with pytest.raises(
            NothingKnown, match=r"no memif allocation is known for contivpp.io/memif/1.*delete the pod so that"
        ):
            await house.pre_start(dev(1))

        assert house.lists.published == [frozenset({RESOURCE})]
        assert house.traces == NOTHING

    async def test_one_unknown_id_among_known_ones_is_enough(self, house: House) -> None:
        await house.granted(dev(1))
        with pytest.raises(NothingKnown, match=r"contivpp.io/memif/2"):
            await house.pre_start(dev(1), dev(2))

    async def test_the_second_try_succeeds_when_the_kubelet_has_written_its_record(self, house: House) -> None:
        house.on_publish = lambda: house.store(an_answer(STRANGE_ID), dev(1))
        with pytest.raises(NothingKnown):
            await house.pre_start(dev(1))
        await house.pre_start(dev(1))

        assert house.exists(STRANGE_ID)


class TestRepaired:
    async def test_everything_is_back_after_a_wipe_with_the_same_path_and_secret(self) -> None:
        """After a reboot ``/var/run`` is empty, and Allocate is not called again."""
        house = await House(PoolSettings(secret_delivery=SecretDelivery.BOTH)).recover()
        name = await house.granted(dev(1))
        before = house.allocation(name)
        house.sockets.wipe()
        await house.pre_start(dev(1))

        assert house.allocation(name) == before
        assert house.sockets.read(before.directory, "secret") == before.secret.reveal()
        assert house.sockets.mode(before.directory) == 0o2770
        assert house.record(name).inode == house.sockets.look(HOST_DIR).inodes[name]
        assert house.heard.facts("a missing directory was made again") == {"allocation": name}

    async def test_what_a_runtime_made_in_its_place_is_mended_and_not_replaced(self, house: House) -> None:
        """A runtime makes a missing mount source itself, root's and 0755, and the container has it mounted."""
        name = await house.granted(dev(1))
        inode = house.sockets.replace(house.allocation(name).directory)
        await house.pre_start(dev(1))

        assert house.record(name).inode == inode
        assert house.sockets.mode(house.allocation(name).directory) == 0o2770
        assert [facts["mended"] for _, facts in house.heard.warnings] == [["mode 0755 -> 2770"]]

    async def test_the_allocation_counts_as_touched_now(self, house: House) -> None:
        name = await house.granted(dev(1))
        house.clock.advance(100)
        await house.pre_start(dev(1))

        assert house.record(name).touched == house.clock.monotonic()

    async def test_every_holder_of_an_id_gets_its_directory_back(self, house: House) -> None:
        """The call names ids, not a pod; an init container and a later one hold the same."""
        setup = await house.granted(dev(19), container="setup")
        main = await house.granted(dev(19), container="main")
        house.sockets.wipe()
        await house.pre_start(dev(19))

        assert house.traces.directories == {setup, main}


class TestBackToLife:
    @pytest.mark.parametrize("standing", [Standing.RELEASING, Standing.FORCED])
    async def test_a_record_on_its_way_out_lives_again(self, house: House, standing: Standing) -> None:
        name = await house.granted(dev(1))
        house.stand(name, standing)
        house.sockets.remove(house.allocation(name).directory)
        await house.pre_start(dev(1))

        assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
        assert house.exists(name)

    async def test_a_full_journal_is_only_reported(self, house: House) -> None:
        """The ledger is right without it, and the container must start."""
        name = await house.granted(dev(1))
        house.stand(name, Standing.RELEASING)
        house.journal.fail(JournalUnusable("its disk is full"))
        await house.pre_start(dev(1))

        assert house.record(name).standing is Standing.LIVE
        assert house.heard.facts("the journal does not know that an allocation lives again") == {
            "reason": "its disk is full"
        }

    async def test_the_journal_is_left_alone_where_nothing_changed(self, house: House) -> None:
        await house.granted(dev(1))
        house.journal.asked.clear()
        await house.pre_start(dev(1))

        assert house.journal.asked == []


class TestTrouble:
    async def test_with_the_directory_that_is_meant_stops_the_start(self, house: House) -> None:
        blocked(house, await house.granted(dev(1)))
        with pytest.raises(DirectoryUnusable, match="something that is no directory lies in its place"):
            await house.pre_start(dev(1))

    async def test_with_another_holders_directory_stops_nobody_and_is_reported(self, house: House) -> None:
        """The checkpoint names the new holder for exactly these ids; an old container may still run."""
        old = await house.granted(dev(1), uid="old")
        new = await house.granted(dev(1), uid="new")
        house.forgotten("old")
        blocked(house, old)
        house.sockets.remove(house.allocation(new).directory)
        await house.pre_start(dev(1))

        assert house.exists(new)
        facts = house.heard.facts("a directory that a starting container may need cannot be had")
        assert facts["allocation"] == old

    async def test_with_an_older_holder_while_the_checkpoint_is_unknown_stops_nobody(self, house: House) -> None:
        """The newest grant of exactly these ids is meant then."""
        old = await house.granted(dev(1), uid="old")
        new = await house.granted(dev(1), uid="new")
        house.checkpoint.lose()
        blocked(house, old)
        await house.pre_start(dev(1))

        assert house.exists(new)

    async def test_with_the_newest_holder_while_the_checkpoint_is_unknown_stops_the_start(self, house: House) -> None:
        await house.granted(dev(1), uid="old")
        new = await house.granted(dev(1), uid="new")
        house.checkpoint.lose()
        blocked(house, new)
        with pytest.raises(DirectoryUnusable):
            await house.pre_start(dev(1))

    async def test_a_missing_directory_without_room_for_it_stops_the_start(self, house: House) -> None:
        await house.granted(dev(1))
        house.sockets.wipe()
        house.sockets.fill(HOST_DIR)
        with pytest.raises(NoRoom):
            await house.pre_start(dev(1))

    async def test_a_directory_that_exists_needs_no_room(self, house: House) -> None:
        name = await house.granted(dev(1))
        house.sockets.fill(HOST_DIR)
        await house.pre_start(dev(1))

        assert house.exists(name)

    async def test_storage_that_hangs_fails_the_call_in_time(self, house: House) -> None:
        await house.granted(dev(1))
        house.worker.late_next()
        with pytest.raises(OverBudget):
            await house.pre_start(dev(1))
        house.worker.resume()


class TestAdopted:
    async def test_what_only_the_checkpoint_knows_is_taken_over_and_made(self, house: House) -> None:
        """The journal was lost, or Contiv gave the answer."""
        house.store(an_answer(STRANGE_ID), dev(4), uid="uid-9", container="main")
        await house.pre_start(dev(4))

        taken = house.allocation(STRANGE_ID)
        assert (taken.secret.reveal(), taken.devices) == ("AdoptedSecret0000001", (dev(4),))
        assert (taken.owner.uid, taken.owner.container) == ("uid-9", "main")
        assert house.traces.ledger == house.traces.journal == house.traces.directories == {STRANGE_ID}

    async def test_a_full_journal_is_only_reported(self, house: House) -> None:
        """The kubelet's own record is the durable one."""
        house.store(an_answer(STRANGE_ID), dev(4))
        house.journal.fail(JournalUnusable("its disk is full"))
        await house.pre_start(dev(4))

        assert house.exists(STRANGE_ID)
        assert house.heard.warned == ["an adopted allocation is not in the journal"]
