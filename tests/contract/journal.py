"""What every :class:`~domain.ports.journal.Journal` promises."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import pytest

from domain.allocation import Owner
from domain.identity import AllocationId, PodUid
from domain.ledger import Standing
from domain.ports.journal import Journal, JournalUnusable, Recovered
from tests.contract.journal_values import FULL, FULL_OWNER, FULL_POOL, RESOURCE, numbered


class Stage(Protocol):
    """A journal and the ground it stands on."""

    @property
    def journal(self) -> Journal:
        """The journal of the current process."""
        ...

    def crash(self) -> None:
        """Let the process die without closing anything; ``journal`` is a new process's then, not open yet."""
        ...

    def damage(self) -> None:
        """Damage what is stored, after the journal was closed."""
        ...

    def obstruct(self) -> None:
        """Make it impossible to record anything."""
        ...

    def clear(self) -> None:
        """Make it possible again."""
        ...


UNKNOWN = AllocationId("zzzzzzzzzzzzzzzzzzzz")

CHANGES: dict[str, Callable[[Journal], None]] = {
    "add": lambda journal: journal.add([numbered(9)]),
    "add durably": lambda journal: journal.add([numbered(9)], durable=True),
    "own": lambda journal: journal.own(numbered(1).id, FULL_OWNER),
    "stand": lambda journal: journal.stand([numbered(1).id], Standing.RELEASING),
    "drop": lambda journal: journal.drop([numbered(1).id]),
    "use": lambda journal: journal.use([FULL_POOL]),
}

changes = pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in CHANGES.items()])


class JournalContract:
    """Subclass this for an adapter, with a fixture ``stage``."""

    def test_a_new_journal_is_empty(self, stage: Stage) -> None:
        assert stage.journal.open() == Recovered()

    def test_a_crash_loses_no_change_that_returned(self, stage: Stage) -> None:
        """A change is one transaction; after it returned, a crash of the process loses nothing of it."""
        stage.journal.open()
        stage.journal.add([numbered(1), numbered(2), FULL])
        stage.journal.own(numbered(1).id, FULL_OWNER)
        stage.journal.stand([numbered(2).id], Standing.FORCED)
        stage.journal.use([FULL_POOL])
        stage.crash()

        assert stage.journal.open() == Recovered(
            allocations=(
                (replace(numbered(1), owner=FULL_OWNER), Standing.LIVE),
                (numbered(2), Standing.FORCED),
                (FULL, Standing.LIVE),
            ),
            pools=(FULL_POOL,),
        )

    def test_a_crash_loses_no_durable_addition(self, stage: Stage) -> None:
        stage.journal.open()
        stage.journal.add([numbered(1)])
        stage.journal.add([FULL], durable=True)
        stage.crash()

        assert stage.journal.open().allocations == ((numbered(1), Standing.LIVE), (FULL, Standing.LIVE))

    def test_a_crash_revives_nothing_that_was_dropped(self, stage: Stage) -> None:
        stage.journal.open()
        stage.journal.add([numbered(1), numbered(2)])
        stage.journal.drop([numbered(1).id])
        stage.crash()

        assert stage.journal.open().allocations == ((numbered(2), Standing.LIVE),)

    def test_what_was_closed_is_there_when_it_is_opened_again(self, stage: Stage) -> None:
        stage.journal.open()
        stage.journal.add([numbered(1)])
        stage.journal.close()

        assert stage.journal.open().allocations == ((numbered(1), Standing.LIVE),)

    def test_opening_an_open_journal_begins_anew(self, stage: Stage) -> None:
        stage.journal.open()
        stage.journal.add([numbered(1)])

        assert stage.journal.open().allocations == ((numbered(1), Standing.LIVE),)

    def test_allocations_come_back_in_the_order_of_their_grant(self, stage: Stage) -> None:
        """Neither by id nor by the time of day, which may have been set back between two grants."""
        stage.journal.open()
        for number in (5, 3, 4, 1):
            stage.journal.add([numbered(number)])

        assert [each.id for each, _ in stage.journal.open().allocations] == [numbered(n).id for n in (5, 3, 4, 1)]

    def test_the_order_holds_after_the_last_one_was_dropped(self, stage: Stage) -> None:
        stage.journal.open()
        stage.journal.add([numbered(3), numbered(2)])
        stage.journal.drop([numbered(2).id])
        stage.journal.add([numbered(1)])

        assert [each.id for each, _ in stage.journal.open().allocations] == [numbered(3).id, numbered(1).id]

    def test_adding_a_known_allocation_replaces_it(self, stage: Stage) -> None:
        """A drop that failed leaves a record that the ledger does not have, and adoption may bring it back."""
        stage.journal.open()
        stage.journal.add([numbered(1), numbered(2)])
        stage.journal.stand([numbered(1).id], Standing.RELEASING)
        stage.journal.add([replace(numbered(1), owner=FULL_OWNER)])

        assert stage.journal.open().allocations == (
            (numbered(2), Standing.LIVE),
            (replace(numbered(1), owner=FULL_OWNER), Standing.LIVE),
        )

    def test_an_owner_becomes_known_bit_by_bit(self, stage: Stage) -> None:
        stage.journal.open()
        stage.journal.add([numbered(1)])
        stage.journal.own(numbered(1).id, Owner(uid=PodUid("0aa1-77"), container="dataplane"))
        stage.journal.own(numbered(1).id, Owner(namespace="telco", name="cnf"))

        assert stage.journal.open().allocations == ((replace(numbered(1), owner=FULL_OWNER), Standing.LIVE),)

    def test_what_is_known_of_an_owner_never_changes(self, stage: Stage) -> None:
        stage.journal.open()
        stage.journal.add([FULL])
        stage.journal.own(FULL.id, Owner(uid=PodUid("another"), container="b", namespace="c", name="d"))

        assert stage.journal.open().allocations == ((FULL, Standing.LIVE),)

    def test_an_allocation_on_its_way_out_can_live_again(self, stage: Stage) -> None:
        """PreStartContainer may name one whose directory is just being removed."""
        stage.journal.open()
        stage.journal.add([numbered(1)])
        stage.journal.stand([numbered(1).id], Standing.RELEASING)
        stage.journal.stand([numbered(1).id], Standing.LIVE)

        assert stage.journal.open().allocations == ((numbered(1), Standing.LIVE),)

    def test_changes_to_unknown_allocations_are_ignored(self, stage: Stage) -> None:
        stage.journal.open()
        stage.journal.add([numbered(1)])
        stage.journal.own(UNKNOWN, FULL_OWNER)
        stage.journal.stand([UNKNOWN], Standing.FORCED)
        stage.journal.drop([UNKNOWN])

        assert stage.journal.open().allocations == ((numbered(1), Standing.LIVE),)

    def test_changes_of_nothing_are_nothing(self, stage: Stage) -> None:
        stage.journal.open()
        stage.journal.add([])
        stage.journal.add([], durable=True)
        stage.journal.stand([], Standing.FORCED)
        stage.journal.drop([])
        stage.journal.use([])

        assert stage.journal.open() == Recovered()

    def test_a_pool_is_kept_as_it_was_last_used(self, stage: Stage) -> None:
        stage.journal.open()
        stage.journal.use([FULL_POOL])
        stage.journal.use([replace(FULL_POOL, capacity=3, numa_node=None)])

        assert stage.journal.open().pools == (replace(FULL_POOL, capacity=3, numa_node=None),)

    def test_a_pool_that_is_not_named_stays(self, stage: Stage) -> None:
        """A pool that is gone from the configuration is served until its last allocation is gone."""
        other = replace(FULL_POOL, resource=RESOURCE)
        stage.journal.open()
        stage.journal.use([FULL_POOL])
        stage.journal.use([other])

        assert stage.journal.open().pools == (other, FULL_POOL)

    def test_what_is_damaged_is_set_aside_with_a_reason(self, stage: Stage) -> None:
        """A file that is damaged, foreign or of a newer major version is never a reason not to start."""
        stage.journal.open()
        stage.journal.add([numbered(1)])
        stage.journal.use([FULL_POOL])
        stage.journal.close()
        stage.damage()
        recovered = stage.journal.open()

        assert recovered.set_aside
        assert numbered(1).secret.reveal() not in recovered.set_aside
        assert recovered == Recovered(set_aside=recovered.set_aside)

    def test_a_journal_made_after_damage_works(self, stage: Stage) -> None:
        stage.journal.open()
        stage.journal.close()
        stage.damage()
        stage.journal.open()
        stage.journal.add([numbered(2)])
        stage.crash()

        assert stage.journal.open() == Recovered(allocations=((numbered(2), Standing.LIVE),))

    @changes
    def test_a_change_that_cannot_be_recorded_says_so_and_changes_nothing(
        self, stage: Stage, change: Callable[[Journal], None]
    ) -> None:
        stage.journal.open()
        stage.journal.add([numbered(1)])
        stage.obstruct()
        with pytest.raises(JournalUnusable) as caught:
            change(stage.journal)
        stage.clear()

        assert "Hush" not in f"{caught.value!r} {caught.value}"
        assert stage.journal.open() == Recovered(allocations=((numbered(1), Standing.LIVE),))

    @changes
    def test_it_works_again_by_itself(self, stage: Stage, change: Callable[[Journal], None]) -> None:
        stage.journal.open()
        stage.journal.add([numbered(1)])
        stage.obstruct()
        with pytest.raises(JournalUnusable):
            change(stage.journal)
        stage.clear()
        change(stage.journal)

        assert stage.journal.open() != Recovered(allocations=((numbered(1), Standing.LIVE),))

    def test_one_call_may_add_known_and_new_ones(self, stage: Stage) -> None:
        stage.journal.open()
        stage.journal.add([numbered(1)])
        stage.journal.add([numbered(2), numbered(1), numbered(3)])

        assert [each.id for each, _ in stage.journal.open().allocations] == [numbered(n).id for n in (2, 1, 3)]

    @changes
    def test_a_closed_journal_records_nothing(self, stage: Stage, change: Callable[[Journal], None]) -> None:
        stage.journal.open()
        stage.journal.close()
        with pytest.raises(JournalUnusable):
            change(stage.journal)

        assert stage.journal.open() == Recovered()

    def test_an_open_journal_says_that_it_would_record(self, stage: Stage) -> None:
        stage.journal.open()
        stage.journal.check()
        stage.journal.add([numbered(1)])
        stage.journal.check()

        assert stage.journal.open() == Recovered(allocations=((numbered(1), Standing.LIVE),))

    def test_one_that_cannot_record_says_so_after_the_change_that_failed_and_until_it_can(self, stage: Stage) -> None:
        stage.journal.open()
        stage.obstruct()
        with pytest.raises(JournalUnusable):
            stage.journal.add([numbered(1)])
        for _ in range(2):
            with pytest.raises(JournalUnusable):
                stage.journal.check()
        stage.clear()
        stage.journal.check()

        assert stage.journal.open() == Recovered()

    def test_one_that_is_not_open_would_record_nothing(self, stage: Stage) -> None:
        with pytest.raises(JournalUnusable):
            stage.journal.check()
        stage.journal.open()
        stage.journal.close()
        with pytest.raises(JournalUnusable):
            stage.journal.check()

    def test_closing_twice_is_fine(self, stage: Stage) -> None:
        stage.journal.close()
        stage.journal.open()
        stage.journal.close()
        stage.journal.close()

        assert stage.journal.open() == Recovered()
