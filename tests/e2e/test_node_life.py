"""A node's life with the daemon as a process.

Containers are not visible to it here (its runtime is the one in memory, and empty), so what it releases depends on the
kubelet's record and on the doubt about an empty runtime.  Where it sees them too is in the tests beside this one.
"""

from collections.abc import AsyncIterator

import pytest

from tests.e2e.daemon import RESOURCE, Stand, a_stand, needs_root
from tests.e2e.node_life import allocations, given, waiting
from tests.integration.filesystem import tmpfs
from tests.integration.nodes import app, init, pod, sidecar, slow_readmission


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        yield made


async def test_a_pod_is_given_directories_until_the_kubelet_has_forgotten_it(stand: Stand) -> None:
    daemon = await stand.registered()
    cnf = await stand.node.start(
        pod("cnf", init("setup", 1, RESOURCE), sidecar("side", 1, RESOURCE), app("main", 2, RESOURCE))
    )
    held = stand.node.devices_of(cnf)
    assert held["setup"] == held["side"]
    mounts = {each.mounts["/run/vpp"] for each in cnf.containers}
    assert {str(stand.host_dir / name) for name in stand.directories} == mounts
    assert len({each.env["MEMIF_SECRET"] for each in cnf.containers}) == 3
    # The pod is listed, so the empty runtime is doubted: nothing goes while the kubelet names a pod.
    await stand.node.delete(cnf)
    await daemon.says("released", times=3)

    assert stand.directories == set()
    assert await daemon.stop() == 0
    assert stand.recorded == set()


async def test_a_pod_that_waits_for_the_kubelet_is_admitted_by_the_restarted_one(stand: Stand) -> None:
    """The device list is there before the kubelet admits its pods anew, some 80 ms after its socket is."""
    daemon = await stand.registered()
    await stand.node.stop_kubelet()
    late = await stand.node.admit(pod("late", app("a", 1, RESOURCE)))
    stand.node.timing = slow_readmission(1.0)  # the race itself is measured, not tested
    await stand.node.start_kubelet()
    await daemon.registered(times=2)
    await stand.node.wait_ready()
    await stand.node.run(late)

    assert late.running, late.message


@needs_root
async def test_after_a_reboot_the_same_paths_and_secrets_are_there_before_the_containers(stand: Stand) -> None:
    """``/var/run`` is a file system in memory; Allocate is not called again."""
    with tmpfs(stand.host_dir, "size=1m,mode=0711"):
        daemon = await stand.registered()
        one = await stand.node.start(pod("one", app("a", 1, RESOURCE), app("b", 2, RESOURCE)))
        was, before, calls = given(one), stand.directories, allocations(stand.node)

        await stand.node.stop_kubelet()
        await daemon.kill()
    assert stand.directories == set()
    with tmpfs(stand.host_dir, "size=1m,mode=0711"):
        daemon = await waiting(stand)
        stand.node.timing = slow_readmission(2.0)
        await stand.node.reboot()
        await daemon.registered()
        await stand.node.wait_ready()
        await stand.node.run(one)

        assert (given(one), stand.directories) == (was, before)
        assert allocations(stand.node) == calls
        assert all((stand.host_dir / name).stat().st_mode & 0o7777 == 0o2770 for name in before)
        await daemon.stop()


async def test_a_container_that_starts_before_the_daemon_is_back_finds_its_directory_mended_afterwards(
    stand: Stand,
) -> None:
    """The kubelet asks nobody between its own restart and the plugin's, and the runtime makes what is missing."""
    daemon = await stand.registered()
    one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
    (name,) = stand.directories
    await daemon.kill()
    await stand.node.stop_kubelet()
    (stand.host_dir / name).rmdir()
    await stand.node.start_kubelet()
    await stand.node.wait_ready()
    await stand.node.restart_container(one, "a")
    assert (stand.host_dir / name).stat().st_mode & 0o7777 == 0o755
    inode = (stand.host_dir / name).stat().st_ino
    await stand.registered()

    assert (stand.host_dir / name).stat().st_mode & 0o7777 == 0o2770
    assert (stand.host_dir / name).stat().st_ino == inode


async def test_a_pool_that_is_taken_out_of_the_configuration_is_drained_while_a_pod_holds_it(stand: Stand) -> None:
    daemon = await stand.registered()
    one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
    was = given(one)
    await daemon.stop()
    stand.configuration["pools"] = []
    daemon = await stand.run()
    await daemon.registered()
    await stand.node.until(lambda: stand.node.resources()[RESOURCE].allocatable == 0)
    await stand.node.restart_container(one, "a")

    assert stand.node.resources()[RESOURCE].capacity == 8
    assert given(one) == was
