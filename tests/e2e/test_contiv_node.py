"""A node that ran Contiv-VPP: its running pods are taken over with their sockets and secrets untouched."""

import socket
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2
from adapters.memory.node import Pod
from tests.e2e.commands import ran
from tests.e2e.daemon import CAPACITY, RESOURCE, Stand, a_stand, soon
from tests.e2e.real_runtimes import RealDocker, empty, given, kept, recorded, unhear, was_heard
from tests.integration.nodes import app, init, pod
from tests.integration.plugin import ScriptedPlugin
from tests.rig.dockerd import PrivateDockerd

CNF = pod("cnf", init("setup", 1, RESOURCE), app("dataplane", 2, RESOURCE))
FORGOTTEN = pod("forgotten", app("dataplane", 1, RESOURCE))
CONTIV = "contiv-vpp.sock"

CONTIVS_MODE = 0o000
"""Contiv makes its directories, and those above them, without any permission."""


@pytest.fixture
async def docker(docker_rig: PrivateDockerd) -> AsyncIterator[RealDocker]:
    yield RealDocker(docker_rig)
    docker_rig.clear()


@pytest.fixture
async def stand(docker: RealDocker) -> AsyncIterator[Stand]:
    async with a_stand() as made:
        made.configuration["runtime"] = docker.settings
        yield made


@pytest.fixture
async def contiv(stand: Stand) -> AsyncIterator[ScriptedPlugin]:
    """Contiv's device manager as the kubelet sees it: its socket, its answers, its directories."""
    stand.host_dir.mkdir(mode=CONTIVS_MODE)

    def answered(number: int) -> api_pb2.ContainerAllocateResponse:
        directory = stand.host_dir / f"{'bcdfghjklmnpqrstvwx'}{number}"
        directory.mkdir(mode=CONTIVS_MODE)
        secret = f"{'z2456789bcdfghjklmn'}{number}"
        prefix = "io.contivpp.memif"
        return api_pb2.ContainerAllocateResponse(
            envs={"MEMIF_SOCKET": "/run/vpp/memif.sock", "MEMIF_SECRET": secret},
            mounts=[api_pb2.Mount(container_path="/run/vpp", host_path=str(directory))],
            annotations={
                f"{prefix}.socket.host": f"{directory}/memif.sock",
                f"{prefix}.socket.container": "/run/vpp/memif.sock",
                f"{prefix}.secret": secret,
            },
        )

    plugin = ScriptedPlugin(stand.node.plugin_dir, resource=RESOURCE, count=CAPACITY, endpoint=CONTIV, pre_start=False)
    plugin.make = answered
    async with plugin:
        await stand.node.wait_registered(RESOURCE)
        yield plugin


@pytest.fixture
def vswitch() -> Iterator[socket.socket]:
    """The host's VPP, which listens in the directories of pods."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        yield made


@pytest.fixture
async def pods(stand: Stand, docker: RealDocker, contiv: ScriptedPlugin) -> tuple[Pod, Pod]:
    """A pod that the kubelet knows, and one that it has forgotten while its container runs."""
    assert contiv.endpoint == CONTIV
    forgotten = await stand.node.start(FORGOTTEN)
    await docker.run(forgotten)
    await stand.node.force_delete(forgotten)
    known = await stand.node.start(CNF)  # at an Allocate the kubelet drops the dead from its record
    await docker.run(known)
    return known, forgotten


def inodes(stand: Stand) -> dict[Path, int]:
    """Return what lies in the base directory and below."""
    return {each: each.lstat().st_ino for each in stand.host_dir.rglob("*")}


async def test_its_pods_keep_directory_socket_and_secret(
    stand: Stand, contiv: ScriptedPlugin, pods: tuple[Pod, Pod], vswitch: socket.socket
) -> None:
    known, forgotten = pods
    promised = {**given(known), "forgotten": given(forgotten)["dataplane"]}
    vswitch.bind(promised["dataplane"][0])
    vswitch.listen()
    before = inodes(stand)
    daemon = await stand.run()
    assert "contiv-vpp.sock" in (await daemon.says("not registering"))["reason"]
    await contiv.stop()
    await daemon.registered()
    await daemon.says("adopted", uid=forgotten.uid)
    await daemon.until(lambda: len(daemon.said("bound", name="cnf")) == 2)
    told = await ran(
        "pod", "telco/cnf", "--json", "--show-secret", "--control-socket", str(stand.root / "control.sock")
    )

    assert {each["name"]: (each["host_socket"], each["secret"]) for each in told.json["containers"]} == given(known)
    assert inodes(stand) == before
    assert {stat.S_IMODE(each.stat().st_mode) for each in stand.host_dir.iterdir()} == {0o2770}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(promised["dataplane"][0])
    assert all(was_heard(each) for each in (*known.containers, *forgotten.containers))
    assert daemon.said("released") == daemon.said("an orphaned directory was removed") == []
    held = await recorded(stand, daemon)
    assert kept([each for each in held if each.owner.uid == known.uid]) == given(known)
    assert kept([each for each in held if each.owner.uid == forgotten.uid]) == given(forgotten)


async def test_when_they_go_nothing_is_left_of_them(
    stand: Stand, docker: RealDocker, contiv: ScriptedPlugin, pods: tuple[Pod, Pod]
) -> None:
    known, forgotten = pods
    await contiv.stop()
    daemon = await stand.registered()
    await daemon.says("adopted", uid=forgotten.uid)
    await docker.remove(known)
    await stand.node.delete(known)
    await daemon.says("released", times=2)
    assert stand.directories == {Path(mount).name for each in forgotten.containers for mount in each.mounts.values()}
    await docker.remove(forgotten)
    await empty(stand)

    assert stand.directories == set()
    assert await recorded(stand, daemon) == []


async def test_one_of_its_pods_is_started_again_where_it_was(
    stand: Stand, docker: RealDocker, contiv: ScriptedPlugin, pods: tuple[Pod, Pod]
) -> None:
    """The kubelet asks this daemon for a container that Contiv was asked for."""
    known, _ = pods
    promised = given(known)
    await contiv.stop()
    await stand.registered()
    await docker.remove(known)
    await stand.node.restart_container(known, "dataplane")
    unhear(known.container("dataplane"))
    await docker.run(known)

    assert known.running
    assert given(known) == promised
    await soon(lambda: was_heard(known.container("dataplane")))
