"""The whole daemon on an embedded node, from the lock to the last closed socket."""

import asyncio
import os
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from adapters.memory.node import PodSpec
from app.daemon import ConfigurationUnsuitable, EnvironmentUnusable
from app.settings import Settings
from domain.ledger import Standing
from tests.integration.daemon import CAPACITY, RESOURCE, Stand, a_stand
from tests.integration.filesystem import NOBODY, needs_root, run, tmpfs
from tests.integration.nodes import app, init, pod, sidecar, slow_readmission


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        yield made


def cnf(name: str = "cnf") -> PodSpec:
    """Return a pod with one device."""
    return pod(name, app("a", 1, RESOURCE))


def mode(path: Path) -> int:
    """Return permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


def fill(path: Path) -> None:
    """Write a file until its file system is full."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)


class TestServing:
    async def test_from_the_start_to_the_end(self, stand: Stand) -> None:
        house = await stand.serve()
        assert stand.node.resources()[RESOURCE].allocatable == CAPACITY
        await house.stop()

        assert house.heard.noted[0] == "starting"
        assert house.heard.noted[1] == "active"
        assert house.heard.noted[-1] == "stopped"
        assert house.heard.warned == []
        assert [each.name for each in stand.node.plugin_dir.glob("contiv*")] == []

    async def test_the_journal_is_closed_and_the_lock_is_free_at_the_end(self, stand: Stand) -> None:
        """A closed journal is one file; while it is open its log lies beside it."""
        house = await stand.serve()
        await stand.node.admit(cnf())
        before = {each.name for each in os.scandir(stand.state_dir)}
        await house.stop()

        assert "state.db-wal" in before
        assert {each.name for each in os.scandir(stand.state_dir)} == {"state.db", "lock"}
        assert not house.container.lock().held

    async def test_no_reconcile_comes_before_the_pool_is_registered(self, stand: Stand) -> None:
        """The kubelet admits its pods some 80 ms after its socket is there; what is slow comes after."""
        await stand.node.stop_kubelet()
        house = stand.begin()
        await house.heard_of("not registered with the kubelet")
        assert stand.runtime.asked == []
        await stand.node.start_kubelet()
        await house.heard_of("registered with the kubelet")
        await house.reconcile()

        assert house.heard.warned == ["not registered with the kubelet"]

    async def test_it_leaves_the_node_to_the_next_run(self, stand: Stand) -> None:
        first = await stand.serve()
        one = await stand.node.start(cnf())
        before = stand.directories
        await first.stop()
        second = await stand.serve(instance="two")
        await stand.node.restart_container(one, "a")

        assert stand.directories == before
        assert [each.id for each in second.live] == list(before)
        assert one.container("a").running

    async def test_without_pools_it_idles(self, stand: Stand) -> None:
        house = stand.begin(Settings.model_validate({**stand.settings().model_dump(mode="json"), "pools": []}))
        await house.heard_of("no pool is configured: there is nothing to serve")

        await house.stop()


class TestAPodsLife:
    async def test_it_is_given_a_directory_until_it_is_gone(self, stand: Stand) -> None:
        house = await stand.serve()
        one = await stand.node.start(cnf())
        (name,) = stand.directories
        assert one.container("a").mounts["/run/vpp"] == str(stand.host_dir / name)
        assert mode(stand.host_dir / name) == 0o2770
        await stand.settle(house)
        assert list(stand.directories) == [name]
        await stand.node.delete(one)
        await stand.forgotten(house, one)
        await stand.settle(house)

        assert stand.directories == {}
        assert len(house.container.state().ledger) == 0
        assert house.heard.facts("released")["allocation"] == name

    async def test_its_owner_is_known_as_soon_as_it_runs(self, stand: Stand) -> None:
        house = await stand.serve()
        one = await stand.node.start(cnf())
        await house.reconcile()

        owner = house.live[0].owner
        assert (owner.uid, owner.container, owner.namespace, owner.name) == (one.uid, "a", "telco", "cnf")

    async def test_it_is_found_before_anything_of_it_runs(self, stand: Stand) -> None:
        house = await stand.serve()
        one = await stand.node.admit(pod("cnf", init("setup", 1, RESOURCE), app("a", 2, RESOURCE)))
        stand.clock.advance(5)
        found = await house.container.look_up()("telco", "cnf")

        assert (found.uid, found.stale) == (one.uid, False)
        assert [each.name for each in found.containers] == ["setup", "a"]

    async def test_an_ended_container_that_lingers_keeps_its_directory(self, stand: Stand) -> None:
        """Docker keeps it, with its mounts, until the pod is removed."""
        house = await stand.serve()
        one = await stand.node.start(cnf())
        (name,) = stand.directories
        await stand.node.complete(one)
        await stand.node.start(cnf("next"))  # an Allocate makes the kubelet forget the pod that has ended
        assert one.uid not in stand.node.checkpoint_path.read_text(encoding="utf-8")
        await stand.settle(house)

        assert name in stand.directories

    async def test_init_container_and_sidecar_share_a_device_and_nothing_else(self, stand: Stand) -> None:
        house = await stand.serve()
        one = await stand.node.start(
            pod("cnf", init("setup", 1, RESOURCE), sidecar("side", 1, RESOURCE), app("main", 2, RESOURCE))
        )
        held = stand.node.devices_of(one)
        assert held["setup"] == held["side"]
        paths = {each.mounts["/run/vpp"] for each in one.containers}
        assert len(paths) == len({each.env["MEMIF_SECRET"] for each in one.containers}) == 3
        await stand.settle(house)

        assert {str(stand.host_dir / name) for name in stand.directories} == paths

    async def test_a_pod_that_is_rejected_after_allocate_is_released_after_the_grace(self, stand: Stand) -> None:
        """The kubelet says so to nobody; it forgets when it is listed."""
        house = await stand.serve()
        await stand.node.start(cnf("other"))
        before = set(stand.directories)
        one = await stand.node.admit(
            PodSpec(namespace="telco", name="big", containers=(app("a", 1, RESOURCE),), oversized=True)
        )
        assert "Node didn't have enough resource" in one.message
        (lost,) = set(stand.directories) - before
        await house.reconcile()
        assert lost in stand.directories
        await stand.forgotten(house, one)
        await stand.settle(house)

        assert set(stand.directories) == before

    async def test_a_kubelet_that_dies_before_it_has_recorded_an_answer_asks_again(self, stand: Stand) -> None:
        """The first grant is in no record, so nobody can mount it; it goes after the grace."""
        house = await stand.serve()
        stand.node.die_after_next_answer()
        one = await stand.node.admit(cnf())
        (lost,) = stand.directories
        await stand.restart_kubelet(house)
        await stand.node.run(one)
        assert one.running
        assert one.container("a").mounts["/run/vpp"] != str(stand.host_dir / lost)
        await stand.settle(house)

        assert lost not in stand.directories
        assert len(stand.directories) == 1


class TestForceDelete:
    async def test_the_device_is_given_again_while_the_old_container_runs(self, stand: Stand) -> None:
        house = await stand.serve(stand.settings(capacity=1))
        old = await stand.node.start(cnf("old"))
        (first,) = stand.directories
        await stand.node.force_delete(old)
        new = await stand.node.start(cnf("new"))
        assert stand.node.devices_of(new)["a"][RESOURCE] == {f"{RESOURCE}/0"}
        await stand.settle(house)
        assert len(stand.directories) == 2
        await stand.node.finish(old)
        await stand.settle(house)

        assert first not in stand.directories
        assert new.container("a").mounts["/run/vpp"] == str(stand.host_dir / next(iter(stand.directories)))


class TestTheKubeletRestarts:
    async def test_nothing_of_running_pods_is_touched(self, stand: Stand) -> None:
        house = await stand.serve()
        one = await stand.node.start(cnf())
        before, given = stand.directories, dict(one.container("a").env)
        allocations = sum(call.rpc == "Allocate" for call in stand.node.calls)
        await stand.restart_kubelet(house)
        await stand.settle(house)
        await stand.node.restart_container(one, "a")

        assert stand.directories == before
        assert dict(one.container("a").env) == given
        assert sum(call.rpc == "Allocate" for call in stand.node.calls) == allocations
        assert house.heard.noted.count("registered with the kubelet") == 2
        assert house.heard.warned == []

    async def test_nothing_is_released_while_it_knows_no_pods_yet(self, stand: Stand) -> None:
        """Its listing is empty then, and so is the runtime of a machine that just started."""
        house = await stand.serve()
        await stand.node.start(cnf())
        await stand.node.stop_kubelet()
        stand.runtime.cut("containerd starts")
        await stand.settle(house)
        await stand.node.start_kubelet()
        await stand.settle(house)

        assert len(stand.directories) == 1

    async def test_a_container_restarts_while_the_kubelet_is_away(self, stand: Stand) -> None:
        house = await stand.serve()
        one = await stand.node.start(cnf())
        before = stand.directories
        await stand.node.stop_kubelet()
        stand.node.exit_container(one, "a")
        await stand.settle(house)
        await stand.restart_kubelet(house)
        await stand.node.run(one)

        assert one.container("a").running
        assert stand.directories == before


class TestReboot:
    async def test_the_same_paths_and_secrets_are_there_before_the_containers_are(self, stand: Stand) -> None:
        """``/var/run`` is empty after it, Allocate is not called again, and the daemon starts with the node."""
        house = await stand.serve(stand.settings(secret_delivery="both"))
        one = await stand.node.start(cnf())
        (name,) = stand.directories
        given = dict(one.container("a").env), dict(one.container("a").mounts)
        await house.stop()

        def wipe() -> None:
            for each in stand.host_dir.rglob("*"):
                each.unlink() if each.is_file() else None
            (stand.host_dir / name).rmdir()
            stand.host_dir.rmdir()

        stand.node.timing = slow_readmission(1.0)
        await stand.node.reboot(wipe)
        await stand.serve(stand.settings(secret_delivery="both"), instance="two")
        await stand.node.wait_ready()
        await stand.node.run(one)

        assert (dict(one.container("a").env), dict(one.container("a").mounts)) == given
        assert list(stand.directories) == [name]
        assert mode(stand.host_dir / name) == 0o2770
        assert (stand.host_dir / name / "secret").read_text() == given[0]["MEMIF_SECRET"]

    async def test_what_is_wiped_under_the_running_daemon_is_back_when_the_container_starts(self, stand: Stand) -> None:
        await stand.serve()
        one = await stand.node.start(cnf())
        (name,) = stand.directories
        (stand.host_dir / name).rmdir()
        stand.host_dir.rmdir()
        await stand.node.restart_container(one, "a")

        assert one.container("a").running
        assert mode(stand.host_dir / name) == 0o2770
        assert mode(stand.host_dir) == 0o711


class TestTheRuntimeIsLost:
    async def test_one_that_does_not_answer_releases_nothing(self, stand: Stand) -> None:
        house = await stand.serve()
        one = await stand.node.start(cnf())
        await stand.node.delete(one)
        stand.runtime.cut("connection refused")
        await stand.settle(house)
        await stand.settle(house)
        assert len(stand.directories) == 1
        stand.runtime.restore()
        await stand.forgotten(house, one)
        await stand.settle(house)

        assert stand.directories == {}

    async def test_one_that_suddenly_shows_nothing_is_doubted_while_the_kubelet_names_pods(self, stand: Stand) -> None:
        """It just started, or is another one than the kubelet's."""
        house = await stand.serve()
        old = await stand.node.start(cnf("old"))
        await stand.node.start(pod("plain", app("a", 0, RESOURCE)))
        for each in stand.runtime.objects:
            stand.runtime.remove(each.id)
        await stand.node.force_delete(old)
        await stand.forgotten(house, old)
        await stand.settle(house)

        assert len(stand.directories) == 1


class TestStandby:
    async def test_the_second_process_waits_and_touches_nothing(self, stand: Stand) -> None:
        first = await stand.serve()
        second = stand.begin(instance="two")
        facts = await second.heard_of("standby: another process serves this node")

        assert facts == {"active_pid": os.getpid(), "active_instance": "one"}
        assert second.heard.noted == ["starting", "standby: another process serves this node"]
        assert len(second.container.state().ledger) == 0
        one = await stand.node.start(cnf())
        assert one.running
        assert len(first.live) == 1

    async def test_it_takes_over_what_the_first_leaves(self, stand: Stand) -> None:
        first = await stand.serve()
        one = await stand.node.start(cnf())
        second = stand.begin(instance="two")
        await second.heard_of("standby: another process serves this node")
        await first.stop()
        await second.heard_of("registered with the kubelet")
        await stand.node.wait_registered(RESOURCE)
        await stand.node.restart_container(one, "a")

        assert [each.id for each in second.live] == list(stand.directories)
        assert one.container("a").running

    async def test_one_that_is_stopped_while_it_waits_ends(self, stand: Stand) -> None:
        await stand.serve()
        second = stand.begin(instance="two")
        await second.heard_of("standby: another process serves this node")
        await second.stop()

        assert second.heard.noted[-1] == "stopped"

    async def test_a_lock_file_that_is_removed_ends_the_daemon(self, stand: Stand) -> None:
        """Another process could become active beside it."""
        house = await stand.serve()
        (stand.state_dir / "lock").unlink()
        with pytest.raises(EnvironmentUnusable, match="was removed or replaced while it was held") as refused:
            await house.ended()

        assert "\n" not in str(refused.value)
        assert [each.name for each in stand.node.plugin_dir.glob("contiv*")] == []


class TestRefusals:
    """What ``run`` tells in one line and with exit code 3, or 2 where the configuration is to be changed."""

    @staticmethod
    async def refused(stand: Stand, settings: Settings | None = None) -> str:
        with pytest.raises(EnvironmentUnusable) as refusal:
            await stand.begin(settings).ended()
        return str(refusal.value)

    async def test_a_lock_that_is_no_file(self, stand: Stand) -> None:
        (stand.state_dir / "lock").mkdir(parents=True)

        assert await self.refused(stand) == (
            f"the lock {stand.state_dir}/lock cannot be opened: Is a directory; check space, owner, mode and "
            "SELinux label of file and directory"
        )

    async def test_a_lock_that_is_a_pipe(self, stand: Stand) -> None:
        stand.state_dir.mkdir()
        os.mkfifo(stand.state_dir / "lock")

        assert await self.refused(stand) == f"the lock {stand.state_dir}/lock is not a regular file; move it away"

    @needs_root
    async def test_a_state_directory_that_is_full(self, stand: Stand) -> None:
        with tmpfs(stand.state_dir, "size=64k,mode=0700"):
            (stand.state_dir / "state.db.ballast").write_bytes(b"x" * 64 * 1024)
            told = await self.refused(stand)

        assert told.startswith(f"the journal {stand.state_dir}/state.db cannot be ")
        assert "no space or inode is left on its file system" in told

    async def test_a_base_directory_that_is_a_symbolic_link(self, stand: Stand) -> None:
        stand.host_dir.symlink_to(stand.root)

        assert await self.refused(stand) == (
            f"{stand.host_dir} is a symbolic link to '{stand.root}', which could be pointed elsewhere while "
            "containers use it; put a real directory there, or set the pool's host_dir to the real one"
        )

    async def test_a_base_directory_that_is_a_file(self, stand: Stand) -> None:
        stand.host_dir.touch()

        assert (await self.refused(stand)).startswith(f"{stand.host_dir} is not a directory; ")

    async def test_a_base_directory_that_others_may_write_to(self, stand: Stand) -> None:
        stand.host_dir.mkdir()
        stand.host_dir.chmod(0o777)

        assert (await self.refused(stand)).endswith(f"; chmod go-w {stand.host_dir}")

    @needs_root
    async def test_a_base_directory_that_is_somebody_elses(self, stand: Stand) -> None:
        stand.host_dir.mkdir()
        os.chown(stand.host_dir, NOBODY, NOBODY)

        assert await self.refused(stand) == (
            f"{stand.host_dir} belongs to uid 65534 and not to uid 0, so somebody else could exchange what lies "
            f"in it; find out who made it, then chown 0 {stand.host_dir}"
        )

    @needs_root
    async def test_a_base_directory_that_cannot_be_made_for_lack_of_room(self, stand: Stand) -> None:
        with tmpfs(stand.root / "full", "size=64k,nr_inodes=2") as full:
            (full / "ballast").touch()
            told = await self.refused(stand, stand.settings(host_dir=str(full / "memif")))

        assert told.startswith(f"cannot open or make {full}/memif: No space left on device; ")

    @needs_root
    async def test_a_base_directory_on_a_read_only_file_system(self, stand: Stand) -> None:
        with tmpfs(stand.host_dir, "size=1m,mode=0711"):
            run("mount", "-o", "remount,ro", str(stand.host_dir))

            assert (await self.refused(stand)).startswith(f"the file system of {stand.host_dir} is read-only; ")

    async def test_device_ids_that_change_under_living_allocations(self, stand: Stand) -> None:
        house = await stand.serve()
        await stand.node.admit(cnf())
        await house.stop()
        with pytest.raises(ConfigurationUnsuitable, match=r"device_id of contivpp.io/memif cannot change from"):
            await stand.begin(stand.settings(device_id="memif-{index}")).ended()

    async def test_nothing_stays_locked_or_served_after_a_refusal_and_the_cure_is_enough(self, stand: Stand) -> None:
        stand.host_dir.symlink_to(stand.root)
        await self.refused(stand)
        stand.host_dir.unlink()

        await stand.serve(instance="two")


class TestStorageHangs:
    """As a dead network disk does; the kubelet waits in its admission loop meanwhile."""

    async def test_an_allocate_is_refused_in_time_and_leaves_nothing(self, stand: Stand) -> None:
        house = await stand.serve()
        over = threading.Event()
        hanging = asyncio.create_task(house.container.worker().run("a job that hangs", over.wait))
        refused = await stand.node.admit(cnf("one"))
        over.set()
        await hanging
        granted = await stand.node.start(cnf("two"))

        assert "code = DeadlineExceeded desc = storing an allocation took longer than 2 s" in refused.message
        assert granted.running
        assert len(stand.directories) == len(house.live) == 1

    async def test_the_daemon_stops_all_the_same_and_says_so(self, stand: Stand) -> None:
        house = await stand.serve()
        over = threading.Event()
        hanging = asyncio.create_task(house.container.worker().run("a job that hangs", over.wait))
        await asyncio.sleep(0)
        await house.stop()
        over.set()
        await hanging

        assert house.heard.warned == ["storage hangs; it is left as it is"]
        assert house.heard.noted[-1] == "stopped"
        assert not house.container.lock().held
        # What it left open is closed here, for the sake of the test's own process.
        house.container.storage().sockets.close()
        house.container.storage().journal.close()


@needs_root
class TestTheStateDirectoryFails:
    async def test_one_that_is_full_at_the_start_keeps_nobody_from_being_served(self, stand: Stand) -> None:
        """What lives is in the journal already; only new grants must wait.  Not even the heartbeat can be written."""
        with tmpfs(stand.state_dir, "size=512k,mode=0700"):
            first = await stand.serve()
            one = await stand.node.start(cnf())
            await first.stop()
            ballast = stand.state_dir / "state.db.ballast"
            fill(ballast)
            second = await stand.serve(instance="two")
            facts = await second.heard_of("the heartbeat for a standby cannot be written")
            await stand.node.restart_container(one, "a")
            refused = await stand.node.admit(cnf("two"))
            ballast.unlink()
            granted = await stand.node.start(cnf("three"))
            await second.stop()

        assert "No space left" in str(facts["reason"])
        assert one.container("a").running
        assert "code = FailedPrecondition" in refused.message
        assert granted.running


async def test_a_release_that_is_due_when_the_daemon_stops_is_resumed_by_the_next_run(stand: Stand) -> None:
    first = await stand.serve()
    one = await stand.node.start(cnf())
    (allocation,) = first.live
    await stand.node.delete(one)
    await stand.node.start(cnf("next"))  # an Allocate makes the kubelet forget the pod that is gone
    first.container.storage().journal.stand((allocation.id,), Standing.RELEASING)
    await first.stop()
    second = await stand.serve(instance="two")

    assert allocation.id not in stand.directories
    assert allocation.id not in second.container.state().ledger
    assert len(stand.directories) == 1
