"""The ledger is a value: every change is another ledger."""

from typing import Any

import pytest

from domain.allocation import Owner
from domain.identity import AllocationId, PodUid
from domain.ledger import Ledger, Record, Standing
from domain.resource import ResourceName
from tests.unit.domain_values import RESOURCE, a_pool, an_id, an_owner, device_ids, numbered


@pytest.fixture
def ledger() -> Ledger:
    """Three allocations: one live, one on its way out, one hidden."""
    made = Ledger().with_live([numbered(2), numbered(1), numbered(3)], at=10.0)
    return made.standing(an_id(1), Standing.RELEASING).standing(an_id(3), Standing.FORCED)


def test_a_new_ledger_is_empty() -> None:
    assert len(Ledger()) == 0
    assert list(Ledger()) == []
    assert Ledger().live() == ()


def test_an_allocation_that_is_granted_or_adopted_lives_from_then_on() -> None:
    assert list(Ledger().with_live([numbered(1)], at=10.0)) == [
        Record(allocation=numbered(1), standing=Standing.LIVE, touched=10.0, inode=None)
    ]


def test_records_are_kept_in_the_order_of_their_grant(ledger: Ledger) -> None:
    more = ledger.with_live([numbered(0)], at=11.0)

    assert [record.allocation.id for record in more] == [an_id(2), an_id(1), an_id(3), an_id(0)]


def test_a_record_is_found_whatever_its_standing(ledger: Ledger) -> None:
    assert [an_id(number) in ledger for number in range(4)] == [False, True, True, True]
    assert len(ledger) == 3
    record = ledger.get(an_id(3))
    assert record is not None
    assert (record.allocation, record.standing) == (numbered(3), Standing.FORCED)
    assert ledger.get(an_id(0)) is None


def test_only_what_stands_so_is_live(ledger: Ledger) -> None:
    assert ledger.live() == (numbered(2),)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_nothing_may_overwrite_a_record(ledger: Ledger, number: int) -> None:
    with pytest.raises(ValueError, match=f"allocation {an_id(number)} is in the ledger already"):
        ledger.with_live([numbered(0), numbered(number)], at=11.0)

    assert len(ledger) == 3


def test_nor_may_two_of_one_batch_be_the_same() -> None:
    with pytest.raises(ValueError, match="is in the ledger already"):
        Ledger().with_live([numbered(1), numbered(1)], at=11.0)


class TestHolding:
    """Who holds an id: perhaps several, perhaps hidden ones."""

    def test_records_of_any_standing_hold_their_ids(self, ledger: Ledger) -> None:
        held = ledger.holding(RESOURCE, device_ids(3, 1, 0))

        assert [record.allocation.id for record in held] == [an_id(1), an_id(3)]

    def test_one_common_id_is_enough(self) -> None:
        ledger = Ledger().with_live(
            [numbered(1, devices=device_ids(1, 2)), numbered(2, devices=device_ids(2, 3)), numbered(3)], at=1.0
        )

        assert [record.allocation.id for record in ledger.holding(RESOURCE, device_ids(2))] == [an_id(1), an_id(2)]

    def test_nobody_holds_nothing(self, ledger: Ledger) -> None:
        assert ledger.holding(RESOURCE, ()) == ()

    def test_ids_may_come_from_an_iterator(self, ledger: Ledger) -> None:
        assert len(ledger.holding(RESOURCE, iter(device_ids(1, 2, 3)))) == 3


class TestDevicesHeld:
    """What counts as allocated: distinct ids of live allocations."""

    def test_an_id_held_twice_counts_once(self) -> None:
        ledger = Ledger().with_live([numbered(1, devices=device_ids(7)), numbered(2, devices=device_ids(7, 8))], at=1.0)

        assert ledger.devices_held(a_pool().resource) == set(device_ids(7, 8))

    def test_only_live_allocations_count(self, ledger: Ledger) -> None:
        assert ledger.devices_held(a_pool().resource) == set(device_ids(2))

    def test_another_resource_s_do_not_count(self, ledger: Ledger) -> None:
        fast = a_pool(resource=ResourceName("example.com/fast"))
        more = ledger.with_live([numbered(9, pool=fast)], at=1.0)

        assert more.devices_held(fast.resource) == {fast.device(9)}
        assert more.devices_held(a_pool().resource) == set(device_ids(2))


class TestChanges:
    """Each change touches what it names and nothing else."""

    def test_what_a_starting_container_names_is_alive_again(self, ledger: Ledger) -> None:
        touched = ledger.touched([an_id(1), an_id(3)], at=20.0)

        assert [(record.standing, record.touched) for record in touched] == [
            (Standing.LIVE, 10.0),
            (Standing.LIVE, 20.0),
            (Standing.LIVE, 20.0),
        ]

    def test_an_owner_s_gaps_are_filled_and_what_is_known_stays(self, ledger: Ledger) -> None:
        once = ledger.owned(an_id(2), Owner(uid=PodUid("u")))
        twice = once.owned(an_id(2), an_owner())

        assert [each.owner for each in once.live()] == [Owner(uid=PodUid("u"))]
        assert [each.owner for each in twice.live()] == [an_owner(uid=PodUid("u"))]
        assert [record.touched for record in twice] == [10.0, 10.0, 10.0]

    @pytest.mark.parametrize("standing", Standing)
    def test_a_standing_changes_alone(self, ledger: Ledger, standing: Standing) -> None:
        record = ledger.standing(an_id(2), standing).get(an_id(2))

        assert record == Record(allocation=numbered(2), standing=standing, touched=10.0)

    def test_the_inodes_of_directories_are_remembered(self, ledger: Ledger) -> None:
        made = ledger.made({an_id(1): 11, an_id(2): 22})

        assert [record.inode for record in made] == [22, 11, None]
        assert [record.inode for record in made.made({an_id(2): 33})] == [33, 11, None]

    def test_records_are_dropped_and_dropping_can_be_repeated(self, ledger: Ledger) -> None:
        once = ledger.without([an_id(1), an_id(0)])

        assert [record.allocation.id for record in once] == [an_id(2), an_id(3)]
        assert once.without([an_id(1)]) == once

    def test_an_order_is_kept_by_every_change(self, ledger: Ledger) -> None:
        changed = ledger.touched([an_id(3)], at=1.0).made({an_id(3): 1}).standing(an_id(3), Standing.LIVE)
        changed = changed.owned(an_id(3), an_owner())

        assert [record.allocation.id for record in changed] == [an_id(2), an_id(1), an_id(3)]

    def test_unknown_names_change_nothing(self, ledger: Ledger) -> None:
        nobody = an_id(0)

        assert ledger.touched([nobody], at=99.0) == ledger
        assert ledger.owned(nobody, an_owner()) == ledger
        assert ledger.standing(nobody, Standing.FORCED) == ledger
        assert ledger.made({nobody: 1}) == ledger
        assert ledger.without([nobody]) == ledger

    def test_a_ledger_that_somebody_holds_does_not_move(self, ledger: Ledger) -> None:
        before = list(ledger)
        ledger.with_live([numbered(9)], at=1.0)
        ledger.touched([an_id(1)], at=99.0)
        ledger.owned(an_id(2), an_owner())
        ledger.standing(an_id(2), Standing.FORCED)
        ledger.made({an_id(2): 1})
        ledger.without([an_id(2)])

        assert list(ledger) == before

    @pytest.mark.parametrize("made", [Ledger(), Ledger().with_live([numbered(1)], at=1.0)], ids=["empty", "filled"])
    def test_its_records_cannot_be_written(self, made: Ledger) -> None:
        records: Any = made.records

        with pytest.raises(TypeError):
            records[AllocationId("x")] = None
