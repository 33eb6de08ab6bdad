"""What is deployed is enough, and not more than that: the image with the rights and mounts of the manifest."""

import json
import os
import shutil
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2
from adapters.memory.node import Pod
from tests.e2e.daemon import RESOURCE, needs_root, plugin, soon
from tests.e2e.deployed import Deployed, DeployedNode, deployed_on
from tests.integration.filesystem import tmpfs
from tests.integration.nodes import app, pod
from tests.rig.dockerd import PrivateDockerd
from tests.rig.manifests import KUBECTL, OVERLAYS, container_of, overlay
from tests.rig.plugin_image import IMAGE, provide

pytestmark = [
    pytest.mark.skipif(not KUBECTL.exists(), reason="needs the dependency group `dev`"),
    pytest.mark.timeout(300),  # whoever comes first builds the image
    needs_root,
]

CONNECT = """\
import socket
socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect("/run/vpp/memif.sock")
"""

GROUP = 64599
"""Of the manifest's pool."""

TENANT = 1000
"""A user of pods."""


@pytest.fixture(scope="session")
def image(docker_rig: PrivateDockerd, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image, on the private dockerd."""
    parallel = "PYTEST_XDIST_WORKER" in os.environ
    shared = tmp_path_factory.getbasetemp().parent if parallel else tmp_path_factory.getbasetemp()
    return provide(docker_rig, shared / "memif-device-plugin.tar")


@pytest.fixture
async def place(docker_rig: PrivateDockerd, image: str) -> AsyncIterator[DeployedNode]:
    assert image == IMAGE
    async with deployed_on(docker_rig, overlay("docker")) as node:
        yield node


async def admitted(place: DeployedNode, name: str = "cnf") -> tuple[Pod, Path]:
    """Have a pod admitted, and return it with its directory on the node."""
    before = place.directories
    one = await place.node.admit(pod(name, app("a", 1, RESOURCE)))
    assert one.admitted, one.message
    (directory,) = place.directories - before
    return one, directory


def leave_behind(directory: Path) -> None:
    """What an application may leave: a directory that only its user may enter, and a sticky one."""
    closed, sticky = directory / "closed", directory / "sticky"
    for each, mode in ((closed, 0o700), (sticky, 0o1777)):
        each.mkdir()
        (each / "file").touch()
        os.chown(each / "file", TENANT, TENANT)
        os.chown(each, TENANT, TENANT)
        each.chmod(mode)


def looks(directory: Path) -> tuple[int, int, int]:
    """Return owner, group and mode."""
    found = directory.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


async def prepare(place: DeployedNode, one: Pod) -> None:
    """Announce a container's start to the plugin, as the kubelet does before each."""
    (path,) = place.node.plugin_dir.glob("contiv-vpp.*.sock")
    async with plugin(path) as kubelet:
        ids = place.node.devices_of(one)["a"][RESOURCE]
        await kubelet.PreStartContainer(api_pb2.PreStartContainerRequest(devices_ids=ids))


async def warnings_of(daemon: Deployed) -> list[str]:
    """Return what needed attention."""
    return [line["event"] for line in await daemon.logged() if line["level"] not in {"debug", "info"}]


@contextmanager
def dataplane(directory: Path) -> Iterator[None]:
    """Listen as a dataplane does that leaves its sockets to the group."""
    before = os.umask(0o002)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(directory / "memif.sock"))
            listener.listen()
            yield
    finally:
        os.umask(before)


class TestImage:
    async def test_it_serves_the_node_and_answers_its_probes(self, place: DeployedNode) -> None:
        daemon = await place.start()
        await daemon.registered()
        await place.node.wait_registered(RESOURCE)

        assert await daemon.page("/healthz") == 200
        assert await daemon.page("/readyz") == 200
        assert await daemon.page("/metrics") == 200
        assert await daemon.stop() == 0

    async def test_people_find_the_commands_in_it(self, place: DeployedNode) -> None:
        daemon = await place.start()
        await daemon.registered()

        code, printed = await daemon.execute("memif-device-plugin", "status")
        assert code == 0, printed
        assert RESOURCE in printed

    async def test_it_has_neither_installer_nor_compiler_and_nothing_in_it_can_be_changed(
        self, place: DeployedNode
    ) -> None:
        daemon = await place.start()
        await daemon.registered()

        for module in ("pip", "hatchling"):
            code, _ = await daemon.execute("/opt/memif-device-plugin/bin/python", "-c", f"import {module}")
            assert code != 0
        code, printed = await daemon.execute("/bin/touch", "/opt/memif-device-plugin/new")
        assert (code, "Read-only file system" in printed) == (1, True)


class TestOverlays:
    @pytest.mark.parametrize("name", OVERLAYS)
    async def test_each_lets_the_daemon_see_kubelet_and_runtime(
        self, docker_rig: PrivateDockerd, image: str, name: str
    ) -> None:
        assert image == IMAGE
        async with deployed_on(docker_rig, overlay(name)) as place:
            elsewhere = place.root / "var/lib/k0s/kubelet"  # where k0s keeps what the kubelet can be told to move
            elsewhere.mkdir(parents=True)
            (elsewhere / "pod-resources").symlink_to("../../kubelet/pod-resources")
            daemon = await place.start()
            await daemon.registered()
            await admitted(place)

            code, printed = await daemon.execute("memif-device-plugin", "pod", "telco/cnf", "--json", "--wait", "20")
            assert (code, json.loads(printed)["stale"]) == (0, False), printed
            code, printed = await daemon.execute("memif-device-plugin", "reconcile", "--dry-run", "--json")
            assert (code, json.loads(printed)["views"]) == (0, {"runtime": "known", "checkpoint": "known"}), printed


class TestRights:
    async def test_those_of_the_manifest_are_enough_for_an_allocations_whole_life(self, place: DeployedNode) -> None:
        daemon = await place.start()
        await daemon.registered()

        one, directory = await admitted(place)
        assert looks(directory) == (0, GROUP, 0o2770)

        directory.rmdir()
        directory.mkdir(mode=0o755)  # as a container runtime does where the directory of a mount is missing
        await prepare(place, one)
        assert looks(directory) == (0, GROUP, 0o2770)

        leave_behind(directory)
        await place.node.delete(one)
        await daemon.says("released")
        await soon(lambda: place.directories == set())
        (warning,) = await warnings_of(daemon)
        assert warning.startswith("a directory was not as it must be and was mended in place")

    @pytest.mark.parametrize("capability", ["CHOWN", "FSETID"])
    async def test_without_one_that_is_needed_to_grant_the_pod_is_told_which(
        self, place: DeployedNode, capability: str
    ) -> None:
        daemon = await place.start(without=capability)
        await daemon.registered()
        one = await place.node.admit(pod("cnf", app("a", 1, RESOURCE)))

        assert not one.admitted
        assert f"the daemon lacks CAP_{capability}: add that to the capabilities of its container" in one.message
        assert place.directories == set()

    @pytest.mark.parametrize(
        "capability, stuck", [("DAC_OVERRIDE", "closed: Permission denied"), ("FOWNER", "sticky/file: Operation not")]
    )
    async def test_without_one_that_is_needed_to_remove_the_log_says_what_is_stuck_and_why(
        self, place: DeployedNode, capability: str, stuck: str
    ) -> None:
        daemon = await place.start(without=capability)
        await daemon.registered()
        one, directory = await admitted(place)
        leave_behind(directory)
        await place.node.delete(one)

        said = await daemon.says("a directory cannot be removed completely")
        assert stuck in said["reason"]
        assert f"the daemon lacks CAP_{capability}: add that to the capabilities of its container" in said["reason"]

    def test_each_of_the_manifest_was_taken_away_once(self) -> None:
        granted = container_of(overlay("docker"))["securityContext"]["capabilities"]["add"]

        assert set(granted) == {"CHOWN", "FSETID", "DAC_OVERRIDE", "FOWNER"}


class TestPods:
    async def test_one_that_is_not_root_reaches_the_socket_through_its_supplemental_group(
        self, place: DeployedNode
    ) -> None:
        daemon = await place.start()
        await daemon.registered()
        _, directory = await admitted(place)

        with dataplane(directory):
            member = await place.run_as(TENANT, [GROUP], directory, CONNECT)
            stranger = await place.run_as(TENANT, [], directory, CONNECT)
        assert member == (0, "")
        assert stranger[0] == 1
        assert "PermissionError" in stranger[1]


class TestMounts:
    async def test_directories_that_were_removed_and_made_again_are_seen(self, place: DeployedNode) -> None:
        daemon = await place.start()
        await daemon.registered()
        await place.node.stop_kubelet()
        shutil.rmtree(place.node.plugin_dir)
        shutil.rmtree(place.host_dir)
        await place.node.start_kubelet()
        await daemon.registered(times=2)
        await place.node.wait_registered(RESOURCE)

        _, directory = await admitted(place)
        assert looks(directory) == (0, GROUP, 0o2770)

    async def test_a_file_system_that_is_mounted_on_the_base_directory_later_is_used(self, place: DeployedNode) -> None:
        daemon = await place.start()
        await daemon.registered()

        with tmpfs(place.host_dir, "size=1m,mode=0711"):
            _, directory = await admitted(place)
            assert directory.is_dir()
            await daemon.stop()

    async def test_the_nodes_mounts_are_not_kept_from_being_unmounted(self, place: DeployedNode) -> None:
        with tmpfs(place.root / "var/lib/kubelet/volume"):
            daemon = await place.start()
            await daemon.registered()
        _, printed = await daemon.execute("/bin/cat", "/proc/self/mountinfo")

        assert "/var/lib/kubelet " in printed
        assert "/var/lib/kubelet/volume" not in printed


async def test_a_rollout_hands_the_node_over(place: DeployedNode) -> None:
    old = await place.start()
    await old.registered()
    _, directory = await admitted(place)
    new = await place.start()
    await new.says("standby: another process serves this node")
    assert await new.page("/readyz") == 200  # for which the rollout waits before it stops the old one

    assert await old.stop() == 0
    await new.registered()
    assert await new.page("/readyz") == 200
    assert looks(directory) == (0, GROUP, 0o2770)
    assert (await admitted(place, "next"))[1] != directory
