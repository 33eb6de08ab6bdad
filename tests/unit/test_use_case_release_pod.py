"""ReleasePod: the Release rule at once, or force."""

import asyncio
from typing import Any

import pytest

from domain import resync
from domain.dismissal import InUse, NotToldNow, SeveralUids, TooYoung
from domain.events import EventType
from domain.evidence import DirectoryView
from domain.identity import AllocationId, PodUid
from domain.ledger import Ledger, Standing
from domain.lookup import NoPod, Question
from domain.ports.journal import JournalUnusable
from domain.resync import Effect
from tests.unit.house import GRACE, NOTHING, House, a_directory, an_answer, dev

LATER = GRACE + 0.001
REASON = "reported gone through the test"


@pytest.fixture
async def house() -> House:
    """A house on a node where another pod runs, so that the runtime's view is not an empty one."""
    house = await House().recover()
    house.another_pod_runs()
    return house


async def release(house: House, name: str = "cnf", uid: str | None = None) -> tuple[AllocationId, ...]:
    question = Question(namespace="telco", name=name, uid=None if uid is None else PodUid(uid))
    return await house.container.release_pod()(question, reason=REASON)


async def force(house: House, name: str = "cnf", uid: str | None = None) -> tuple[AllocationId, ...]:
    question = Question(namespace="telco", name=name, uid=None if uid is None else PodUid(uid))
    return await house.container.release_pod().force(question, reason=REASON)


async def a_pod(house: House, index: int = 1, uid: str = "uid-1", pod: str = "cnf") -> tuple[AllocationId, str]:
    """Return an allocation of a pod that runs, and the pod's sandbox."""
    name = await house.granted(dev(index), uid=uid)
    return name, house.runs(name, uid=uid, pod=pod)


def container_of(house: House, name: AllocationId) -> str:
    """Return the runtime's id of the only container that mounts an allocation."""
    path = house.allocation(name).directory.path
    (found,) = [each.id for each in house.runtime.objects if path in each.mounts.values()]
    return found


def told(house: House) -> list[tuple[EventType, AllocationId | None]]:
    """Return what watchers were told."""
    return [(each.type, each.allocation.id if each.allocation else None) for each in house.state.events.after(0)]


class TestByTheRule:
    async def test_what_nothing_names_any_more_goes_at_once(self, house: House) -> None:
        name, sandbox = await a_pod(house)
        await house.reconcile()
        house.runtime.remove(sandbox)
        house.forgotten("uid-1")
        house.clock.advance(LATER)

        assert await release(house) == (name,)
        assert house.traces == NOTHING
        assert house.heard.facts("released")["reason"] == REASON

    async def test_all_that_the_pod_holds_and_nothing_else(self, house: House) -> None:
        first, sandbox = await a_pod(house)
        second = await house.granted(dev(2), container="other")
        others, _ = await a_pod(house, 3, "uid-2", "probe")
        await house.reconcile()
        house.runtime.remove(sandbox)
        house.forgotten("uid-1")
        house.clock.advance(LATER)

        assert await release(house) == (first, second)
        assert house.traces.ledger == {others}

    async def test_the_evidence_is_fresh(self, house: House) -> None:
        """A CNI plugin says so while the sandbox still exists: what was read before counts for nothing."""
        name, _ = await a_pod(house)
        house.clock.advance(LATER)

        with pytest.raises(InUse) as refused:
            await release(house)
        assert refused.value.holders == {name: (f"container:{container_of(house, name)}", "checkpoint")}
        assert house.exists(name)

    async def test_what_the_kubelet_can_still_mount_stays(self, house: House) -> None:
        name, sandbox = await a_pod(house)
        await house.reconcile()
        house.runtime.remove(sandbox)
        house.clock.advance(LATER)

        with pytest.raises(InUse, match="by checkpoint"):
            await release(house)
        assert house.exists(name)

    async def test_within_the_grace_it_is_too_young(self, house: House) -> None:
        name, sandbox = await a_pod(house)
        await house.reconcile()
        house.runtime.remove(sandbox)
        house.forgotten("uid-1")
        house.clock.advance(GRACE - 5)

        with pytest.raises(TooYoung) as refused:
            await release(house)
        assert refused.value.left == 5.0
        assert house.exists(name)

    async def test_without_a_view_it_cannot_be_told(self, house: House) -> None:
        name, _ = await a_pod(house)
        await house.reconcile()
        house.runtime.cut("connection refused")
        house.forgotten("uid-1")
        house.clock.advance(LATER)

        with pytest.raises(NotToldNow, match="runtime view unknown: connection refused"):
            await release(house)
        assert house.exists(name)

    async def test_what_may_go_goes_although_the_rest_is_refused(self, house: House) -> None:
        _, sandbox = await a_pod(house)
        await house.reconcile()
        house.runtime.remove(sandbox)
        house.forgotten("uid-1")
        house.clock.advance(LATER)
        late = await house.granted(dev(2), container="other")

        with pytest.raises(InUse):
            await release(house, uid="uid-1")
        assert house.traces.ledger == {late}
        assert house.traces.directories == {late}

    async def test_a_name_with_several_uids_needs_one(self, house: House) -> None:
        """A pod that was deleted by force may still run beside its successor."""
        old, _ = await a_pod(house, 1, "old")
        new, _ = await a_pod(house, 2, "new")
        await house.reconcile()

        with pytest.raises(SeveralUids) as refused:
            await release(house)
        assert refused.value.uids == ("old", "new")
        with pytest.raises(InUse) as still:
            await release(house, uid="old")
        assert set(still.value.holders) == {old}
        assert house.traces.ledger == {old, new}

    async def test_a_pod_that_holds_nothing_is_not_known(self, house: House) -> None:
        with pytest.raises(NoPod):
            await release(house)

    async def test_a_pod_of_which_only_the_kubelet_s_record_tells_is_known_by_its_uid(self, house: House) -> None:
        """Its sandbox never came to be."""
        name = await house.granted(dev(1))

        with pytest.raises(NoPod):
            await release(house)
        with pytest.raises(InUse):
            await release(house, uid="uid-1")
        house.forgotten("uid-1")
        house.clock.advance(LATER)
        assert await release(house, uid="uid-1") == (name,)

    async def test_it_waits_for_a_reconcile_that_runs(self, house: House) -> None:
        house.clock.advance(LATER)
        async with house.container.reconciler().turn:
            asking = asyncio.create_task(release(house))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert house.runtime.asked == []

        with pytest.raises(NoPod):
            await asking

    async def test_what_could_not_be_finished_is_not_said_to_be_gone(self, house: House) -> None:
        name, sandbox = await a_pod(house)
        await house.reconcile()
        house.runtime.remove(sandbox)
        house.forgotten("uid-1")
        house.clock.advance(LATER)
        house.journal.fail(JournalUnusable("its disk is full"))

        with pytest.raises(NotToldNow, match=name):
            await release(house)
        house.journal.fail(None)
        assert await release(house) == (name,)


class TestByForce:
    async def test_the_directory_goes_at_once_and_the_record_stays(self, house: House) -> None:
        name, _ = await a_pod(house)
        await house.reconcile()

        assert await force(house) == (name,)
        assert not house.exists(name)
        assert house.standing(name) == (Standing.FORCED, Standing.FORCED)
        assert told(house)[-1] == (EventType.RELEASED, name)
        assert house.heard.facts("forced out")["reason"] == REASON

    async def test_watchers_are_told_before_the_directory_goes(self, house: House) -> None:
        name, _ = await a_pod(house)
        await house.reconcile()
        existed: list[bool] = []
        with house.state.watched(lambda: existed.append(house.exists(name))):
            await force(house)

        assert existed == [True]
        assert not house.exists(name)

    async def test_neither_the_runtime_nor_the_kubelet_is_asked(self, house: House) -> None:
        await a_pod(house)
        await house.reconcile()
        house.runtime.asked.clear()
        house.kubelet.cut()
        house.runtime.cut()

        assert len(await force(house)) == 1
        assert house.runtime.asked == []
        assert house.kubelet.asked == []

    async def test_it_is_not_brought_back(self, house: House) -> None:
        """The kubelet's record still names it, and adoption is by that record."""
        name, _ = await a_pod(house)
        await house.reconcile()
        await force(house)
        await house.reconcile()

        assert house.standing(name) == (Standing.FORCED, Standing.FORCED)
        assert not house.exists(name)

    async def test_its_record_goes_by_the_rule(self, house: House) -> None:
        _, sandbox = await a_pod(house)
        await house.reconcile()
        await force(house)
        house.runtime.remove(sandbox)
        house.forgotten("uid-1")
        house.clock.advance(LATER)
        before = told(house)
        await house.reconcile()

        assert house.traces == NOTHING
        assert told(house) == before

    async def test_a_container_that_starts_makes_it_live_again(self, house: House) -> None:
        name, _ = await a_pod(house)
        await house.reconcile()
        await force(house)
        await house.pre_start(dev(1))

        assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
        assert house.exists(name)
        assert told(house)[-2:] == [(EventType.ALLOCATED, name), (EventType.BOUND, name)]

    async def test_after_a_crash_it_is_as_hidden_as_before(self, house: House) -> None:
        name, _ = await a_pod(house)
        await house.reconcile()
        await force(house)
        after = await House(after=house).recover()

        assert after.standing(name) == (Standing.FORCED, Standing.FORCED)
        assert not after.exists(name)

    async def test_after_a_crash_it_is_hidden_also_if_the_journal_had_not_known_of_it(self, house: House) -> None:
        """Its disk was full when the allocation was adopted, and has room again."""
        name = AllocationId("zzzzzzzzzzzzzzzzzzzz")
        house.store(an_answer(name), dev(1))
        house.journal.fail(JournalUnusable("its disk is full"))
        await house.reconcile()
        house.runs(name)
        await house.reconcile()
        house.journal.fail(None)
        assert name not in house.journal.contents

        assert await force(house) == (name,)
        after = await House(after=house).recover()
        await after.reconcile()
        assert after.standing(name) == (Standing.FORCED, Standing.FORCED)
        assert not after.exists(name)

    async def test_a_reconcile_that_had_decided_to_repair_it_does_not(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The operator's word came while the node was read."""
        name, _ = await a_pod(house)
        await house.reconcile()
        house.sockets.remove(a_directory(name))
        look = house.sockets.look

        def looking(host_dir: str) -> DirectoryView:
            view = look(host_dir)
            house.stand(name, Standing.FORCED)
            return view

        monkeypatch.setattr(house.sockets, "look", looking)
        ledger = house.state.ledger
        plan = resync.plan

        def by_what_was_known(_: Ledger, *rest: Any, **more: Any) -> tuple[Effect, ...]:
            return plan(ledger, *rest, **more)

        monkeypatch.setattr(resync, "plan", by_what_was_known)
        done = await house.reconcile()

        assert any(isinstance(effect, resync.Repair) for effect in done.effects)
        assert not house.exists(name)

    async def test_a_journal_that_cannot_be_written_keeps_it(self, house: House) -> None:
        """Without the record, adoption would bring it back with a directory that was taken from under it."""
        name, _ = await a_pod(house)
        await house.reconcile()
        house.journal.fail(JournalUnusable("its disk is full"))

        with pytest.raises(NotToldNow):
            await force(house)
        assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
        assert house.exists(name)
        assert told(house)[-3:] == [
            (EventType.RELEASED, name),
            (EventType.ALLOCATED, name),
            (EventType.BOUND, name),
        ]

    async def test_what_is_forced_out_already_is_not_meant(self, house: House) -> None:
        await a_pod(house)
        await house.reconcile()
        await force(house)

        with pytest.raises(NoPod):
            await force(house, uid="uid-1", name="probe")
        assert not await house.container.release().force(next(iter(house.state.ledger)), reason=REASON)
