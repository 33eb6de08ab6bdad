"""Containers that a kubelet's pods alone do not show, on a real containerd."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace

import pytest

from adapters.containerd.runtime import ContainerdRuntime
from adapters.system.clock import SystemClock
from app.logs import StructlogReports
from app.runtimes import candidates
from app.settings import RuntimeKind, RuntimeSettings, Settings
from app.use_cases.runtimes import FoundRuntime
from app.use_cases.state import State
from domain.evidence import ObjectKind, ObjectState, RuntimeObject
from domain.ports.runtime import AnswerTooLarge, ContainerRuntime
from tests.rig import images
from tests.rig.containerd import PrivateContainerd
from tests.rig.pods import ContainerPlan, PodName, Pods, pods_of

PREFIX = "io.contivpp.memif"
CNF = PodName(uid="uid-1", namespace="telco", name="cnf")
PATIENCE = 30.0


@pytest.fixture
async def pods(containerd_rig: PrivateContainerd) -> AsyncIterator[Pods]:
    async with pods_of(containerd_rig.socket, containerd_rig.home) as pods:
        yield pods


@pytest.fixture
def runtime(containerd_rig: PrivateContainerd) -> ContainerdRuntime:
    return ContainerdRuntime(endpoint=f"unix://{containerd_rig.socket}", prefixes=(PREFIX,), clock=SystemClock())


def daemons_runtime(rig: PrivateContainerd) -> FoundRuntime:
    """Return the runtime that the daemon makes of a configuration that names the socket."""
    settings = Settings(runtime=RuntimeSettings(kind=RuntimeKind.CONTAINERD, endpoint=f"unix://{rig.socket}"))
    clock = SystemClock()
    state = State(pools=settings.domain_pools, clock=clock)
    found = candidates(settings, clock)
    return FoundRuntime(candidates=found, state=state, reports=StructlogReports(), trusted=True)


async def things(runtime: ContainerRuntime) -> dict[str, RuntimeObject]:
    return {thing.id: thing for thing in (await runtime.snapshot()).objects}


@contextmanager
def made_by_hand(rig: PrivateContainerd, name: str, *options: str) -> Iterator[str]:
    """Have a container that is nobody's pod, not started, and remove it afterwards."""
    rig.ctr("containers", "create", *options, images.BUSYBOX, name, "/bin/true")
    try:
        yield name
    finally:
        rig.ctr("containers", "delete", name)


async def test_a_container_made_by_hand_belongs_to_nobody_and_keeps_what_it_mounts(
    containerd_rig: PrivateContainerd, runtime: ContainerdRuntime
) -> None:
    """Whoever looks into a socket with a shell of their own must not have it taken away; their labels are nothing."""
    source = f"{containerd_rig.home}/memif/bcdfghjklmnpqrstvwxz"
    options = (
        *("--mount", f"type=bind,src={source},dst=/look,options=rbind:ro"),
        *("--label", "io.kubernetes.pod.uid=uid-1", "--label", "io.cri-containerd.kind=container"),
        *("--label", f"{PREFIX}.secret=averygoodsecret4u"),
    )
    with made_by_hand(containerd_rig, "by-hand", *options) as name:
        thing = (await things(runtime))[name]

    assert thing.mounts == {"/look": source}
    assert (thing.kind, thing.uid, thing.container, thing.claimed) == (ObjectKind.CONTAINER, None, None, {})
    assert thing.state is ObjectState.EXITED
    assert await things(runtime) == {}


async def test_a_label_that_is_no_utf_8_spoils_nothing(
    containerd_rig: PrivateContainerd, pods: Pods, runtime: ContainerdRuntime
) -> None:
    """containerd takes it, and protobuf refuses to decode it."""
    container = await pods.create(await pods.run_sandbox(CNF), ContainerPlan(name="a"))
    with made_by_hand(containerd_rig, "by-hand", "--label", "x=\udcff") as name:
        found = await things(runtime)

    assert {container, name} <= set(found)
    assert found[container].uid == CNF.uid


async def test_tenants_with_megabytes_of_environment_hide_nobody(
    containerd_rig: PrivateContainerd, pods: Pods, runtime: ContainerdRuntime
) -> None:
    """All records together are more than a message may have.  Such containers cannot even start."""
    sandbox = await pods.run_sandbox(CNF)
    large = {f"X{number}": "y" * 1024 * 1024 for number in range(3)}
    made = {}
    for name in "abc":
        source = f"{containerd_rig.home}/memif/{name}"
        made[await pods.create(sandbox, ContainerPlan(name=name, envs=large, mounts={"/run/vpp": source}))] = source

    found = await things(runtime)

    assert {name: found[name].mounts["/run/vpp"] for name in made} == made


async def test_a_tenant_whose_record_alone_is_too_large_makes_the_view_unknown(
    pods: Pods, runtime: ContainerdRuntime
) -> None:
    """Its environment is in the record twice.  Nothing is released meanwhile, and the message says what to do."""
    sandbox = await pods.run_sandbox(CNF)
    large = {f"X{number}": "y" * 1024 * 1024 for number in range(9)}
    container = await pods.create(sandbox, ContainerPlan(name="a", envs=large))

    with pytest.raises(AnswerTooLarge, match=r"RESOURCE_EXHAUSTED.*runtime\.kind to cri"):
        await runtime.snapshot()
    await pods.remove(container)
    assert set(await things(runtime)) == {sandbox}


async def test_the_daemon_reads_on_by_the_cri_of_the_same_socket(containerd_rig: PrivateContainerd, pods: Pods) -> None:
    """With the same names, and all that its own API would show of the pods."""
    runtime = daemons_runtime(containerd_rig)
    sandbox = await pods.run_sandbox(CNF)
    source = f"{containerd_rig.home}/memif/a"
    claims = {f"{PREFIX}.socket.host": f"{source}/memif.sock"}
    plain = await pods.create(sandbox, ContainerPlan(name="a", mounts={"/run/vpp": source}, annotations=claims))
    await pods.start(plain)
    before = await things(runtime)
    large = {f"X{number}": "y" * 1024 * 1024 for number in range(9)}
    huge = await pods.create(sandbox, ContainerPlan(name="b", envs=large))

    with made_by_hand(containerd_rig, "by-hand") as by_hand:
        found = await things(runtime)

    assert set(found) == {sandbox, plain, huge, by_hand}
    assert found[plain] == replace(before[plain], mounts=found[plain].mounts)
    assert found[plain].mounts["/run/vpp"] == source
    assert (found[huge].uid, found[huge].container) == (CNF.uid, "b")
    assert (await runtime.identity()).kind == "containerd"
    await runtime.aclose()


async def test_a_container_that_is_paused_is_seen_so_and_the_change_hinted_at(
    containerd_rig: PrivateContainerd, pods: Pods, runtime: ContainerdRuntime
) -> None:
    container = await pods.create(await pods.run_sandbox(CNF), ContainerPlan(name="a"))
    await pods.start(container)
    async with aclosing(runtime.changes()) as feed:
        await anext(feed)
        containerd_rig.ctr("tasks", "pause", container)
        try:
            async with asyncio.timeout(PATIENCE):
                await anext(feed)
            paused = (await things(runtime))[container].state
        finally:
            containerd_rig.ctr("tasks", "resume", container)
        async with asyncio.timeout(PATIENCE):
            await anext(feed)
        resumed = (await things(runtime))[container].state

    assert (paused, resumed) == (ObjectState.PAUSED, ObjectState.RUNNING)


async def test_init_container_sidecar_and_app_containers_of_a_pod_are_told_apart(
    containerd_rig: PrivateContainerd, pods: Pods, runtime: ContainerdRuntime
) -> None:
    sandbox = await pods.run_sandbox(CNF)
    sources = {name: f"{containerd_rig.home}/memif/{name}" for name in ("setup", "side", "dataplane")}
    made = {}
    for name, source in sources.items():
        made[name] = await pods.create(sandbox, ContainerPlan(name=name, mounts={"/run/vpp": source}))
        await pods.start(made[name])
        if name == "setup":
            await pods.end(made[name])

    found = await things(runtime)

    assert {thing.container: thing.id for thing in found.values() if thing.container} == made
    assert {name: found[made[name]].mounts["/run/vpp"] for name in made} == sources
    assert [found[made[name]].state for name in made] == [ObjectState.EXITED, ObjectState.RUNNING, ObjectState.RUNNING]


async def test_a_sandbox_that_has_ended_still_exists(pods: Pods, runtime: ContainerdRuntime) -> None:
    sandbox = await pods.run_sandbox(CNF)
    await pods.end_sandbox(sandbox)

    thing = (await things(runtime))[sandbox]

    assert (thing.kind, thing.state, thing.uid) == (ObjectKind.SANDBOX, ObjectState.EXITED, CNF.uid)


async def test_a_probe_in_a_container_is_no_reason_to_look_again(
    containerd_rig: PrivateContainerd, pods: Pods, runtime: ContainerdRuntime
) -> None:
    """The kubelet runs one every few seconds, in every container that has one."""
    container = await pods.create(await pods.run_sandbox(CNF), ContainerPlan(name="a"))
    await pods.start(container)
    async with aclosing(runtime.changes()) as feed:
        await anext(feed)
        reason = asyncio.ensure_future(anext(feed))
        probe = ("tasks", "exec", "--fifo-dir", f"{containerd_rig.home}/fifo", "--exec-id")
        for number in range(3):
            await asyncio.to_thread(containerd_rig.ctr, *probe, f"probe-{number}", container, "/bin/true")

        assert not reason.done()
        await pods.end(container)
        await asyncio.wait_for(reason, PATIENCE)
        assert (await things(runtime))[container].state is ObjectState.EXITED


async def test_other_namespaces_are_other_peoples(containerd_rig: PrivateContainerd, pods: Pods) -> None:
    """Docker's containers are in one of their own, in the same containerd."""
    await pods.run_sandbox(CNF)
    elsewhere = ContainerdRuntime(
        endpoint=containerd_rig.socket, namespace="moby", prefixes=(PREFIX,), clock=SystemClock()
    )

    assert await things(elsewhere) == {}
