"""containerd's runtime keeps its port's promises, against a real containerd."""

from collections.abc import AsyncIterator, Mapping

import pytest

from adapters.containerd.runtime import ContainerdRuntime
from adapters.system.clock import SystemClock
from domain.evidence import ObjectState
from tests.contract.partly_readable import PartlyReadableContract
from tests.contract.runtime_stage import PREFIX, Stage, hint, listening
from tests.rig.containerd import PrivateContainerd
from tests.rig.pods import ContainerPlan, PodName, Pods, pods_of


class ContainerdStage:
    """A private containerd, whose pods are made by the CRI."""

    kind = "containerd"

    def __init__(self, rig: PrivateContainerd, pods: Pods) -> None:
        self.rig = rig
        self.pods = pods
        self.clock = SystemClock()
        self.host_dir = str(rig.home / "memif")
        self.runtime = ContainerdRuntime(endpoint=rig.socket, prefixes=(PREFIX,), clock=self.clock, deadline=1.5)

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


class TestContainerdRuntime(PartlyReadableContract):
    @pytest.fixture
    async def stage(self, containerd_rig: PrivateContainerd) -> AsyncIterator[ContainerdStage]:
        async with pods_of(containerd_rig.socket, containerd_rig.home) as pods:
            stage = ContainerdStage(containerd_rig, pods)
            try:
                yield stage
            finally:
                await stage.restore()
                await stage.runtime.aclose()

    async def test_a_container_that_never_started_exists(self, stage: Stage) -> None:
        """It has no task, like one that has ended; only who listens when it is made can tell the two apart."""
        async with listening(stage) as feed:
            sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
            container = await stage.container(sandbox, "a", mounts={}, annotations={})
            while await _state(stage, container) is not ObjectState.CREATED:
                await hint(feed)

    async def test_a_container_that_was_made_before_anybody_listened_counts_as_ended(self, stage: Stage) -> None:
        """So that nothing is concluded from it before it is seen to run; what it mounts is kept all the same."""
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        container = await stage.container(sandbox, "a", mounts={}, annotations={})

        async with listening(stage):
            assert await _state(stage, container) is ObjectState.EXITED


async def _state(stage: Stage, container: str) -> ObjectState:
    view = await stage.runtime.snapshot()
    return next(thing.state for thing in view.objects if thing.id == container)
