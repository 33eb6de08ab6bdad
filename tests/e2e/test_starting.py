"""How the daemon starts, or says in one line why it cannot.

What keeps it from starting is tried in full, in one process, by the tests of integration; here is what a process makes
of it: exit codes, lines on stderr, no traceback.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator

import pytest

from tests.e2e.daemon import ANYBODY, RESOURCE, Daemon, Stand, a_stand, needs_root
from tests.integration.filesystem import NOBODY, tmpfs
from tests.integration.nodes import app, pod

UP = ["starting", "active"]
"""What is logged whenever a process becomes the active one."""

WAITING = "not registered with the kubelet"
IDLE = "no pool is configured: there is nothing to serve"


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        yield made


@pytest.fixture
async def bare() -> AsyncIterator[Stand]:
    """A stand whose kubelet does not run."""
    async with a_stand(kubelet=False) as made:
        yield made


async def refusal(daemon: Daemon) -> str:
    """Return the one line with which a daemon says what it lacks of the node, which is all that it says."""
    assert await daemon.ended() == 3, daemon.stderr
    (line,) = [line for line in daemon.stderr if not line.startswith("{")]
    assert daemon.stdout == []
    return line


async def test_it_registers_and_says_so_in_one_json_object_a_line(stand: Stand) -> None:
    daemon = await stand.registered()
    assert stand.node.resources()[RESOURCE].allocatable == 8
    assert len(stand.sockets) == 1
    await daemon.stop()

    assert daemon.events[:3] == [*UP, "registered with the kubelet"]
    assert daemon.events[-1] == "stopped"
    assert len(daemon.lines) == len(daemon.stderr)
    assert all({"event", "level", "time"} <= line.keys() for line in daemon.lines)
    assert daemon.stdout == []


class TestWaiting:
    async def test_without_a_kubelet_or_without_pools_it_says_once_why_it_idles(self) -> None:
        """Lines while waiting: at most one a minute.  All stand at once, so that the silence is listened to once."""
        async with (
            a_stand(kubelet=False) as no_kubelet,
            a_stand(kubelet=False) as no_directory,
            a_stand() as no_pools,
        ):
            no_kubelet.node.plugin_dir.mkdir()
            no_pools.configuration["pools"] = []
            waiting = await no_kubelet.run()
            early = await no_directory.run()
            idle = await no_pools.run()
            (reason,) = {(await waiting.says(WAITING))["reason"]}
            (missing,) = {(await early.says(WAITING))["reason"]}
            await idle.says(IDLE)
            await asyncio.sleep(3)  # to see that nothing more comes, which no event can tell

            assert waiting.events == [*UP, WAITING]
            assert reason == f"there is no {no_kubelet.node.kubelet_socket} yet; waiting for the kubelet to start"
            assert early.events == [*UP, WAITING]
            assert missing.startswith(f"there is no directory {no_directory.node.plugin_dir}")
            assert idle.events[:3] == [*UP, IDLE]
            assert idle.events.count(IDLE) == 1
            assert no_pools.sockets == set()
            assert await idle.stop() == 0

            for stand, daemon in ((no_kubelet, waiting), (no_directory, early)):
                await stand.node.start_kubelet()
                await daemon.registered()
                assert await daemon.stop() == 0

    async def test_a_stale_kubelet_socket_is_no_kubelet(self, bare: Stand) -> None:
        bare.node.leave_stale_socket()
        daemon = await bare.run()
        line = await daemon.says(WAITING)
        assert line["reason"] == f"nobody listens on {bare.node.kubelet_socket}; waiting for the kubelet to start"
        await bare.node.start_kubelet()
        await daemon.registered()

    async def test_it_stops_cleanly_while_it_waits(self, bare: Stand) -> None:
        daemon = await bare.run()
        await daemon.says(WAITING)

        assert await daemon.stop() == 0
        assert daemon.events[-1] == "stopped"


async def test_every_fault_of_the_configuration_is_one_line_and_the_code_is_2(stand: Stand) -> None:
    stand.pool["capacity"] = 0
    stand.configuration["colour"] = "blue"
    daemon = await stand.run("--runtime", "podman")

    assert await daemon.ended() == 2
    assert sorted(line.partition(":")[0] for line in daemon.stderr) == ["colour", "pools.0.capacity", "runtime.kind"]
    assert any(line.startswith("pools.0.capacity: must be at least 1, not 0 ") for line in daemon.stderr)
    assert daemon.stdout == []
    assert not stand.state_dir.exists()


async def test_device_ids_that_change_under_living_allocations_are_refused_with_code_2(stand: Stand) -> None:
    daemon = await stand.registered()
    await stand.node.admit(pod("one", app("a", 1, RESOURCE)))
    await daemon.stop()
    stand.pool["device_id"] = "memif-{index}"
    daemon = await stand.run()

    assert await daemon.ended() == 2
    (line,) = [line for line in daemon.stderr if not line.startswith("{")]
    assert line == (
        f"Error: device_id of {RESOURCE} cannot change from '{{resource}}/{{index}}' to 'memif-{{index}}' while 1 "
        "of its allocations live; change it back, or delete the pods that hold them first"
    )


@needs_root
class TestWithoutRights:
    async def test_to_make_the_place_of_the_state(self, stand: Stand) -> None:
        assert await refusal(await stand.run(through=ANYBODY)) == (
            f"Error: the lock {stand.state_dir}/lock cannot be opened: Permission denied; check space, owner, mode and "
            "SELinux label of file and directory"
        )

    async def test_to_the_base_directory(self, stand: Stand) -> None:
        stand.state_dir.mkdir(mode=0o700)
        os.chown(stand.state_dir, NOBODY, NOBODY)
        stand.host_dir.mkdir(mode=0o711)

        assert await refusal(await stand.run(through=ANYBODY)) == (
            f"Error: {stand.host_dir} belongs to uid 0 and not to uid 65534, so somebody else could exchange what lies "
            f"in it; find out who made it, then chown 65534 {stand.host_dir}"
        )

    async def test_to_write_where_plugins_have_their_sockets(self, stand: Stand) -> None:
        """The kubelet may make that directory anew at any time, so it is told and waited for."""
        control = stand.root / "control"
        stand.configuration["control"] = {"socket": f"{control}/control.sock"}
        for directory in (stand.state_dir, stand.host_dir, control):
            directory.mkdir(mode=0o711)
            os.chown(directory, NOBODY, NOBODY)
        daemon = await stand.run(through=ANYBODY)
        line = await daemon.says(WAITING)

        assert line["reason"].startswith("no permission to ")
        assert f"{stand.node.plugin_dir}; run as root" in line["reason"]
        assert await daemon.stop() == 0


class TestUnusable:
    @needs_root
    async def test_a_state_directory_on_a_read_only_file_system(self, stand: Stand) -> None:
        with tmpfs(stand.state_dir, "size=1m,ro"):
            line = await refusal(await stand.run())

        assert line == (
            f"Error: the lock {stand.state_dir}/lock cannot be opened: Read-only file system; check space, owner, mode "
            "and SELinux label of file and directory"
        )

    async def test_a_lock_that_is_no_file(self, stand: Stand) -> None:
        (stand.state_dir / "lock").mkdir(parents=True)

        assert (await refusal(await stand.run())).startswith(
            f"Error: the lock {stand.state_dir}/lock cannot be opened: Is a directory; "
        )

    async def test_a_base_directory_that_is_a_symbolic_link_until_it_is_replaced(self, stand: Stand) -> None:
        stand.host_dir.symlink_to(stand.root)

        assert await refusal(await stand.run()) == (
            f"Error: {stand.host_dir} is a symbolic link to '{stand.root}', which could be pointed elsewhere while "
            "containers use it; put a real directory there, or set the pool's host_dir to the real one"
        )
        stand.host_dir.unlink()
        await stand.registered()

    async def test_a_plugin_directory_that_is_a_file(self, bare: Stand) -> None:
        """Only an operator can mend that; it is said, without a traceback, and passes when it is mended."""
        bare.node.plugin_dir.touch()
        daemon = await bare.run()
        await daemon.says(WAITING)
        bare.node.plugin_dir.unlink()
        await bare.node.start_kubelet()
        await daemon.registered()

    async def test_a_lock_file_that_is_removed_ends_the_process(self, stand: Stand) -> None:
        """Another one could become active beside it."""
        daemon = await stand.registered()
        (stand.state_dir / "lock").unlink()

        assert (await refusal(daemon)).startswith(
            f"Error: the lock {stand.state_dir}/lock was removed or replaced while it was held"
        )
        assert stand.sockets == set()


async def test_a_damaged_journal_is_set_aside_and_everything_adopted_from_the_kubelet(stand: Stand) -> None:
    daemon = await stand.registered()
    one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
    before, given = stand.directories, dict(one.container("a").env)
    (name,) = before
    await daemon.stop()
    (stand.state_dir / "state.db").write_bytes(b"this is no database")
    daemon = await stand.registered()
    await stand.node.restart_container(one, "a")

    (line,) = [line for line in daemon.warnings if line["event"].startswith("the journal could not be used")]
    assert ".bad" in line["reason"]
    assert daemon.said("adopted", allocation=name, uid=one.uid, container="a")
    assert (one.container("a").running, dict(one.container("a").env)) == (True, given)
    assert stand.directories == before


async def test_a_lock_that_is_held_by_no_daemon_makes_a_standby_all_the_same(stand: Stand) -> None:
    stand.state_dir.mkdir(mode=0o700)
    held = os.open(stand.state_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        daemon = await stand.run()
        line = await daemon.says("standby: another process serves this node")
    finally:
        os.close(held)
    await daemon.registered()

    assert (line["active_pid"], line["active_instance"]) == (None, None)
