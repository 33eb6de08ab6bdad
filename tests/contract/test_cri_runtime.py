"""The CRI's runtime keeps its port's promises, against a real containerd."""

from collections.abc import AsyncIterator, Mapping
from typing import Final

import pytest

from adapters.cri.runtime import CriRuntime
from adapters.system.clock import SystemClock
from domain.evidence import ObjectKind, ObjectState, RuntimeObject
from tests.contract.runtime import RuntimeContract
from tests.contract.runtime_stage import PREFIX, SECRET, claims, cnf, directory, hint
from tests.rig.containerd import PrivateContainerd
from tests.rig.pods import ContainerPlan, PodName, Pods, pods_of

MEBIBYTE: Final = 1024 * 1024


class CriStage:
    """A private containerd, whose pods are made by the CRI."""

    kind = "cri"

    def __init__(self, rig: PrivateContainerd, pods: Pods) -> None:
        self.rig = rig
        self.pods = pods
        self.clock = SystemClock()
        self.host_dir = str(rig.home / "memif")
        self.runtime = CriRuntime(endpoint=rig.socket, prefixes=(PREFIX,), clock=self.clock, deadline=1.5, poll=0.02)

    async def sandbox(self, uid: str, namespace: str, name: str, annotations: Mapping[str, str]) -> str:
        pod = PodName(uid=uid, namespace=namespace, name=name)
        return await self.pods.run_sandbox(pod, annotations=annotations)

    async def container(
        self, sandbox: str, name: str, *, mounts: Mapping[str, str], annotations: Mapping[str, str]
    ) -> str:
        return await self.pods.create(sandbox, ContainerPlan(name=name, mounts=mounts, annotations=annotations))

    async def start(self, container: str) -> None:
        await self.pods.start(container)

    async def end(self, container: str) -> None:
        await self.pods.end(container)

    async def remove(self, container: str) -> None:
        await self.pods.remove(container)

    async def cut(self) -> None:
        self.rig.stop()

    async def hang(self) -> None:
        self.rig.freeze()

    async def restore(self) -> None:
        self.rig.thaw()
        self.rig.start()


@pytest.fixture
async def stage(containerd_rig: PrivateContainerd) -> AsyncIterator[CriStage]:
    async with pods_of(containerd_rig.socket, containerd_rig.home) as pods:
        stage = CriStage(containerd_rig, pods)
        try:
            yield stage
        finally:
            await stage.restore()
            await stage.runtime.aclose()


class TestCriRuntime(RuntimeContract):
    """The contract, and nothing else."""


class TestOnARealContainerd:
    """What a port's contract does not ask, and a node does."""

    async def test_the_mounts_are_the_real_ones_those_of_the_kubelet_included(self, stage: CriStage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        mounts = {"/run/vpp": directory(stage), "/data": f"{stage.host_dir}/data"}
        container = await stage.container(sandbox, "a", mounts=mounts, annotations=claims(stage))

        thing = await self._seen(stage, container)

        assert {path: thing.mounts.get(path) for path in mounts} == mounts
        assert {"/etc/hosts", "/dev/termination-log"} <= set(thing.mounts)

    async def test_a_tenant_with_megabytes_of_environment_and_annotations_spoils_nothing(self, stage: CriStage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {"example.com/large": "x" * MEBIBYTE})
        plan = ContainerPlan(
            name="a",
            mounts={"/run/vpp": directory(stage)},
            annotations={**claims(stage), f"{PREFIX}.large": "y" * MEBIBYTE},
            envs={f"LARGE_{number}": "z" * (MEBIBYTE // 8) for number in range(32)},
        )
        container = await stage.pods.create(sandbox, plan)

        thing = await self._seen(stage, container)

        assert thing.mounts["/run/vpp"] == directory(stage)
        assert len(thing.claimed[f"{PREFIX}.large"]) == MEBIBYTE

    async def test_init_containers_sidecars_and_restarts_are_all_there(self, stage: CriStage) -> None:
        """A pod's containers may have had the same device, each with a directory of its own; an ended one stays."""
        pod = PodName(uid="uid-1", namespace="telco", name="cnf")
        sandbox = await stage.pods.run_sandbox(pod)
        expected = {}
        for number, (name, restarts, ends) in enumerate(
            [("setup", 0, True), ("side", 0, False), ("dataplane", 0, True), ("dataplane", 1, False)]
        ):
            path = f"{stage.host_dir}/{number:020d}"
            annotations = {
                f"{PREFIX}.socket.host": f"{path}/memif.sock",
                f"{PREFIX}.socket.container": "/run/vpp/memif.sock",
                f"{PREFIX}.secret": SECRET,
            }
            plan = ContainerPlan(name=name, mounts={"/run/vpp": path}, annotations=annotations, restarts=restarts)
            made = await stage.pods.create(sandbox, plan)
            await stage.start(made)
            if ends:
                await stage.end(made)
            expected[made] = (name, path, ObjectState.EXITED if ends else ObjectState.RUNNING)

        view = await stage.runtime.snapshot()

        found = {
            thing.id: (thing.container, thing.mounts["/run/vpp"], thing.state)
            for thing in view.objects
            if thing.kind is ObjectKind.CONTAINER
        }
        assert found == expected

    async def test_a_container_that_ends_by_itself_is_seen_as_ended(self, stage: CriStage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        container = await stage.pods.create(sandbox, ContainerPlan(name="a", command=("/bin/true",)))
        feed = stage.runtime.changes()
        await hint(feed)
        await stage.start(container)

        while (await self._seen(stage, container)).state is not ObjectState.EXITED:
            await hint(feed)

    async def test_an_ended_sandbox_exists_until_it_is_removed(self, stage: CriStage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        await stage.pods.end_sandbox(sandbox)

        ended = (await self._seen(stage, sandbox)).state
        await stage.pods.remove_sandbox(sandbox)

        assert ended is ObjectState.EXITED
        assert (await stage.runtime.snapshot()).objects == ()

    async def test_a_pods_own_labels_cannot_make_it_another_pod(self, stage: CriStage) -> None:
        pod = PodName(uid="uid-1", namespace="telco", name="cnf")
        forged = {"io.kubernetes.pod.uid": "another", "io.kubernetes.pod.namespace": "kube-system"}
        sandbox = await stage.pods.run_sandbox(pod, labels=forged, annotations=forged)

        thing = await self._seen(stage, sandbox)

        assert (thing.uid, thing.namespace, thing.name) == ("uid-1", "telco", "cnf")

    async def test_containers_survive_a_restart_of_containerd_with_all_that_they_name(self, stage: CriStage) -> None:
        container = await cnf(stage)
        await stage.start(container)
        await stage.cut()
        await stage.restore()

        # A new process of ours remembers nothing of before.
        anew = CriRuntime(endpoint=stage.rig.socket, prefixes=(PREFIX,), clock=stage.clock)
        (thing,) = [each for each in (await anew.snapshot()).objects if each.id == container]

        assert thing.state is ObjectState.RUNNING
        assert thing.mounts["/run/vpp"] == directory(stage)
        assert thing.claimed == claims(stage)

    async def test_it_names_containerd(self, stage: CriStage) -> None:
        assert (await stage.runtime.identity()).version.startswith("containerd ")

    async def _seen(self, stage: CriStage, name: str) -> RuntimeObject:
        (thing,) = [each for each in (await stage.runtime.snapshot()).objects if each.id == name]
        return thing
