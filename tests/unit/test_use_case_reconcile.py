"""Reconcile: the resync rules, carried out."""

import asyncio

import pytest

from domain import resync
from domain.evidence import Unknown
from domain.identity import AllocationId
from domain.ledger import Standing
from domain.ports.sockets import DirectoryUnusable
from tests.unit.house import (
    GRACE,
    HOST_DIR,
    INTERVAL,
    NOTHING,
    STRANGE_ID,
    House,
    a_directory,
    an_answer,
    dev,
)

LATER = GRACE + 0.001


@pytest.fixture
async def house() -> House:
    """A house on a node where another pod runs, so that the runtime's view is not an empty one."""
    house = await House().recover()
    house.another_pod_runs()
    return house


async def gone(house: House, index: int = 1, uid: str = "uid-1") -> AllocationId:
    """Return an allocation of a pod that the kubelet and the runtime have forgotten."""
    name = await house.granted(dev(index), uid=uid)
    house.forgotten(uid)
    return name


def waits(effects: tuple[resync.Effect, ...]) -> list[str]:
    """Return why allocations and directories wait."""
    return [effect.reason for effect in effects if isinstance(effect, resync.Wait) and effect.id is not None]


class TestRelease:
    async def test_what_neither_view_names_goes_after_the_grace(self, house: House) -> None:
        await gone(house)
        house.clock.advance(LATER)
        await house.reconcile()

        assert house.traces == NOTHING
        assert house.heard.facts("released")["reason"] == "neither the runtime nor the kubelet names it"

    async def test_not_before(self, house: House) -> None:
        name = await gone(house)
        house.clock.advance(GRACE - 0.001)
        done = await house.reconcile()

        assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
        assert waits(done.effects) == ["grace 20s"]

    async def test_a_starting_container_begins_the_grace_anew(self, house: House) -> None:
        name = await gone(house)
        house.clock.advance(GRACE - 1)
        await house.pre_start(dev(1))
        house.clock.advance(GRACE - 1)
        await house.reconcile()

        assert house.standing(name) == (Standing.LIVE, Standing.LIVE)

    async def test_a_new_process_begins_the_grace_anew(self, house: House) -> None:
        name = await gone(house)
        house.clock.advance(1000)
        after = await House(after=house).recover()
        await after.reconcile()

        assert after.standing(name) == (Standing.LIVE, Standing.LIVE)

    async def test_what_the_kubelet_can_still_mount_stays(self, house: House) -> None:
        name = await house.granted(dev(1))
        house.clock.advance(1000)
        done = await house.reconcile()

        assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
        assert waits(done.effects) == ["checkpoint"]

    async def test_what_a_container_mounts_stays_in_whatever_state_that_is(self, house: House) -> None:
        """After a forced deletion the kubelet has forgotten the pod while its container still runs."""
        name = await house.granted(dev(1))
        sandbox = house.runs(name)
        house.runtime.halt()
        house.forgotten("uid-1")
        house.clock.advance(1000)
        await house.reconcile()
        assert house.exists(name)
        house.runtime.remove(sandbox)
        await house.reconcile()

        assert house.traces == NOTHING

    async def test_the_same_device_granted_again_releases_nothing(self, house: House) -> None:
        old = await house.granted(dev(1), uid="old")
        house.runs(old, uid="old")
        house.forgotten("old")
        new = await house.granted(dev(1), uid="new")
        house.clock.advance(1000)
        await house.reconcile()

        assert house.traces.ledger == house.traces.directories == {old, new}

    async def test_an_unknown_runtime_releases_nothing(self, house: House) -> None:
        name = await gone(house)
        house.runtime.cut("connection refused")
        house.clock.advance(1000)
        done = await house.reconcile()

        assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
        assert done.runtime == Unknown("connection refused")
        assert waits(done.effects) == ["runtime view unknown: connection refused"]

    async def test_an_unknown_checkpoint_releases_nothing(self, house: House) -> None:
        name = await gone(house)
        house.checkpoint.lose("it is not JSON")
        house.clock.advance(1000)
        done = await house.reconcile()

        assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
        assert waits(done.effects) == ["checkpoint view unknown: it is not JSON"]

    async def test_a_container_that_starts_while_the_node_is_read_keeps_its_allocation(self, house: House) -> None:
        """What is decided is tested again right before it is done."""
        name = await gone(house)
        house.clock.advance(LATER)
        house.worker.hold()
        reconciling = asyncio.create_task(house.reconcile())
        starting = asyncio.create_task(house.pre_start(dev(1)))
        await asyncio.sleep(0)
        house.worker.resume()
        await asyncio.gather(reconciling, starting)

        assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
        assert house.exists(name)

    async def test_an_interrupted_release_is_finished_even_while_nothing_can_be_seen(self, house: House) -> None:
        """It was decided before, and only a starting container revokes it."""
        name = await gone(house)
        house.stand(name, Standing.RELEASING)
        house.runtime.cut()
        await house.reconcile()

        assert house.traces == NOTHING

    async def test_a_forced_record_is_dropped_by_the_same_rule(self, house: House) -> None:
        name = await house.granted(dev(1))
        house.stand(name, Standing.FORCED)
        house.sockets.remove(a_directory(name))
        house.clock.advance(1000)
        await house.reconcile()
        assert house.standing(name) == (Standing.FORCED, Standing.FORCED)
        assert not house.exists(name)
        house.forgotten("uid-1")
        await house.reconcile()

        assert house.traces == NOTHING


class TestAnEmptyRuntime:
    @pytest.fixture
    async def bare(self) -> House:
        """A house on a node where nothing runs."""
        house = await House().recover()
        await gone(house)
        house.clock.advance(1000)
        return house

    async def test_that_the_kubelet_confirms_releases(self, bare: House) -> None:
        await bare.reconcile()

        assert bare.traces == NOTHING

    async def test_that_the_kubelet_contradicts_releases_nothing(self, bare: House) -> None:
        bare.kubelet.put("kube-system", "dns", {})
        done = await bare.reconcile()

        assert len(bare.traces.ledger) == 1
        assert waits(done.effects) == ["the runtime shows no pod and the kubelet does not confirm it"]

    async def test_that_the_kubelet_cannot_confirm_releases_nothing(self, bare: House) -> None:
        bare.kubelet.fail_next()
        await bare.reconcile()

        assert len(bare.traces.ledger) == 1

    async def test_a_listing_that_failed_is_followed_by_no_device_list(self, bare: House) -> None:
        await bare.granted(dev(2), uid="dead")
        bare.clock.advance(1000)
        bare.kubelet.cut()
        await bare.reconcile()

        assert (bare.kubelet.asked, bare.lists.published) == (["List"], [])
        assert "the kubelet was asked to forget dead pods" not in bare.heard.noted

    async def test_the_listing_that_settled_the_doubt_counts_as_asking_to_forget(self, bare: House) -> None:
        await bare.granted(dev(2), uid="dead")
        bare.clock.advance(1000)
        await bare.reconcile()

        assert bare.kubelet.asked == ["List"]
        assert bare.lists.published == [None]


class TestAsk:
    """The kubelet drops a dead pod only when it is listed, and rewrites its file only at a device list."""

    async def test_a_dead_pod_is_forgotten_and_then_released(self, house: House) -> None:
        await house.granted(dev(1), uid="dead")
        house.on_list = lambda: house.checkpoint.forget(*(entry.uid for entry in house.checkpoint.entries))
        house.on_publish = house.checkpoint.write
        house.clock.advance(LATER)
        await house.reconcile()
        assert (house.kubelet.asked, house.lists.published) == (["List"], [None])
        assert house.heard.facts("the kubelet was asked to forget dead pods")["reason"] == (
            "the checkpoint names a pod of which nothing exists"
        )
        await house.reconcile()

        assert house.traces == NOTHING

    async def test_it_is_asked_when_its_file_is_unknown(self, house: House) -> None:
        """A device list makes it write the file anew."""
        house.checkpoint.lose()
        house.on_publish = house.checkpoint.write
        house.clock.advance(LATER)
        await house.reconcile()

        assert (house.kubelet.asked, house.lists.published) == (["List"], [None])
        assert not isinstance(await self._checkpoint(house), Unknown)

    async def test_it_is_asked_at_most_once_an_interval_however_often_reconcile_runs(self, house: House) -> None:
        await house.granted(dev(1), uid="dead")
        house.clock.advance(LATER)
        for _ in range(5):
            await house.reconcile()
            house.clock.advance(INTERVAL / 5 - 0.001)
        assert house.kubelet.asked == ["List"]
        house.clock.advance(0.01)
        await house.reconcile()

        assert house.kubelet.asked == ["List", "List"]

    @pytest.mark.parametrize("after, asked", [(0.199, []), (0.201, ["List"])])
    async def test_not_within_200_ms_after_an_allocate(self, house: House, after: float, asked: list[str]) -> None:
        """A listing then makes the kubelet forget the ids that it just chose, and give them twice."""
        await house.granted(dev(1), uid="dead")
        house.clock.advance(after)
        done = await house.reconcile()

        assert house.kubelet.asked == asked
        assert any(isinstance(effect, resync.Ask) for effect in done.effects) is bool(asked)

    async def test_not_while_an_allocate_is_in_flight(self, house: House) -> None:
        await house.granted(dev(1), uid="dead")
        house.clock.advance(1000)
        with house.state.allocating():
            await house.reconcile()

        assert house.kubelet.asked == []

    async def test_not_when_an_allocate_came_while_the_node_was_read(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It may be asked when the plan is made, and not any more when its turn comes."""
        gone_meanwhile = await gone(house, 2, uid="gone")
        await house.granted(dev(1), uid="dead")
        house.clock.advance(1000)
        remove = house.sockets.remove

        def interrupted(_: object) -> object:
            with house.state.allocating():
                pass
            return remove(a_directory(gone_meanwhile))

        monkeypatch.setattr(house.sockets, "remove", interrupted)
        done = await house.reconcile()

        assert any(isinstance(effect, resync.Ask) for effect in done.effects)
        assert house.kubelet.asked == []

    async def test_a_kubelet_that_does_not_answer_is_reported_and_no_list_is_sent(self, house: House) -> None:
        await house.granted(dev(1), uid="dead")
        house.clock.advance(1000)
        house.kubelet.cut("no such file")
        await house.reconcile()

        assert house.lists.published == []
        assert house.heard.facts("the kubelet cannot be asked to forget dead pods") == {"reason": "no such file"}

    async def test_nobody_is_asked_for_a_pod_of_which_something_exists(self, house: House) -> None:
        house.runs(await house.granted(dev(1)))
        house.clock.advance(1000)
        await house.reconcile()

        assert house.kubelet.asked == []
        assert house.lists.published == []

    @staticmethod
    async def _checkpoint(house: House) -> object:
        return (await house.reconcile()).checkpoint


class TestAdoptOwnRepair:
    async def test_what_the_checkpoint_names_is_adopted_and_bound_in_one_go(self, house: House) -> None:
        house.store(an_answer(STRANGE_ID), dev(5))
        house.runtime.add_sandbox(uid="uid-1", namespace="telco", name="cnf")
        await house.reconcile()

        taken = house.allocation(STRANGE_ID)
        assert taken.owner.complete
        assert (taken.owner.namespace, taken.owner.name) == ("telco", "cnf")
        assert house.exists(STRANGE_ID)

    async def test_a_missing_directory_is_made_again(self, house: House) -> None:
        name = await house.granted(dev(1))
        house.sockets.wipe()
        await house.reconcile()

        assert house.exists(name)
        assert house.record(name).inode == house.sockets.look(HOST_DIR).inodes[name]

    async def test_a_directory_that_somebody_replaced_is_mended_once(self, house: House) -> None:
        name = await house.granted(dev(1))
        inode = house.sockets.replace(a_directory(name))
        await house.reconcile()
        await house.reconcile()

        assert house.record(name).inode == inode
        assert house.sockets.mode(a_directory(name)) == 0o2770
        assert len(house.heard.warned) == 1

    async def test_one_that_cannot_be_repaired_does_not_stop_the_others(self, house: House) -> None:
        first, second = await house.granted(dev(1), uid="1"), await house.granted(dev(2), uid="2")
        house.sockets.wipe()
        house.sockets.add_stranger(HOST_DIR, first)
        await house.reconcile()

        assert house.exists(second)
        assert house.heard.facts("the directory of a living allocation cannot be had")["allocation"] == first

    async def test_a_forced_record_gets_no_directory_back(self, house: House) -> None:
        name = await house.granted(dev(1))
        house.stand(name, Standing.FORCED)
        house.sockets.remove(a_directory(name))
        await house.reconcile()

        assert not house.exists(name)


class TestSweep:
    async def test_a_directory_that_nobody_knows_goes_after_the_grace(self, house: House) -> None:
        house.sockets.make(a_directory(STRANGE_ID))
        await house.reconcile()
        house.clock.advance(GRACE - 0.001)
        await house.reconcile()
        assert house.traces.directories == {STRANGE_ID}
        house.clock.advance(0.002)
        await house.reconcile()

        assert house.traces.directories == frozenset()
        assert house.heard.facts("an orphaned directory was removed") == {
            "directory": f"{HOST_DIR}/{STRANGE_ID}",
            "reason": "nobody knows this directory",
        }

    @pytest.mark.parametrize("view", ["runtime", "checkpoint"])
    async def test_not_while_a_view_is_unknown(self, house: House, view: str) -> None:
        house.sockets.make(a_directory(STRANGE_ID))
        await house.reconcile()
        house.clock.advance(1000)
        if view == "runtime":
            house.runtime.cut()
        else:
            house.checkpoint.lose()
        await house.reconcile()

        assert house.traces.directories == {STRANGE_ID}

    async def test_not_what_a_container_mounts(self, house: House) -> None:
        house.sockets.make(a_directory(STRANGE_ID))
        await house.reconcile()
        sandbox = house.runtime.add_sandbox(uid="uid-1", namespace="telco", name="cnf")
        house.runtime.add_container(sandbox=sandbox, container="app", mounts={"/run/vpp": f"{HOST_DIR}/{STRANGE_ID}"})
        house.clock.advance(1000)
        await house.reconcile()

        assert house.traces.directories == {STRANGE_ID}


class TestDryRun:
    async def test_it_says_what_it_would_do_and_changes_nothing(self, house: House) -> None:
        name = await gone(house)
        house.store(an_answer(STRANGE_ID), dev(5), uid="dead")
        orphan = AllocationId("y" * 20)
        house.sockets.make(a_directory(orphan))
        await house.reconcile(dry_run=True)
        house.clock.advance(1000)
        before, journal, asked = house.traces, list(house.journal.asked), list(house.kubelet.asked)
        done = await house.reconcile(dry_run=True)

        told = {type(effect).__name__: getattr(effect, "id", None) for effect in done.effects}
        assert told == {"Adopt": STRANGE_ID, "Release": name, "Sweep": orphan, "Ask": None}
        assert house.traces == before
        assert house.journal.asked == journal
        assert (house.kubelet.asked, house.lists.published) == (asked, [])


async def test_doing_it_again_with_the_same_evidence_changes_nothing(house: House) -> None:
    house.runs(await house.granted(dev(1)))
    house.store(an_answer(STRANGE_ID), dev(5))
    house.sockets.make(a_directory(AllocationId("y" * 20)))
    await house.reconcile()
    before = (house.traces, dict(house.state.ledger.records), dict(house.journal.contents))
    await house.reconcile()

    assert (house.traces, dict(house.state.ledger.records), dict(house.journal.contents)) == before


async def test_what_an_earlier_pass_could_not_delete_is_gone_on_with(house: House) -> None:
    name = await gone(house)
    house.sockets.litter(a_directory(name), 25_000)
    house.clock.advance(LATER)
    for _ in range(2):
        await house.reconcile()
        assert house.sockets.waiting(HOST_DIR) == {name: 1}
    await house.reconcile()

    assert house.sockets.waiting(HOST_DIR) == {}
    assert house.traces == NOTHING


async def test_a_base_directory_that_cannot_be_read_leaves_its_allocations_alone(house: House) -> None:
    name = await house.granted(dev(1))
    house.sockets.fail_next(DirectoryUnusable("it is gone"))
    await house.reconcile()

    assert house.standing(name) == (Standing.LIVE, Standing.LIVE)
    assert house.heard.warned == ["a base directory cannot be read"]
