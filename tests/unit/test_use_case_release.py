"""Release: directory and record go, in steps that can be resumed."""

import asyncio

import pytest

from domain.allocation import Directory
from domain.ledger import Standing
from domain.ports.journal import JournalUnusable
from domain.ports.sockets import Leftover
from tests.unit.house import GRACE, HOST_DIR, NOTHING, House, a_directory, dev


@pytest.fixture
async def house() -> House:
    return await House().recover()


async def turns() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_directory_and_record_are_gone_and_it_is_said(house: House) -> None:
    name = await house.granted(dev(1))

    assert await house.release(name)
    assert house.traces == NOTHING
    assert house.sockets.waiting(HOST_DIR) == {}
    assert house.heard.facts("released") == {"allocation": name, "resource": "contivpp.io/memif", "reason": "a test"}


async def test_the_record_says_so_before_the_directory_goes(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash in between, the next start finds what to finish; the other way round it would make it again."""
    name = await house.granted(dev(1))
    seen: list[Standing] = []
    remove = house.sockets.remove

    def looking(directory: Directory) -> Leftover:
        seen.append(house.journal.contents[name][1])
        return remove(directory)

    monkeypatch.setattr(house.sockets, "remove", looking)
    await house.release(name)

    assert seen == [Standing.RELEASING]


async def test_another_allocation_of_the_same_device_is_left_alone(house: House) -> None:
    old = await house.granted(dev(1), uid="old")
    new = await house.granted(dev(1), uid="new")
    await house.release(old)

    assert house.traces.ledger == house.traces.journal == house.traces.directories == {new}


async def test_a_starting_container_in_between_keeps_it_alive(house: House) -> None:
    """Its directory job queues behind the removal, and the drop is skipped."""
    name = await house.granted(dev(1))
    house.worker.hold()
    starting = asyncio.create_task(house.pre_start(dev(1)))
    await turns()
    releasing = asyncio.create_task(house.release(name))
    await turns()
    assert house.record(name).standing is Standing.RELEASING
    house.worker.resume()
    await starting

    assert not await releasing
    assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
    assert house.exists(name)
    assert "released" not in house.heard.noted


async def test_a_container_that_starts_while_it_is_removed_finds_it_adopted_anew(house: House) -> None:
    """The removal was first; what the kubelet's record still names comes back as it was."""
    name = await house.granted(dev(1))
    was = house.allocation(name)
    house.worker.hang_next()
    releasing = asyncio.create_task(house.release(name))
    await turns()
    starting = asyncio.create_task(house.pre_start(dev(1)))
    await turns()
    house.worker.resume()
    await starting

    assert await releasing
    assert (house.allocation(name).secret, house.allocation(name).host_socket) == (was.secret, was.host_socket)
    assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
    assert house.exists(name)


async def test_what_changed_since_it_was_decided_is_not_released(house: House) -> None:
    name = await house.granted(dev(1))
    decided = house.record(name)
    house.clock.advance(1)
    await house.pre_start(dev(1))

    assert not await house.container.release()(decided, reason="a test")
    assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
    assert house.exists(name)


async def test_what_is_gone_already_is_not_released_again(house: House) -> None:
    name = await house.granted(dev(1))
    decided = house.record(name)
    await house.release(name)

    assert not await house.container.release()(decided, reason="a test")
    assert house.heard.noted.count("released") == 1


@pytest.mark.parametrize("standing", [Standing.LIVE, Standing.FORCED])
async def test_a_journal_that_cannot_be_written_releases_nothing_yet(house: House, standing: Standing) -> None:
    name = await house.granted(dev(1))
    house.stand(name, standing)
    house.journal.fail(JournalUnusable("its disk is full"))

    assert not await house.release(name)
    assert house.standing(name) == (standing, standing)
    assert house.exists(name)
    assert house.heard.facts("an allocation is not released yet") == {
        "allocation": name,
        "reason": "its disk is full",
    }
    house.journal.fail(None)
    assert await house.release(name)


async def test_what_resists_removal_stays_on_its_way_out_until_it_can_be_removed(house: House) -> None:
    name = await house.granted(dev(1))
    house.sockets.obstruct(a_directory(name), "a mount point is in it; unmount it")

    assert not await house.release(name)
    assert house.standing(name) == (Standing.RELEASING, Standing.RELEASING)
    assert house.heard.facts("a directory cannot be removed completely") == {
        "reason": "a mount point is in it; unmount it"
    }
    house.sockets.clear(a_directory(name))
    assert await house.release(name)
    assert house.traces == NOTHING


async def test_a_large_directory_is_out_of_sight_at_once_and_deleted_over_time(house: House) -> None:
    name = await house.granted(dev(1))
    house.sockets.litter(a_directory(name), 25_000)

    assert await house.release(name)
    assert house.traces.directories == frozenset()
    assert house.standing(name) == (Standing.RELEASING, Standing.RELEASING)
    assert house.sockets.waiting(HOST_DIR) == {name: 1}
    house.forgotten("uid-1")
    for _ in range(2):
        await house.reconcile()
    assert house.sockets.waiting(HOST_DIR) == {}
    assert house.traces == NOTHING
    assert house.heard.noted.count("released") == 1


async def test_a_record_that_cannot_be_dropped_is_finished_by_the_next_start(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise JournalUnusable("its disk is full")

    name = await house.granted(dev(1))
    with monkeypatch.context() as patch:
        patch.setattr(house.journal, "drop", full)
        assert await house.release(name)
    assert house.journal.contents[name][1] is Standing.RELEASING
    assert house.heard.facts("a released allocation stays in the journal")["allocation"] == name

    house.forgotten("uid-1")
    after = await House(after=house).recover()
    await after.reconcile()

    assert after.traces == NOTHING


async def test_a_forced_record_is_dropped_like_any_other(house: House) -> None:
    name = await house.granted(dev(1))
    house.stand(name, Standing.FORCED)
    house.sockets.remove(a_directory(name))

    assert await house.release(name)
    assert house.traces == NOTHING


async def test_while_it_cannot_be_recorded_watchers_are_not_told_of_it_at_every_reconcile(house: House) -> None:
    """They would take a link down and up again each time."""
    name = await house.granted(dev(1))
    house.another_pod_runs()
    house.forgotten("uid-1")
    house.clock.advance(GRACE + 1)
    house.journal.fail(JournalUnusable("its disk is full"))
    told = house.state.events.last
    for _ in range(3):
        await house.reconcile()
    assert house.state.events.last == told
    assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
    assert set(house.heard.warned) == {"nothing is released while it cannot be recorded"}
    house.journal.fail(None)
    await house.reconcile()

    assert house.traces == NOTHING
