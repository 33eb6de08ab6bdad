"""A node's life with the daemon as a process that sees the containers.

Its grace is a fraction of a second, so whatever waits here waits for longer than that, and what is kept is kept for
a better reason than its age.
"""

import shutil
from collections.abc import AsyncIterator

import pytest

from adapters.memory.node import Pod, PodSpec, Source
from tests.e2e.daemon import CAPACITY, RESOURCE, Daemon, Stand
from tests.e2e.node_life import STOP_GRACE, allocations, cnf, given, memif, telco, waiting
from tests.e2e.seen import Seen, a_seen_stand
from tests.integration.nodes import app, init, pod, slow_readmission


@pytest.fixture
async def seen() -> AsyncIterator[Seen]:
    async with a_seen_stand() as made:
        yield made


@pytest.fixture
def stand(seen: Seen) -> Stand:
    return seen.stand


@pytest.fixture
async def daemon(stand: Stand) -> Daemon:
    return await stand.registered()


def inodes(stand: Stand) -> dict[str, int]:
    """Return what lies in the base directory."""
    return {each.name: each.stat().st_ino for each in stand.host_dir.iterdir()}


async def kept(seen: Seen, *pods: Pod) -> bool:
    """Tell whether the directories of these pods, and no others, are there when everything due has been done.

    They are the same directories: what was released by mistake would be adopted, and made again under its name.
    """
    before = inodes(seen.stand)
    await seen.settled()
    names = {name for one in pods for name in memif(one)}
    return inodes(seen.stand) == {name: inode for name, inode in before.items() if name in names}


async def test_the_kubelet_restarts_while_pods_run(seen: Seen, stand: Stand, daemon: Daemon) -> None:
    """Nothing is touched: neither a directory nor a secret, and nobody is asked for a device again."""
    pods = [await stand.node.start(telco()), await stand.node.start(cnf("one")), await stand.node.start(cnf("two"))]
    was, before = given(*pods), inodes(stand)
    for _ in range(3):
        await stand.kubelet_restarted(daemon)
        assert await kept(seen, *pods)

    assert given(*pods) == was
    assert inodes(stand) == before
    assert allocations(stand.node) == 5
    assert daemon.warnings == []
    assert len(stand.sockets) == 1
    assert len(daemon.lines) == len(daemon.stderr)  # nothing of libraries in between


async def test_a_container_restarts(seen: Seen, stand: Stand, daemon: Daemon) -> None:
    """Again and again, with what the one before left in its directory."""
    one = await stand.node.start(telco())
    was, before = given(one), inodes(stand)
    leftover = stand.host_dir / memif(one)[0] / "memif.sock"
    leftover.touch()
    for times in range(1, 6):
        await stand.node.restart_container(one, "main")
        assert one.container("main").restarts == times
        assert await kept(seen, one)

    assert leftover.exists()
    assert given(one) == was
    assert inodes(stand) == before
    assert allocations(stand.node) == 3
    assert daemon.warnings == []


async def test_the_machine_reboots(seen: Seen, stand: Stand, daemon: Daemon) -> None:
    """What was in memory is gone; the kubelet gives containers what it stored, so the same paths must be there."""
    one = await stand.node.start(telco())
    was, before = given(one), set(stand.directories)

    async def off_and_on() -> None:
        await daemon.kill()
        shutil.rmtree(stand.host_dir)
        await waiting(stand)

    stand.node.timing = slow_readmission(2.0)
    await stand.node.reboot(off_and_on)
    await stand.daemons[-1].registered()
    await stand.node.wait_ready()
    await stand.node.run(one)

    assert one.running
    assert given(one) == was
    assert stand.directories == before
    assert await kept(seen, one)
    assert allocations(stand.node) == 3


async def test_the_daemon_is_down_for_more_than_five_minutes(seen: Seen, stand: Stand, daemon: Daemon) -> None:
    """The kubelet has forgotten the resource by then, and containers that end meanwhile wait for the plugin."""
    one, goes = await stand.node.start(telco()), await stand.node.start(cnf("goes"))
    was = given(one)
    assert await daemon.stop() == 0
    await stand.node.delete(goes)
    seen.clock.advance(STOP_GRACE + 1)
    assert RESOURCE not in stand.node.resources()
    stand.node.exit_container(one, "main")
    stand.node.begin(one)
    await stand.node.until(lambda: one.container("main").waiting is not None)
    await stand.registered()
    await stand.node.until(lambda: one.running)

    assert stand.node.resources()[RESOURCE].allocatable == CAPACITY
    assert given(one) == was
    await seen.gone(memif(goes))
    assert await kept(seen, one)


async def test_a_device_comes_back_while_the_container_of_a_pod_that_was_force_deleted_runs(
    seen: Seen, stand: Stand
) -> None:
    stand.pool["capacity"] = 1
    await stand.registered()
    old = await stand.node.start(cnf("old"))
    await stand.node.force_delete(old)
    new = await stand.node.start(cnf("new"))
    assert stand.node.devices_of(new)["a"][RESOURCE] == {f"{RESOURCE}/0"}
    assert memif(old) != memif(new)
    assert await kept(seen, old, new)
    await stand.node.finish(old)
    await seen.gone(memif(old))

    assert await kept(seen, new)


async def test_a_pod_is_rejected_after_allocate(seen: Seen, stand: Stand, daemon: Daemon) -> None:
    """Its directory goes, its device can be had, and the pod beside it has what it had."""
    stays = await stand.node.start(cnf("stays"))
    big = PodSpec(namespace="telco", name="big", containers=(app("a", CAPACITY - 1, RESOURCE),), oversized=True)
    rejected = await stand.node.admit(big)
    assert "Node didn't have enough resource" in rejected.message
    (name,) = stand.directories - set(memif(stays))
    await daemon.says("released", allocation=name)
    again = await stand.node.start(pod("again", app("a", CAPACITY - 1, RESOURCE)))

    assert again.running
    assert await kept(seen, stays, again)


async def test_a_pod_is_looked_up_before_anything_of_it_runs(seen: Seen, stand: Stand, daemon: Daemon) -> None:
    """At the first call, with its init container and its sidecar, of which old kubelets' listings show nothing."""
    await stand.node.admit(telco())
    found = await seen.client.pod("telco", "telco", None, wait=0, secrets=False)

    assert [each["name"] for each in found["containers"]] == ["setup", "side", "main"]
    assert {each["allocation"] for each in found["containers"]} == stand.directories
    assert not found["stale"]
    assert daemon.warnings == []


class TestAnImageIsPulledForLongerThanAnyGrace:
    """Between Allocate and the start nothing exists but the kubelet's record, which names init containers too."""

    async def test_of_an_app_container(self, seen: Seen, stand: Stand, daemon: Daemon) -> None:
        other = await stand.node.start(cnf("other"))
        one = await stand.node.admit(telco())
        before = inodes(stand)
        for _ in range(3):
            await seen.settled()
        await stand.node.run(one)

        assert one.running
        assert inodes(stand) == before
        assert await kept(seen, one, other)
        assert daemon.warnings == []

    async def test_of_a_plain_init_container_alone(self, seen: Seen, stand: Stand, daemon: Daemon) -> None:
        """Pod-resources never lists what only such a container holds."""
        other = await stand.node.start(cnf("other"))
        one = await stand.node.admit(pod("one", init("setup", 1, RESOURCE), app("main", 0)))
        before = inodes(stand)
        (name,) = before.keys() - memif(other)
        for _ in range(3):
            await seen.settled()
        await stand.node.run(one)

        assert one.container("setup").mounts["/run/vpp"] == str(stand.host_dir / name)
        assert inodes(stand) == before
        assert daemon.warnings == []

    async def test_while_daemon_and_kubelet_are_restarted(self, seen: Seen, stand: Stand, daemon: Daemon) -> None:
        await stand.node.start(cnf("other"))
        one = await stand.node.admit(telco())
        before = inodes(stand)
        await daemon.kill()
        daemon = await stand.registered()
        await stand.kubelet_restarted(daemon)
        await seen.settled()
        await stand.node.run(one)

        assert one.running
        assert inodes(stand) == before
        assert allocations(stand.node) == 4


async def test_a_pod_of_a_stateful_set_is_made_again_under_its_name(seen: Seen, stand: Stand, daemon: Daemon) -> None:
    old = await stand.node.start(cnf("cnf-0"))
    secret = old.container("a").env["MEMIF_SECRET"]
    assert await kept(seen, old)
    await stand.node.delete(old)
    new = await stand.node.start(cnf("cnf-0"))
    assert memif(new) != memif(old)
    assert new.container("a").env["MEMIF_SECRET"] != secret
    await daemon.says("released", allocation=memif(old)[0])

    assert await kept(seen, new)


async def test_a_cni_plugin_reports_a_pod_as_gone_that_lives(seen: Seen, stand: Stand, daemon: Daemon) -> None:
    one = await stand.node.start(telco())
    was, before = given(one), inodes(stand)
    await seen.settled()
    code, complaint = await seen.released_by_command("telco")
    await stand.node.restart_container(one, "main")

    assert code == 7
    assert complaint.startswith("Error: pod telco/telco is still in use: ")
    assert "by container:" in complaint
    assert complaint.count("\n") == 1
    assert given(one) == was
    assert inodes(stand) == before
    assert daemon.said("released") == []


class TestTheApiServerIsAwayWhenTheKubeletRestarts:
    """Pod-resources shows no pod then, or those of manifests only, while all of them run."""

    async def test_nothing_is_released(self, seen: Seen, stand: Stand, daemon: Daemon) -> None:
        pods = [await stand.node.start(telco()), await stand.node.start(pod("s", app("a", 1, RESOURCE), static=True))]
        was, before = given(*pods), inodes(stand)
        await stand.node.stop_kubelet()
        await stand.node.start_kubelet(withhold=(Source.API,))
        await daemon.registered(times=2)
        for _ in range(3):
            assert await kept(seen, *pods)
        await stand.node.deliver_sources()
        await stand.node.restart_container(pods[0], "main")

        assert given(*pods) == was
        assert await kept(seen, *pods)
        assert inodes(stand) == before
        assert allocations(stand.node) == 4

    async def test_also_not_what_no_container_mounts_any_more(self, seen: Seen, stand: Stand, daemon: Daemon) -> None:
        """Its containers have ended meanwhile; they come back with the pod, with what the kubelet stored."""
        one = await stand.node.start(telco())
        was, before = given(one), inodes(stand)
        await stand.node.stop_kubelet()
        for each in ("side", "main"):
            stand.node.exit_container(one, each)
        await stand.node.start_kubelet(withhold=tuple(Source))
        await daemon.registered(times=2)
        assert await kept(seen, one)
        await stand.node.deliver_sources()
        await stand.node.run(one)

        assert one.running
        assert given(one) == was
        assert inodes(stand) == before


class TestTheRuntimeIsAway:
    async def test_during_all_of_it(self, seen: Seen, stand: Stand, daemon: Daemon) -> None:
        """What lives keeps everything, nothing is released before it is back, and all that is due is afterwards."""
        stays, goes, forced = [await stand.node.start(spec) for spec in (telco(), cnf("goes"), cnf("forced"))]
        was, before = given(stays), inodes(stand)
        await seen.settled()
        await seen.runtime.stop()
        await stand.kubelet_restarted(daemon)
        await stand.node.restart_container(stays, "main")
        await stand.node.delete(goes)
        await stand.node.force_delete(forced)
        rejected = await stand.node.admit(
            PodSpec(namespace="telco", name="big", containers=(app("a", 1, RESOURCE),), oversized=True)
        )
        waits = await stand.node.admit(cnf("waits"))
        await daemon.kill()
        daemon = await stand.registered()
        for _ in range(3):
            await seen.settled()
        code, complaint = await seen.released_by_command("goes")
        assert code == 6
        assert complaint.startswith("Error: pod telco/goes is not released now: runtime view unknown: ")
        assert before.items() < inodes(stand).items()
        assert len(stand.directories) == len(before) + 2
        assert not rejected.admitted
        assert daemon.said("released") == []
        await seen.runtime.start()
        await stand.node.run(waits)
        await stand.node.finish(forced)
        await seen.gone(set(before) - set(memif(stays)))

        assert given(stays) == was
        assert await kept(seen, stays, waits)

    async def test_while_the_machine_reboots(self, seen: Seen, stand: Stand, daemon: Daemon) -> None:
        one = await stand.node.start(telco())
        was, before = given(one), set(stand.directories)

        async def off_and_on() -> None:
            await daemon.kill()
            await seen.runtime.stop()
            shutil.rmtree(stand.host_dir)
            await waiting(stand)

        stand.node.timing = slow_readmission(2.0)
        await stand.node.reboot(off_and_on)
        await stand.daemons[-1].registered()
        await stand.node.wait_ready()
        for _ in range(2):
            await seen.settled()
        assert stand.directories == before
        await seen.runtime.start()
        await stand.node.run(one)

        assert given(one) == was
        assert await kept(seen, one)
