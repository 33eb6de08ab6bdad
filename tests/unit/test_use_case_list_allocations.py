"""ListAllocations: everything that is there, and why it is still there."""

import pytest

from domain.evidence import ObjectState
from domain.ledger import Standing
from tests.unit.house import GRACE, House, dev


@pytest.fixture
async def house() -> House:
    house = await House().recover()
    house.another_pod_runs()
    return house


def listed(house: House) -> dict[str, tuple[str, ...]]:
    """Return by what each is held."""
    return {each.allocation.id: each.held_by for each in house.container.list_allocations()()}


async def test_they_come_in_the_order_of_their_grant(house: House) -> None:
    names = [await house.granted(dev(index), uid=f"uid-{index}") for index in (3, 1, 2)]

    assert list(listed(house)) == names


async def test_before_anything_was_read_that_is_what_keeps_them(house: House) -> None:
    (answer,) = await house.allocate([dev(1)])
    assert answer.mounts

    (held_by,) = listed(house).values()
    assert held_by == ("runtime view unknown: not read yet", "grace 20s")


async def test_by_the_last_readings_and_without_another(house: House) -> None:
    name = await house.granted(dev(1))
    house.runs(name)
    await house.reconcile()
    asked = house.asked_besides_storage()
    house.clock.advance(GRACE - 7.5)
    (container,) = [each.id for each in house.runtime.objects if each.container is not None]

    assert listed(house) == {name: (f"container:{container}", "checkpoint", "grace 8s")}
    assert house.asked_besides_storage() == asked


async def test_a_pod_that_is_gone_is_held_by_what_has_not_forgotten_it(house: House) -> None:
    name = await house.granted(dev(1))
    sandbox = house.runs(name)
    house.clock.advance(GRACE)
    await house.reconcile()
    house.runtime.remove(sandbox)
    await house.reconcile()

    assert listed(house) == {name: ("checkpoint",)}


def running(house: House) -> list[bool | None]:
    """Return of each whether a container that holds it may run."""
    return [each.running for each in house.container.list_allocations()()]


async def test_whether_a_container_runs_is_told_where_it_is_known(house: House) -> None:
    name = await house.granted(dev(1))
    assert running(house) == [None]
    await house.reconcile()
    assert running(house) == [False]
    house.runs(name)
    (container,) = [each.id for each in house.runtime.objects if each.container is not None]
    for state in ObjectState:
        house.runtime.set_state(container, state)
        await house.reconcile()
        assert running(house) == [state not in {ObjectState.CREATED, ObjectState.EXITED}]
    house.runtime.cut("containerd does not answer")
    await house.reconcile()

    assert running(house) == [None]


async def test_a_runtime_that_may_be_the_wrong_one_tells_of_no_container(house: House) -> None:
    await house.granted(dev(1))
    for each in house.runtime.objects:
        house.runtime.remove(each.id)
    house.kubelet.cut("the kubelet starts")
    await house.reconcile()

    assert running(house) == [None]


async def test_what_a_look_up_read_since_counts(house: House) -> None:
    name = await house.granted(dev(1))
    await house.reconcile()
    house.clock.advance(GRACE)
    house.forgotten("uid-1")
    assert listed(house) == {name: ("checkpoint", "grace 0s")}
    await house.container.adopt().from_checkpoint()

    assert listed(house) == {name: ("grace 0s",)}


async def test_what_was_forced_out_is_listed_with_what_still_names_it(house: House) -> None:
    name = await house.granted(dev(1))
    await house.reconcile()
    house.stand(name, Standing.FORCED)
    house.clock.advance(GRACE)

    assert listed(house) == {name: ("checkpoint", "grace 0s", "forced")}


async def test_what_is_on_its_way_out_is_not_listed(house: House) -> None:
    name = await house.granted(dev(1))
    house.stand(name, Standing.RELEASING)

    assert listed(house) == {}
