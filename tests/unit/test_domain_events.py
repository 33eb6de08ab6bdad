"""What watchers are told of a change."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.allocation import Allocation
from domain.events import Change, EventLog, EventType, GapGone, changes, snapshot
from domain.ledger import Ledger, Standing
from tests.unit.domain_values import an_owner, numbered

ONE, TWO = numbered(1), numbered(2)
BOUND = numbered(3, owner=an_owner())


def ledger(*allocations: Allocation) -> Ledger:
    return Ledger().with_live(allocations, at=0)


def told(before: Ledger, after: Ledger) -> list[tuple[EventType, str]]:
    return [(each.type, each.allocation.id) for each in changes(before, after)]


def test_a_grant_is_told() -> None:
    assert told(ledger(ONE), ledger(ONE, TWO)) == [(EventType.ALLOCATED, TWO.id)]


def test_an_adoption_with_its_owner_is_told_as_allocated_and_bound() -> None:
    assert told(Ledger(), ledger(BOUND)) == [(EventType.ALLOCATED, BOUND.id), (EventType.BOUND, BOUND.id)]


def test_an_owner_is_told_when_it_is_complete_and_once() -> None:
    before = ledger(ONE)
    partly = before.owned(ONE.id, an_owner(name=None))
    whole = partly.owned(ONE.id, an_owner())

    assert told(before, partly) == []
    assert told(partly, whole) == [(EventType.BOUND, ONE.id)]
    assert told(whole, whole.touched((ONE.id,), at=5)) == []


@pytest.mark.parametrize("standing", [Standing.RELEASING, Standing.FORCED])
def test_a_release_is_told_when_it_begins_and_not_again_when_the_record_goes(standing: Standing) -> None:
    before = ledger(ONE)
    going = before.standing(ONE.id, standing)

    assert told(before, going) == [(EventType.RELEASED, ONE.id)]
    assert told(going, going.without((ONE.id,))) == []


def test_a_record_that_simply_goes_is_told_as_released() -> None:
    assert told(ledger(ONE), Ledger()) == [(EventType.RELEASED, ONE.id)]


def test_what_lives_again_is_told_as_new() -> None:
    going = ledger(BOUND).standing(BOUND.id, Standing.RELEASING)

    assert told(going, going.touched((BOUND.id,), at=1)) == [
        (EventType.ALLOCATED, BOUND.id),
        (EventType.BOUND, BOUND.id),
    ]


def test_a_snapshot_has_one_entry_a_living_allocation() -> None:
    taken = snapshot(ledger(ONE, BOUND, TWO).standing(TWO.id, Standing.RELEASING))

    assert taken == (Change(EventType.ALLOCATED, ONE), Change(EventType.BOUND, BOUND))


def test_events_are_counted_and_given_from_any_point_that_is_kept() -> None:
    log = EventLog(kept=3)
    for _ in range(5):
        log.append(Change(EventType.ALLOCATED, ONE))

    assert log.last == 5
    assert [event.seq for event in log.after(2)] == [3, 4, 5]
    assert [event.seq for event in log.after(4)] == [5]
    assert log.after(5) == ()


@pytest.mark.parametrize("seq", [1, 0, 6, 99])
def test_a_gap_that_is_gone_or_never_was_is_said_to_be_so(seq: int) -> None:
    log = EventLog(kept=3)
    for _ in range(5):
        log.append(Change(EventType.ALLOCATED, ONE))

    with pytest.raises(GapGone, match=str(seq)):
        log.after(seq)


@given(st.lists(st.sampled_from(["grant", "own", "release", "drop", "revive"]), max_size=30))
def test_a_watcher_that_applies_the_events_knows_what_lives(steps: Sequence[str]) -> None:
    """Whatever happens, snapshot and events together give the living allocations and their owners."""
    now, known, number = Ledger(), dict[str, bool](), 0
    for step in steps:
        before, names = now, list(now.records)
        if step == "grant":
            number += 1
            now = now.with_live([numbered(number)], at=0)
        elif names and step == "own":
            now = now.owned(names[-1], an_owner())
        elif names and step == "release":
            now = now.standing(names[0], Standing.RELEASING)
        elif names and step == "drop":
            now = now.without(names[:1])
        elif names:
            now = now.touched(names[:1], at=0)
        for change in changes(before, now):
            if change.type is EventType.RELEASED:
                del known[change.allocation.id]
            else:
                known[change.allocation.id] = change.type is EventType.BOUND

    assert known == {each.id: each.owner.complete for each in now.live()}
