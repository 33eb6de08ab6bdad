"""Watch: following how the set of living allocations changes."""

import pytest

from domain.events import EventType
from domain.identity import AllocationId
from domain.ledger import Standing
from tests.unit.house import House, dev

Told = tuple[int, EventType, AllocationId | None]


@pytest.fixture
async def house() -> House:
    house = await House().recover()
    house.another_pod_runs()
    return house


def begun(house: House) -> list[Told]:
    return [(each.seq, each.type, _name(each.allocation)) for each in house.container.watchers().begin()]


def resumed(house: House, seq: int, instance: str | None = None) -> list[Told]:
    watch = house.container.watchers()
    found = watch.resume(seq, watch.instance if instance is None else instance)
    return [(each.seq, each.type, _name(each.allocation)) for each in found]


def after(house: House, seq: int) -> list[Told]:
    return [(each.seq, each.type, _name(each.allocation)) for each in house.container.watchers().after(seq)]


def _name(allocation: object) -> AllocationId | None:
    return getattr(allocation, "id", None)


async def test_it_begins_with_what_lives_and_a_bookmark(house: House) -> None:
    """Each is told once, as it stands: what led there is over."""
    bound = await house.granted(dev(1))
    house.runs(bound)
    await house.reconcile()
    pending = await house.granted(dev(2), uid="uid-2")
    forced = await house.granted(dev(3), uid="uid-3")
    house.stand(forced, Standing.FORCED)

    last = house.state.events.last
    assert begun(house) == [
        (last, EventType.BOUND, bound),
        (last, EventType.ALLOCATED, pending),
        (last, EventType.SYNCED, None),
    ]


async def test_on_an_empty_node_it_begins_with_the_bookmark(house: House) -> None:
    assert begun(house) == [(0, EventType.SYNCED, None)]


async def test_what_comes_after_is_told_in_order(house: House) -> None:
    seq = begun(house)[-1][0]
    name = await house.granted(dev(1))
    house.runs(name)
    await house.reconcile()
    await house.release(name)

    assert after(house, seq) == [
        (1, EventType.ALLOCATED, name),
        (2, EventType.BOUND, name),
        (3, EventType.RELEASED, name),
    ]
    assert after(house, 3) == []


async def test_who_comes_back_is_told_what_was_missed(house: House) -> None:
    first = await house.granted(dev(1))
    second = await house.granted(dev(2), uid="uid-2")
    await house.release(first)

    assert resumed(house, 1) == [
        (2, EventType.ALLOCATED, second),
        (3, EventType.RELEASED, first),
        (3, EventType.SYNCED, None),
    ]
    assert resumed(house, 3) == [(3, EventType.SYNCED, None)]


@pytest.mark.parametrize("instance", ["another", ""])
async def test_who_comes_back_from_another_process_must_begin_anew(house: House, instance: str) -> None:
    await house.granted(dev(1))

    assert resumed(house, 1, instance) == [(1, EventType.RESYNC_NEEDED, None)]


async def test_a_gap_that_is_gone_must_begin_anew(house: House) -> None:
    events = house.state.events
    house.state.events = type(events)(kept=2)
    for index in range(3):
        await house.granted(dev(index), uid=f"uid-{index}")

    assert resumed(house, 0) == [(3, EventType.RESYNC_NEEDED, None)]
    assert after(house, 0) == [(3, EventType.RESYNC_NEEDED, None)]
    assert [seq for seq, _, _ in after(house, 1)] == [2, 3]


async def test_events_that_never_were_must_begin_anew(house: House) -> None:
    assert resumed(house, 7) == [(0, EventType.RESYNC_NEEDED, None)]


async def test_a_watcher_is_woken_by_every_event_and_by_nothing_else(house: House) -> None:
    woken: list[int] = []
    watch = house.container.watchers()
    with watch.watched(lambda: woken.append(house.state.events.last)):
        name = await house.granted(dev(1))
        await house.pre_start(dev(1))
        await house.release(name)
    await house.granted(dev(2))

    assert woken == [1, 2]


async def test_it_is_busy_while_the_kubelet_waits_and_a_moment_longer(house: House) -> None:
    watch, found = house.container.watchers(), []
    found.append(watch.busy)
    with house.state.allocating():
        found.append(watch.busy)
    found.append(watch.busy)
    house.clock.advance(0.021)
    found.append(watch.busy)

    assert found == [False, True, True, False]
