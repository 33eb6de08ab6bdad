"""The daemon as a process on real container runtimes: what it is told by them, and what it does when it is not."""

from collections.abc import AsyncIterator

import pytest

from adapters.control.client import ControlClient
from adapters.memory.node import Pod
from tests.e2e.commands import ran
from tests.e2e.daemon import PATIENCE, RESOURCE, Daemon, Stand, a_stand, soon
from tests.e2e.real_runtimes import RealContainerd, RealDocker, RealRuntime, empty, given, kept, recorded, was_heard
from tests.integration.nodes import app, init, pod
from tests.rig.containerd import PrivateContainerd
from tests.rig.dockerd import PrivateDockerd
from tests.rig.pods import pods_of

CNF = pod("cnf", init("setup", 1, RESOURCE), app("dataplane", 2, RESOURCE))
OTHER = pod("other", app("dataplane", 1, RESOURCE))

IGNORED = "a memif claim of a container is ignored; its author, or its image's, may be up to something"
FOREIGN = "ForeignForeignForeign"

KINDS = ("docker", "containerd", "cri")


@pytest.fixture(params=KINDS)
async def real(request: pytest.FixtureRequest) -> AsyncIterator[RealRuntime]:
    """Each runtime, without pods before and after."""
    if request.param == "docker":
        dockerd: PrivateDockerd = request.getfixturevalue("docker_rig")
        docker = RealDocker(dockerd)
        try:
            yield docker
        finally:
            await docker.restore()
            dockerd.clear()
        return
    rig: PrivateContainerd = request.getfixturevalue("containerd_rig")
    async with pods_of(rig.socket, rig.home) as pods:
        containerd = RealContainerd(request.param, rig, pods)
        try:
            yield containerd
        finally:
            await containerd.restore()


@pytest.fixture
async def stand(real: RealRuntime) -> AsyncIterator[Stand]:
    async with a_stand() as made:
        made.configuration["runtime"] = real.settings
        yield made


async def running(stand: Stand, real: RealRuntime) -> tuple[Daemon, Pod]:
    """Have a daemon, and a pod whose containers run and are known to it."""
    daemon = await stand.registered()
    cnf = await stand.node.start(CNF)
    await real.run(cnf)
    await soon(lambda: all(was_heard(each) for each in cnf.containers))
    await daemon.until(lambda: {line["container"] for line in daemon.said("bound", name="cnf")} == set(names(cnf)))
    return daemon, cnf


def names(one: Pod) -> list[str]:
    return [each.name for each in one.containers]


async def reconciled(stand: Stand) -> str:
    """Have the rules run once, and return how the runtime's view was."""
    done = await ControlClient(str(stand.root / "control.sock"), deadline=PATIENCE).reconcile(dry_run=False)
    views: dict[str, str] = done["views"]
    return views["runtime"]


async def goes(stand: Stand, real: RealRuntime, daemon: Daemon, one: Pod) -> None:
    """Delete a pod, and wait until nothing is left of it."""
    await real.remove(one)
    await stand.node.delete(one)
    await empty(stand)
    assert stand.directories == set()
    assert await recorded(stand, daemon) == []


def lose_journal(stand: Stand) -> None:
    for each in stand.state_dir.glob("state.db*"):
        each.unlink()


async def test_a_pod_is_given_what_it_was_promised_and_nothing_is_left_of_it(stand: Stand, real: RealRuntime) -> None:
    daemon, cnf = await running(stand, real)
    told = await ran(
        "pod", "telco/cnf", "--json", "--show-secret", "--control-socket", str(stand.root / "control.sock")
    )

    assert told.json["pod"] == {"namespace": "telco", "name": "cnf", "uid": cnf.uid}
    assert {each["name"]: (each["host_socket"], each["secret"]) for each in told.json["containers"]} == given(cnf)
    assert daemon.warnings == []
    await goes(stand, real, daemon, cnf)


async def test_neither_a_lost_journal_nor_then_a_lost_checkpoint_costs_anything(
    stand: Stand, real: RealRuntime
) -> None:
    """The kubelet has forgotten the pod when its record is lost, so it would not come back in there either."""
    daemon, cnf = await running(stand, real)
    await daemon.kill()
    lose_journal(stand)
    daemon = await stand.registered()
    assert len(daemon.said("adopted", reason="the kubelet's checkpoint names it")) == 2
    await daemon.says("bound", times=2, name="cnf")
    await stand.node.force_delete(cnf)
    stand.node.checkpoint_path.unlink()
    for _ in range(3):
        assert await reconciled(stand) == "known"

    assert kept(await recorded(stand, daemon)) == given(cnf)
    assert all(was_heard(each) for each in cnf.containers)


async def test_with_both_lost_what_runs_is_taken_over_from_what_it_carries(stand: Stand, real: RealRuntime) -> None:
    """The kubelet has forgotten the pod; the init container has ended, and nobody will start it again."""
    daemon, cnf = await running(stand, real)
    await daemon.kill()
    lose_journal(stand)
    await stand.node.force_delete(cnf)
    await stand.node.stop_kubelet()
    stand.node.checkpoint_path.unlink()
    await stand.node.start_kubelet()
    daemon = await stand.registered()
    await daemon.says("adopted", reason="a container that runs mounts it and carries its annotations")
    for _ in range(3):
        await reconciled(stand)

    assert all(was_heard(each) for each in cnf.containers)
    (allocation,) = await recorded(stand, daemon)
    assert kept([allocation]) == {"dataplane": given(cnf)["dataplane"]}
    assert (allocation.owner.uid, allocation.owner.name) == (cnf.uid, "cnf")


async def test_what_tenants_write_moves_nothing_and_is_told_once(stand: Stand, real: RealRuntime) -> None:
    """They claim somebody's socket with a secret of their own."""
    daemon, cnf = await running(stand, real)
    host_socket, _ = given(cnf)["dataplane"]
    forged = await real.forge(
        {
            "io.contivpp.memif.socket.host": host_socket,
            "io.contivpp.memif.socket.container": "/run/vpp/memif.sock",
            "io.contivpp.memif.secret": FOREIGN,
        }
    )
    for name, fault in forged.items():
        await daemon.says(IGNORED, container=name, fault=fault, socket=host_socket)
    for _ in range(2):
        await reconciled(stand)

    told = [line["container"] for line in daemon.said(IGNORED)]  # to build an image, Docker makes containers, too
    assert len(told) == len(set(told))
    assert kept(await recorded(stand, daemon)) == given(cnf)
    assert all(was_heard(each) for each in cnf.containers)
    assert FOREIGN not in "".join(daemon.stderr)


async def test_while_the_runtime_is_down_nothing_goes_and_pods_are_admitted(stand: Stand, real: RealRuntime) -> None:
    """Its containers run on, and are there again when it is."""
    daemon, cnf = await running(stand, real)
    await real.stop()
    await stand.node.force_delete(cnf)
    for _ in range(3):
        assert (await reconciled(stand)).startswith("unknown: ")
    other = await stand.node.start(OTHER)
    assert len(stand.directories) == 3
    await real.restore()
    await soon_known(stand)
    await real.run(other)
    await daemon.says("bound", name="other")

    assert all(was_heard(each) for each in (*cnf.containers, *other.containers))
    assert daemon.said("released") == []
    await real.remove(cnf)
    await daemon.says("released", times=2)
    assert stand.directories == {each.mounts["/run/vpp"].rpartition("/")[2] for each in other.containers}
    await goes(stand, real, daemon, other)


async def test_while_the_runtime_hangs_pods_are_admitted_and_looked_up(stand: Stand, real: RealRuntime) -> None:
    daemon, cnf = await running(stand, real)
    await real.hang()
    other = await stand.node.start(OTHER)
    told = await ran("pod", "telco/other", "--json", "--control-socket", str(stand.root / "control.sock"))
    assert [each["host_socket"] for each in told.json["containers"]] == [given(other)["dataplane"][0]]
    await real.restore()
    await real.run(other)
    await daemon.says("bound", name="other")

    assert daemon.said("released") == []
    assert all(was_heard(each) for each in (*cnf.containers, *other.containers))
    await real.remove(other)
    await stand.node.delete(other)
    await goes(stand, real, daemon, cnf)


async def soon_known(stand: Stand) -> None:
    """Have the rules run until the runtime can be read."""
    while (await reconciled(stand)) != "known":
        pass
