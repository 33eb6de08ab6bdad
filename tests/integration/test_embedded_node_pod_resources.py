"""The embedded node's pod-resources service."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from grpc import aio

from adapters._pb.kubelet.podresources.v1.api_pb2 import (
    AllocatableResourcesRequest,
    GetPodResourcesRequest,
    ListPodResourcesRequest,
)
from adapters._pb.kubelet.podresources.v1.api_pb2_grpc import PodResourcesListerStub
from adapters.memory.clock import ManualClock
from adapters.memory.node import EmbeddedNode, PodSpec
from tests.integration.nodes import a_node, app, init, lister, pod, sidecar
from tests.integration.plugin import RESOURCE, ScriptedPlugin

CAPTURE = Path(__file__).parent.parent / "captures" / "podresources.containerd.json"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def node(clock: ManualClock) -> AsyncIterator[EmbeddedNode]:
    async with a_node(clock=clock) as made:
        yield made


@pytest.fixture
async def plugin(node: EmbeddedNode) -> AsyncIterator[ScriptedPlugin]:
    async with ScriptedPlugin(node.plugin_dir, count=5) as made:
        await node.wait_registered(RESOURCE)
        yield made


@pytest.fixture
async def stub(node: EmbeddedNode) -> AsyncIterator[PodResourcesListerStub]:
    async with lister(node) as made:
        yield made


async def listed(stub: PodResourcesListerStub) -> list[str]:
    return [entry.name for entry in (await stub.List(ListPodResourcesRequest())).pod_resources]


class TestWhatIsShown:
    @pytest.mark.usefixtures("plugin")
    async def test_a_list_has_the_shape_of_a_real_one(self, node: EmbeddedNode, stub: PodResourcesListerStub) -> None:
        """The recorded node ran the same pod: its plain init container is not to be seen, and each device has an
        entry of its own.
        """
        await node.start(
            pod("cnf", init(), sidecar("side", 1), app("dataplane", 2), app("probe", 1), app("plain", 0), static=True)
        )
        answer = await stub.List(ListPodResourcesRequest())

        ours = MessageToDict(answer, preserving_proto_field_name=True)
        real = json.loads(CAPTURE.read_text())["List"]
        assert _shape(ours) == _shape(real)
        (entry,) = answer.pod_resources
        assert [container.name for container in entry.containers] == ["side", "dataplane", "probe", "plain"]

    @pytest.mark.usefixtures("plugin")
    async def test_get_shows_one_pod_by_the_name_with_its_suffix(
        self, node: EmbeddedNode, stub: PodResourcesListerStub
    ) -> None:
        await node.start(pod("cnf", static=True))
        request = GetPodResourcesRequest(pod_name="cnf-node1", pod_namespace="telco")
        answer = await stub.Get(request)

        assert [len(container.devices) for container in answer.pod_resources.containers] == [1]

    async def test_get_of_an_unknown_pod_has_the_code_unknown_and_says_so_in_words(
        self, stub: PodResourcesListerStub
    ) -> None:
        with pytest.raises(aio.AioRpcError) as caught:
            await stub.Get(GetPodResourcesRequest(pod_name="x", pod_namespace="telco"))

        assert caught.value.code() is grpc.StatusCode.UNKNOWN
        assert caught.value.details() == "pod x in namespace telco not found"

    async def test_a_container_whose_allocate_is_in_flight_is_there_without_devices(
        self, node: EmbeddedNode, plugin: ScriptedPlugin, stub: PodResourcesListerStub
    ) -> None:
        plugin.hold.clear()
        admitting = asyncio.create_task(node.admit(pod()))
        await plugin.entered.wait()
        answer = await stub.List(ListPodResourcesRequest())
        plugin.hold.set()
        await admitting

        (entry,) = answer.pod_resources
        assert [(container.name, len(container.devices)) for container in entry.containers] == [("a", 0)]

    @pytest.mark.usefixtures("plugin")
    async def test_rejected_and_finished_pods_are_absent(
        self, node: EmbeddedNode, stub: PodResourcesListerStub
    ) -> None:
        await node.admit(PodSpec(namespace="telco", name="fat", containers=(app(),), oversized=True))
        done = await node.start(pod("done"))
        await node.complete(done)
        await node.start(pod("alive"))

        assert await listed(stub) == ["alive"]

    async def test_allocatable_is_what_is_healthy_allocated_or_not(
        self, node: EmbeddedNode, plugin: ScriptedPlugin, stub: PodResourcesListerStub
    ) -> None:
        await node.start(pod())
        plugin.health[f"{RESOURCE}/0"] = "Unhealthy"
        plugin.publish()
        await node.until(lambda: node.resources()[RESOURCE].allocatable == 4)
        answer = await stub.GetAllocatableResources(AllocatableResourcesRequest())

        assert all(len(entry.device_ids) == 1 for entry in answer.devices)
        assert {entry.device_ids[0] for entry in answer.devices} == {f"{RESOURCE}/{index}" for index in range(1, 5)}

    async def test_a_device_of_two_numa_nodes_is_listed_twice(
        self, node: EmbeddedNode, stub: PodResourcesListerStub
    ) -> None:
        plugin = ScriptedPlugin(node.plugin_dir, count=1)
        plugin.numa[f"{RESOURCE}/0"] = (0, 1)
        async with plugin:
            await node.wait_registered(RESOURCE)
            await node.start(pod())
            answer = await stub.List(ListPodResourcesRequest())

            (entry,) = answer.pod_resources
            (container,) = entry.containers
            found = [(list(d.device_ids), [n.ID for n in d.topology.nodes]) for d in container.devices]
            assert found == [([f"{RESOURCE}/0"], [0]), ([f"{RESOURCE}/0"], [1])]


class TestFreeing:
    @pytest.mark.usefixtures("plugin")
    async def test_a_list_frees_what_dead_pods_held_and_a_get_does_not(
        self, node: EmbeddedNode, stub: PodResourcesListerStub
    ) -> None:
        alive = await node.start(pod("alive"))
        dead = await node.start(pod("dead"))
        await node.delete(dead)

        await stub.Get(GetPodResourcesRequest(pod_name=alive.name, pod_namespace="telco"))
        assert set(node.devices_of(dead)) == {"a"}
        await stub.List(ListPodResourcesRequest())
        assert node.devices_of(dead) == {}
        assert set(node.devices_of(alive)) == {"a"}


class TestRateLimit:
    async def test_more_than_ten_calls_at_once_are_refused(
        self, stub: PodResourcesListerStub, clock: ManualClock
    ) -> None:
        for _ in range(10):
            await stub.List(ListPodResourcesRequest())
        with pytest.raises(aio.AioRpcError) as caught:
            await stub.GetAllocatableResources(AllocatableResourcesRequest())

        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert caught.value.details() == "rejected by rate limit"
        clock.advance(0.011)
        assert await listed(stub) == []

    async def test_it_can_be_switched_off(self, node: EmbeddedNode, stub: PodResourcesListerStub) -> None:
        node.rate_limited = False
        answers = [await listed(stub) for _ in range(20)]

        assert answers == [[]] * 20


class TestTheSocket:
    async def test_it_is_renamed_into_place(self, node: EmbeddedNode) -> None:
        """So it is never there before it answers, and its directory holds nothing else."""
        directory = node.pod_resources_socket.parent

        assert [path.name for path in directory.iterdir()] == ["kubelet.sock"]
        await node.restart_kubelet()
        assert [path.name for path in directory.iterdir()] == ["kubelet.sock"]

    async def test_the_old_version_is_not_served(self, node: EmbeddedNode) -> None:
        async with aio.insecure_channel(f"unix:{node.pod_resources_socket}") as channel:
            call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/v1alpha1.PodResourcesLister/List")
            with pytest.raises(aio.AioRpcError) as caught:
                await call(b"")

        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def _shape(value: object) -> object:
    """Return a JSON value with its texts blanked, except the keys."""
    if isinstance(value, dict):
        return {key: _shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shape(inner) for inner in value]
    return type(value).__name__
