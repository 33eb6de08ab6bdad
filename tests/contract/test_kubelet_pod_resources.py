"""The client of the kubelet's pod-resources keeps its port's promises, against the embedded node."""

from collections.abc import AsyncIterator, Mapping

import pytest

from adapters.kubelet.pod_resources import KubeletPodResources
from adapters.memory.node import ContainerSpec, EmbeddedNode, Pod, PodSpec
from adapters.memory.node.pod_resources import Limiter
from tests.contract.pod_resources import CAPACITY, RESOURCE, Held, PodResourcesContract
from tests.integration.nodes import a_node
from tests.integration.plugin import ScriptedPlugin


class _RefusesOnce(Limiter):
    refuse = False

    def allows(self) -> bool:
        refuse, self.refuse = self.refuse, False
        return not refuse


class _Stage:
    def __init__(self, node: EmbeddedNode, plugin: ScriptedPlugin) -> None:
        self._node = node
        self._plugin = plugin
        self._limiter = _RefusesOnce(node._clock)
        node._limiter = self._limiter
        self._pods: dict[tuple[str, str], Pod] = {}
        self.pod_resources = KubeletPodResources(path=str(node.pod_resources_socket))
        self.devices = frozenset(plugin.health)

    async def run(self, namespace: str, name: str, containers: Mapping[str, int]) -> Held:
        specs = tuple(
            ContainerSpec(name=each, limits={RESOURCE: count} if count else {}) for each, count in containers.items()
        )
        pod = await self._node.start(PodSpec(namespace=namespace, name=name, containers=specs))
        self._pods[namespace, name] = pod
        return {container: held[RESOURCE] for container, held in self._node.devices_of(pod).items()}

    async def sicken(self, device: str) -> None:
        self._plugin.health[device] = "Unhealthy"
        self._plugin.publish()
        await self._node.until(lambda: device not in self._node.kubelet.devices.healthy[RESOURCE])

    async def remove(self, namespace: str, name: str) -> None:
        await self._node.delete(self._pods.pop((namespace, name)))

    async def refuse_next(self) -> None:
        self._limiter.refuse = True

    async def cut(self) -> None:
        await self._node.stop_kubelet()

    async def restore(self) -> None:
        await self._node.start_kubelet()


class TestKubeletPodResources(PodResourcesContract):
    @pytest.fixture
    async def stage(self) -> AsyncIterator[_Stage]:
        async with a_node() as node, ScriptedPlugin(node.plugin_dir, resource=RESOURCE, count=CAPACITY) as plugin:
            await node.wait_registered(RESOURCE)
            yield _Stage(node, plugin)
