"""The kubelet double in a real kubelet's place, on a real containerd: what it admits is made there as it says."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from adapters.memory.node import Container, ContainerKind, EmbeddedNode, Pod, PodSpec, Timing
from adapters.memory.runtime import MemoryRuntime
from adapters.system.clock import SystemClock
from tests.e2e_kubelet.driver import NODE
from tests.rig.pods import ContainerPlan, PodName, Pods


@dataclass(slots=True)
class _Made:
    """A pod on both sides."""

    pod: Pod
    sandbox: str
    containers: dict[str, str]


class StandIn:
    """A :class:`~tests.e2e_kubelet.driver.KubeletDriver` without a kubelet."""

    def __init__(self, *, root: Path, pods: Pods, runtime: str) -> None:
        clock = SystemClock()
        # Pods are admitted a second after the kubelet's socket is there: that race is tested and measured elsewhere.
        timing = Timing(retry=0.05, readmit_after=1.0)
        self._node = EmbeddedNode(root, MemoryRuntime(clock), clock=clock, name=NODE, timing=timing, rate_limited=False)
        self._pods = pods
        self._made: dict[str, _Made] = {}
        self.about = "the kubelet double, which stands in for a real one, on containerd"
        self.plugin_dir = self._node.plugin_dir
        self.pod_resources = self._node.pod_resources_socket
        self.runtime = runtime

    async def start(self) -> None:
        """See the driver."""
        await self._node.start_kubelet()
        await self._node.wait_ready()

    async def stop(self) -> None:
        """See the driver."""
        await self._node.stop_kubelet()

    async def place(self, spec: PodSpec) -> None:
        """See the driver."""
        pod = await self._node.start(spec)
        assert pod.running, pod.message
        self._made[spec.name] = await self._make(pod)

    async def take_away(self, spec: PodSpec) -> None:
        """See the driver."""
        await self._node.force_delete(self._made[spec.name].pod)

    async def buried(self, spec: PodSpec) -> None:
        """See the driver."""
        made = self._made.pop(spec.name)
        await self._pods.end_sandbox(made.sandbox)
        await self._pods.remove_sandbox(made.sandbox)
        await self._node.finish(made.pod)

    async def end(self, spec: PodSpec, container: str) -> None:
        """See the driver."""
        made = self._made[spec.name]
        await self._pods.end(made.containers[container])
        await self._node.restart_container(made.pod, container)
        await self._begin(made, made.pod.container(container))

    async def power_cycle(self, specs: Collection[PodSpec], meanwhile: Callable[[], Awaitable[None]]) -> None:
        """See the driver."""
        for spec in specs:
            await self._pods.end_sandbox(self._made[spec.name].sandbox)
        await self._node.reboot(meanwhile)
        await self._node.wait_ready()
        for spec in specs:
            made = self._made[spec.name]
            await self._node.run(made.pod)
            assert made.pod.running, made.pod.message
            again = await self._make(made.pod, attempt=1)
            await self._pods.remove_sandbox(made.sandbox)
            self._made[spec.name] = again

    async def _make(self, pod: Pod, *, attempt: int = 0) -> _Made:
        name = PodName(uid=pod.uid, namespace=pod.namespace, name=pod.name)
        made = _Made(pod, await self._pods.run_sandbox(name, attempt=attempt), {})
        for container in pod.in_order():
            await self._begin(made, container)
        return made

    async def _begin(self, made: _Made, container: Container) -> None:
        plan = ContainerPlan(
            name=container.name,
            mounts=container.mounts,
            annotations=container.annotations,
            envs=container.env,
            restarts=container.restarts,
        )
        created = made.containers[container.name] = await self._pods.create(made.sandbox, plan)
        await self._pods.start(created)
        if container.kind is ContainerKind.INIT:
            await self._pods.end(created)
