"""What tenants left behind is removed in passes: one a reconcile, gone on with, told in time, never looped on."""

import pytest

from domain.allocation import Directory
from domain.identity import AllocationId
from domain.ledger import Standing
from domain.ports.sockets import DirectoryUnusable
from tests.unit.house import GRACE, HOST_DIR, NOTHING, STRANGE_ID, House, a_directory, dev

A_PASS = 10_000
"""Entries that the fake removes in one pass."""

SLOW = "a removed directory is not deleted completely yet, after several passes"
STUCK = "a directory cannot be removed completely"
ODD = "a directory is not as it must be any more and is left so until a container starts with it"


@pytest.fixture
async def house() -> House:
    house = await House().recover()
    house.another_pod_runs()
    return house


async def given_up(house: House, index: int = 1) -> AllocationId:
    """Return an allocation that the next reconcile releases."""
    name = await house.granted(dev(index), uid=f"uid-{index}")
    house.forgotten(f"uid-{index}")
    house.clock.advance(GRACE + 1)
    return name


def passes(house: House) -> list[str]:
    """Return the passes of removal that were made so far."""
    return [asked for asked in house.sockets.asked if asked.startswith(("remove", "resume"))]


class TestALongRemoval:
    async def test_has_one_pass_in_each_reconcile(self, house: House) -> None:
        name = await given_up(house)
        house.sockets.litter(a_directory(name), 3 * A_PASS)
        made: list[list[str]] = []
        for _ in range(4):
            before = len(passes(house))
            await house.reconcile()
            made.append(passes(house)[before:])

        resume, remove = f"resume {HOST_DIR}", f"remove {HOST_DIR}/{name}"
        # A release's own pass comes after that of earlier ones, and once more when nothing is left of it.
        assert made == [[resume, remove], [resume], [resume], [resume, remove]]
        assert house.traces == NOTHING

    @pytest.mark.parametrize("needed, told", [(1, 0), (2, 0), (3, 0), (4, 1), (6, 3)])
    async def test_is_reported_when_the_third_pass_did_not_end_it(self, house: House, needed: int, told: int) -> None:
        """The log holds back what is said again."""
        name = await given_up(house)
        house.sockets.litter(a_directory(name), needed * A_PASS - 1)
        for _ in range(needed):
            await house.reconcile()

        assert house.sockets.waiting(HOST_DIR) == {}
        assert house.heard.warnings == [(SLOW, {"host_dir": HOST_DIR, "allocation": name})] * told

    async def test_is_counted_for_each_directory_by_itself(self, house: House) -> None:
        """A busy node always has something to remove."""
        for index in range(1, 6):
            name = await given_up(house, index)
            house.sockets.litter(a_directory(name), A_PASS)
            await house.reconcile()

        assert house.sockets.waiting(HOST_DIR)
        assert house.heard.warned == []

    async def test_keeps_its_record_on_its_way_out_until_it_is_done(self, house: House) -> None:
        name = await given_up(house)
        house.sockets.litter(a_directory(name), 2 * A_PASS)
        await house.reconcile()
        assert house.standing(name) == (Standing.RELEASING, Standing.RELEASING)
        assert house.heard.noted.count("released") == 1
        for _ in range(2):
            await house.reconcile()

        assert house.traces == NOTHING
        assert house.heard.noted.count("released") == 1

    async def test_is_gone_on_with_by_the_next_process_wherever_that_was(self, house: House) -> None:
        """The record remembers a base directory that is configured no more."""
        name = await given_up(house)
        house.sockets.litter(a_directory(name), 3 * A_PASS)
        await house.reconcile()
        after = await House(empty=True, after=house).recover()
        for _ in range(3):
            await after.reconcile()

        assert after.sockets.waiting(HOST_DIR) == {}
        assert (dict(after.state.ledger.records), after.journal.contents) == ({}, {})

    async def test_of_an_allocation_that_is_needed_again_takes_nothing_of_the_new_directory(self, house: House) -> None:
        name = await house.granted(dev(1))
        house.sockets.litter(a_directory(name), 2 * A_PASS)
        await house.release(name)
        await house.pre_start(dev(1))
        for _ in range(3):
            await house.reconcile()

        assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
        assert house.exists(name)
        assert house.sockets.waiting(HOST_DIR) == {}

    async def test_of_an_allocation_that_was_needed_again_is_told_as_a_release_the_next_time(
        self, house: House
    ) -> None:
        name = await house.granted(dev(1))
        house.sockets.litter(a_directory(name), 2 * A_PASS)
        await house.release(name)
        await house.pre_start(dev(1))
        await house.release(name)

        assert house.heard.noted.count("released") == 2


class TestWhatResists:
    async def test_is_tried_once_in_each_reconcile_and_said_in_the_same_words(self, house: House) -> None:
        name = await given_up(house)
        house.sockets.obstruct(a_directory(name), "cli.sock is immutable; chattr -i")
        for number in range(1, 6):
            await house.reconcile()
            assert house.heard.warnings == [(STUCK, {"reason": "cli.sock is immutable; chattr -i"})] * number
            assert house.standing(name) == (Standing.RELEASING, Standing.RELEASING)
        house.sockets.clear(a_directory(name))
        await house.reconcile()

        assert house.traces == NOTHING
        assert house.heard.facts("released")["allocation"] == name

    async def test_does_not_keep_others_from_being_removed(self, house: House) -> None:
        stuck = await given_up(house)
        house.sockets.obstruct(a_directory(stuck))
        await house.reconcile()
        other = await given_up(house, 2)
        await house.reconcile()

        assert set(house.state.ledger.records) == {stuck}
        assert other not in house.sockets.waiting(HOST_DIR)

    async def test_is_not_called_removed_when_it_was_an_orphan(self, house: House) -> None:
        house.sockets.make(a_directory(STRANGE_ID))
        house.sockets.obstruct(a_directory(STRANGE_ID))
        await house.reconcile()
        house.clock.advance(GRACE + 1)
        for _ in range(3):
            await house.reconcile()

        assert set(house.heard.warned) == {STUCK}
        assert house.sockets.waiting(HOST_DIR) == {STRANGE_ID: 1}
        house.sockets.clear(a_directory(STRANGE_ID))
        await house.reconcile()
        assert house.sockets.waiting(HOST_DIR) == {}


class TestAnOrphanThatIsLarge:
    async def test_is_out_of_sight_at_once_and_gone_on_with(self, house: House) -> None:
        house.sockets.make(a_directory(STRANGE_ID))
        house.sockets.litter(a_directory(STRANGE_ID), 2 * A_PASS)
        await house.reconcile()
        house.clock.advance(GRACE + 1)
        await house.reconcile()
        assert house.traces.directories == frozenset()
        for _ in range(2):
            await house.reconcile()

        assert house.sockets.waiting(HOST_DIR) == {}
        assert house.heard.warned == ["an orphaned directory was removed"]


class TestADirectoryThatWasChanged:
    """Mended at the start and in PreStartContainer; a reconcile mends what is missing or another and tells the rest."""

    async def changed(self, house: House, mode: int = 0o755) -> Directory:
        directory = house.allocation(await house.granted(dev(1))).directory
        house.sockets.chmod(directory, mode)
        return directory

    async def test_is_told_once_and_left_as_it_is(self, house: House) -> None:
        directory = await self.changed(house)
        for _ in range(3):
            await house.reconcile()

        assert house.heard.warnings == [(ODD, {"allocation": directory.id, "differences": ["mode 0755 -> 2770"]})]
        assert house.sockets.mode(directory) == 0o755

    async def test_and_changed_again_is_not_told_again(self, house: House) -> None:
        """Its tenant could fill the log."""
        directory = await self.changed(house)
        for mode in (0o700, 0o711, 0o777):
            await house.reconcile()
            house.sockets.chmod(directory, mode)
        await house.reconcile()

        assert house.heard.warned == [ODD]

    async def test_is_told_again_after_it_was_mended(self, house: House) -> None:
        directory = await self.changed(house)
        await house.reconcile()
        await house.pre_start(dev(1))
        assert house.sockets.mode(directory) == 0o2770
        await house.reconcile()
        house.sockets.chmod(directory, 0o755)
        await house.reconcile()

        assert house.heard.warned.count(ODD) == 2

    async def test_is_mended_and_not_told_if_it_is_another(self, house: House) -> None:
        name = await house.granted(dev(1))
        house.sockets.replace(a_directory(name))
        await house.reconcile()
        await house.reconcile()

        assert ODD not in house.heard.warned

    async def test_and_cannot_be_examined_is_told_so(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        def dead(_: Directory) -> tuple[str, ...]:
            raise DirectoryUnusable("its mount does not answer")

        await self.changed(house)
        monkeypatch.setattr(house.sockets, "differences", dead)
        await house.reconcile()

        assert house.heard.warnings == [("a directory cannot be examined", {"reason": "its mount does not answer"})]

    async def test_of_an_allocation_on_its_way_out_is_nobodys_business(self, house: House) -> None:
        directory = await self.changed(house)
        house.stand(directory.id, Standing.FORCED)
        await house.reconcile()

        assert house.heard.warned == []


async def test_of_many_strangers_some_are_named(house: House) -> None:
    for number in range(30):
        house.sockets.add_stranger(HOST_DIR, f"{number:02}.txt")
    for _ in range(2):
        await house.reconcile()

    ((_, facts),) = house.heard.warnings
    assert facts["names"] == [*(f"{number:02}.txt" for number in range(20)), "and 10 more"]
