"""The memory pod-resources keep their port's promises."""

from collections.abc import Mapping

import pytest

from adapters.memory.kubelet import MemoryPodResources
from domain.identity import DeviceId
from domain.ports.kubelet import KubeletUnavailable, NoSinglePod
from tests.contract.pod_resources import CAPACITY, RESOURCE, Held, PodResourcesContract


class _Stage:
    def __init__(self) -> None:
        self.pod_resources = MemoryPodResources()
        self.devices = frozenset(f"{RESOURCE}/{index}" for index in range(CAPACITY))
        self._healthy = self.devices
        self._free = sorted(self.devices)
        self._offer()

    def _offer(self) -> None:
        self.pod_resources.offer(RESOURCE, map(DeviceId, self._healthy))

    async def run(self, namespace: str, name: str, containers: Mapping[str, int]) -> Held:
        held = {container: frozenset(self._free.pop() for _ in range(count)) for container, count in containers.items()}
        self.pod_resources.put(
            namespace,
            name,
            {container: {RESOURCE: map(DeviceId, ids)} if ids else {} for container, ids in held.items()},
        )
        return held

    async def sicken(self, device: str) -> None:
        self._healthy -= {device}
        self._offer()

    async def remove(self, namespace: str, name: str) -> None:
        self.pod_resources.forget(namespace, name)

    async def refuse_next(self) -> None:
        self.pod_resources.fail_next()

    async def cut(self) -> None:
        self.pod_resources.cut()

    async def restore(self) -> None:
        self.pod_resources.restore()


class TestMemoryPodResources(PodResourcesContract):
    @pytest.fixture
    def stage(self) -> _Stage:
        return _Stage()


class TestLevers:
    async def test_every_call_is_recorded_in_order_also_one_that_fails(self) -> None:
        pod_resources = MemoryPodResources()
        pod_resources.fail_next()
        with pytest.raises(KubeletUnavailable):
            await pod_resources.pods()
        await pod_resources.pod("telco", "cnf")
        await pod_resources.allocatable(RESOURCE)

        assert pod_resources.asked == ["List", "Get telco/cnf", "GetAllocatableResources"]

    async def test_a_kubelet_that_can_only_list_can_be_played(self) -> None:
        pod_resources = MemoryPodResources()
        pod_resources.fail_next(NoSinglePod("PodResources API Get method disabled"))

        with pytest.raises(NoSinglePod, match="disabled"):
            await pod_resources.pod("telco", "cnf")

    async def test_only_a_listing_makes_the_kubelet_forget(self) -> None:
        listings: list[None] = []
        pod_resources = MemoryPodResources(on_list=lambda: listings.append(None))
        await pod_resources.pod("telco", "cnf")
        await pod_resources.allocatable(RESOURCE)
        await pod_resources.pods()

        assert len(listings) == 1
