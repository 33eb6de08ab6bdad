"""Faults that other device plugins had, tried on the installed daemon; ``docs/faults.md`` has them all.

Here are those that need a process, and that no test of a feature meets on its way.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from adapters.control.client import ControlClient
from adapters.kubelet.channel import channel
from adapters.memory.node import ContainerSpec, PodSpec
from tests.e2e.daemon import PATIENCE, RESOURCE, Stand, a_stand, needs_root, soon
from tests.e2e.node_life import cnf, given, memif, telco
from tests.integration.filesystem import NOBODY, run, tmpfs
from tests.integration.nodes import app, pod
from tests.integration.web import LOCALHOST, free_port, metrics
from tests.rig.containerd import PrivateContainerd
from tests.rig.dockerd import PrivateDockerd
from tests.rig.pods import ContainerPlan, PodName, pods_of

LARGE = 10_000


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        yield made


def registrations(stand: Stand) -> int:
    """Return how often a plugin registered."""
    return sum(call.rpc == "Register" for call in stand.node.calls)


def entries(path: Path) -> int:
    """Return how many entries a directory has."""
    return len(list(path.iterdir()))


def taken_away(directory: Path) -> None:
    """Remove a directory at one stroke: somebody makes it anew as soon as it is missed."""
    aside = directory.rename(directory.with_name(f"{directory.name}.aside"))
    shutil.rmtree(aside)


def mode(path: Path) -> int:
    """Return permission bits."""
    return path.stat().st_mode & 0o7777


def inode(path: Path) -> int:
    """Return what tells a directory from another under the same name."""
    return path.stat().st_ino


class TestRegistering:
    async def test_each_removal_of_our_socket_is_followed_by_one_registration(self, stand: Stand) -> None:
        """Others never looked at their socket again, or registered without an end once it had been removed."""
        port = free_port()
        stand.configuration["http"] = {"listen": f"{LOCALHOST}:{port}"}
        daemon = await stand.registered()
        for times in range(2, 6):
            (name,) = stand.sockets
            (stand.node.plugin_dir / name).unlink()
            await daemon.registered(times)
            await stand.node.wait_registered(RESOURCE)
        one = await stand.node.start(cnf())

        assert one.running
        assert registrations(stand) == 5
        assert len(stand.sockets) == 1
        assert (await metrics(port))["registrations_total", RESOURCE, "ok"] == 5

    async def test_a_base_directory_that_is_removed_over_and_over_while_the_kubelet_restarts(
        self, stand: Stand
    ) -> None:
        """Others panicked at the second start of one plugin, and lost their watch with the directory."""
        daemon = await stand.registered()
        stays = await stand.node.start(cnf("stays"))
        was, descriptors = given(stays), []
        for _ in range(6):
            taken_away(stand.host_dir)
            await stand.kubelet_restarted(daemon)
            one = await stand.node.start(cnf())
            assert one.running
            assert {*memif(stays), *memif(one)} <= stand.directories
            await stand.node.delete(one)
            descriptors.append(entries(Path(f"/proc/{daemon.process.pid}/fd")))
        await stand.node.restart_container(stays, "a")

        assert given(stays) == was
        assert max(descriptors[3:]) <= max(descriptors[:3])
        assert await daemon.stop() == 0

    async def test_the_longest_and_the_shortest_resource_names_there_are(self, stand: Stand) -> None:
        """Others put the resource's name into the socket's, which may have 107 bytes."""
        names = ("a/b", f"{'d' * 244}/memif", f"example.com/{'n' * 63}")
        stand.configuration["pools"] = [
            {
                "resource": name,
                "capacity": 2,
                "host_dir": str(stand.root / f"memif-{number}"),
                "container_dir": f"/run/vpp-{number}",
                "env_suffix": f"_{number}",
                "annotation_prefix": f"io.contivpp.memif-{number}",
            }
            for number, name in enumerate(names)
        ]
        await stand.run()
        for name in names:
            await stand.node.wait_registered(name)
        wants = ContainerSpec(name="a", limits=dict.fromkeys(names, 1))
        one = await stand.node.start(PodSpec(namespace="telco", name="cnf", containers=(wants,)))

        assert one.running, one.message
        assert {"/run/vpp-0", "/run/vpp-1", "/run/vpp-2"} <= set(one.container("a").mounts)

    async def test_ten_thousand_devices(self, stand: Stand) -> None:
        """A list of more than 4 MiB is what the kubelet does not take; that is refused before, with the numbers."""
        stand.pool["capacity"] = LARGE
        daemon = await stand.registered()
        one = await stand.node.start(pod("cnf", app("a", 100, RESOURCE)))
        await stand.kubelet_restarted(daemon)
        two = await stand.node.start(cnf("two"))

        assert stand.node.resources()[RESOURCE].allocatable == LARGE
        assert len(stand.node.devices_of(one)["a"][RESOURCE]) == 100
        assert two.running
        assert daemon.warnings == []

    async def test_the_kubelets_address_is_one_that_a_server_in_go_is_reached_by(
        self, containerd_rig: PrivateContainerd
    ) -> None:
        """A client's library once began to read bare paths in another way, and no registration arrived any more.

        The kubelet is written in Go, as containerd is, which knows nothing of device plugins and says so.
        """
        async with channel(containerd_rig.socket) as opened:
            with pytest.raises(aio.AioRpcError) as refusal:
                await api_pb2_grpc.RegistrationStub(opened).Register(api_pb2.RegisterRequest(), timeout=10)

        assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "unknown service v1beta1.Registration" in str(refusal.value.details())


@needs_root
class TestADirectoryThatARuntimeMade:
    """A container started before the plugin was back after a reboot; what a runtime makes is root's, with mode 0755."""

    async def test_docker_made(self, stand: Stand, docker_rig: PrivateDockerd) -> None:
        path = await self.lost(stand)
        container = docker_rig.create(mounts={"/run/vpp": str(path)})
        docker_rig.start_container(container)
        await self.mended(stand, path)
        docker_rig.remove_container(container)

    async def test_containerd_made(self, stand: Stand, containerd_rig: PrivateContainerd) -> None:
        path = await self.lost(stand)
        async with pods_of(containerd_rig.socket, containerd_rig.home) as pods:
            sandbox = await pods.run_sandbox(PodName(uid="0aa1", namespace="telco", name="cnf"))
            plan = ContainerPlan(name="a", mounts={"/run/vpp": str(path)})
            await pods.start(await pods.create(sandbox, plan))
            await self.mended(stand, path)

    async def lost(self, stand: Stand) -> Path:
        """Return a pod's directory that is gone, as the daemon is."""
        daemon = await stand.registered()
        (name,) = memif(await stand.node.start(cnf()))
        await daemon.kill()
        (stand.host_dir / name).rmdir()
        return stand.host_dir / name

    async def mended(self, stand: Stand, path: Path) -> None:
        """Start the daemon, and see that it puts right what the runtime made."""
        found = inode(path)
        assert mode(path) == 0o755
        daemon = await stand.registered()
        (told,) = daemon.warnings

        assert (told["allocation"], told["mended"]) == (path.name, ["mode 0755 -> 2770"])
        assert mode(path) == 0o2770
        assert inode(path) == found


class TestADaemonThatIsFrozen:
    async def test_holds_pods_up_as_long_as_it_is_and_loses_none(self, stand: Stand) -> None:
        """The kubelet waits for Allocate without a limit, and admits no other pod of the node meanwhile."""
        daemon = await stand.registered()
        stays = await stand.node.start(telco())
        was = given(stays)
        daemon.process.send_signal(signal.SIGSTOP)
        admitting = [asyncio.create_task(stand.node.admit(cnf(name))) for name in ("one", "two")]
        await asyncio.sleep(0.3)  # nothing can be seen of a call that waits
        assert not any(task.done() for task in admitting)
        daemon.process.send_signal(signal.SIGCONT)
        pods = [await task for task in admitting]
        for each in pods:
            await stand.node.run(each)

        assert all(each.running for each in pods)
        assert given(stays) == was
        assert stand.directories == {name for each in (stays, *pods) for name in memif(each)}
        assert await daemon.stop() == 0
        assert stand.recorded == stand.directories


class TestWhatTenantsLeave:
    @needs_root
    async def test_everything_goes_that_can_and_nothing_outside_does(self, stand: Stand) -> None:
        """What cannot is said once, is tried again in every reconcile, and keeps nobody from being served."""
        daemon = await stand.registered()
        one = await stand.node.start(cnf())
        (name,) = memif(one)
        outside = stand.root / "outside"
        outside.mkdir()
        (outside / "file").write_text("not ours", encoding="ascii")
        async with AsyncExitStack() as stack:
            stack.enter_context(tmpfs(stand.host_dir / name / "mounted"))
            mess(stand.host_dir / name, outside)
            await stand.node.delete(one)
            told = await daemon.says("a directory cannot be removed completely")
            await soon(lambda: list(left(stand).values()) == [{"mounted"}])
            (stuck,) = left(stand)
            two = await stand.node.start(cnf("two"))
            assert f"{stand.host_dir}/{stuck}/mounted" in str(told["reason"])
            assert two.running
        run("umount", f"{stand.host_dir}/{stuck}/mounted")
        await soon(lambda: stand.directories == set(memif(two)))

        assert len(daemon.said("a directory cannot be removed completely")) == 1
        assert (outside / "file").read_text(encoding="ascii") == "not ours"
        assert mode(outside / "file") == 0o644
        await stand.node.delete(two)

    async def test_what_an_earlier_process_had_no_time_to_delete_is_deleted_once_pods_are_served(
        self, stand: Stand
    ) -> None:
        """It may take several passes of a second each, and until the plugin is registered no pod can start."""
        stand.configuration["reconcile"]["interval"] = "1h"
        gone = stand.host_dir / f".gone-{'b' * 20}-{'0' * 16}"
        gone.mkdir(parents=True)
        stand.host_dir.chmod(0o711)
        for number in range(LARGE + 1):
            (gone / f"{number}").touch()
        await stand.node.stop_kubelet()
        daemon = await stand.run()
        await daemon.says("not registered with the kubelet")
        assert entries(gone) == LARGE + 1
        await stand.node.start_kubelet()
        await daemon.registered()
        one = await stand.node.start(cnf())
        for _ in range(2):
            await ControlClient(str(stand.root / "control.sock"), deadline=PATIENCE).reconcile(dry_run=False)

        assert one.running
        assert stand.directories == set(memif(one))
        assert daemon.warnings == daemon.said("not registered with the kubelet")


def mess(place: Path, outside: Path) -> None:
    """Leave what a tenant who means harm, or none, may leave."""
    (place / "memif.sock").touch()
    (place / "out").symlink_to(outside)
    (place / "file-out").symlink_to(outside / "file")
    (place / "up").symlink_to("..")
    os.link(outside / "file", place / "hard")
    os.mkfifo(place / "fifo")
    Path(os.fsdecode(os.fsencode(place) + b"/\xff\xfe\n")).mkdir()
    (place / "theirs").mkdir()
    (place / "theirs" / "file").touch()
    os.chown(place / "theirs" / "file", NOBODY, NOBODY)
    os.chown(place / "theirs", NOBODY, NOBODY)
    (place / "theirs").chmod(0)
    (place / "many").mkdir()
    for number in range(LARGE):
        (place / "many" / f"{number}").touch()
    here = os.open(place, os.O_RDONLY)
    for _ in range(100):
        os.mkdir("deep" * 60, dir_fd=here)
        below = os.open("deep" * 60, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def left(stand: Stand) -> dict[str, set[str]]:
    """Return what is in each directory that is being deleted."""
    found = {gone.name: next(os.walk(gone), ("", [], [])) for gone in stand.host_dir.glob(".gone-*")}
    return {name: {*directories, *files} for name, (_, directories, files) in found.items()}
