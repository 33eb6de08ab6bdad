"""Owning: whose an allocation is, written down once."""

import pytest

from domain.allocation import Owner
from domain.identity import PodUid
from domain.ports.journal import JournalUnusable
from domain.resync import Own
from tests.unit.house import House, dev

WHOLE = Owner(uid=PodUid("uid-1"), container="app", namespace="telco", name="cnf")


@pytest.fixture
async def house() -> House:
    return await House().recover()


async def test_uid_and_container_come_from_the_checkpoint(house: House) -> None:
    name = await house.granted(dev(1))
    view = await house.container.adopt().from_checkpoint()
    await house.container.own().from_checkpoint(view)

    known = Owner(uid=PodUid("uid-1"), container="app")
    assert house.allocation(name).owner == known
    assert house.journal.contents[name][0].owner == known
    assert "bound" not in house.heard.noted


async def test_with_the_name_from_the_runtime_the_allocation_is_bound(house: House) -> None:
    name = await house.granted(dev(1))
    house.runs(name)
    await house.reconcile()

    assert house.allocation(name).owner == WHOLE
    assert house.journal.contents[name][0].owner == WHOLE
    assert house.heard.facts("bound") == {
        "allocation": name,
        "namespace": "telco",
        "name": "cnf",
        "uid": "uid-1",
        "container": "app",
    }


async def test_what_is_known_once_never_changes(house: House) -> None:
    name = await house.granted(dev(1))
    house.runs(name)
    await house.reconcile()
    await house.container.own()((Own(id=name, owner=Owner(uid=PodUid("uid-2"), name="thief")),))

    assert house.allocation(name).owner == WHOLE


async def test_a_journal_that_cannot_be_written_is_reported_and_the_ledger_knows_all_the_same(house: House) -> None:
    name = await house.granted(dev(1))
    house.journal.fail(JournalUnusable("its disk is full"))
    await house.container.own()((Own(id=name, owner=WHOLE),))

    assert house.allocation(name).owner == WHOLE
    assert house.heard.facts("an owner is not in the journal") == {"allocation": name, "reason": "its disk is full"}


async def test_an_allocation_that_is_gone_meanwhile_is_not_brought_back(house: House) -> None:
    name = await house.granted(dev(1))
    await house.release(name)
    await house.container.own()((Own(id=name, owner=WHOLE),))

    assert name not in house.traces.ledger | house.traces.journal
