"""The kubelet's pod-resources service, version 1."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

import grpc
from grpc import aio

from adapters._pb.kubelet.podresources.v1 import api_pb2, api_pb2_grpc
from adapters.memory.node.devices import DeviceManager
from adapters.memory.node.pods import Container, ContainerKind, Pod
from adapters.memory.node.trace import Trace
from domain.ports.clock import Clock

RATE: Final = 100.0
"""Calls a second, of all clients together."""

BURST: Final = 10
"""Calls that may come at once."""


class Limiter:
    """The token bucket that all clients share."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens = float(BURST)
        self._filled = clock.monotonic()

    def allows(self) -> bool:
        """Take a token if there is one."""
        now = self._clock.monotonic()
        self._tokens = min(float(BURST), self._tokens + (now - self._filled) * RATE)
        self._filled = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


class Pods(Protocol):
    """What the service needs of the kubelet."""

    @property
    def active(self) -> Iterable[Pod]:
        """The pods that the kubelet was told of and that are neither rejected nor finished."""
        ...

    def purge(self) -> None:
        """Drop what dead pods hold."""
        ...


class PodResourcesServicer(api_pb2_grpc.PodResourcesListerServicer):
    """List, Get and GetAllocatableResources.

    Plain init containers are left out, so what they hold is not to be seen here; each device has an entry of its
    own; a container whose Allocate is in flight is listed without devices.
    """

    def __init__(self, *, pods: Pods, devices: DeviceManager, limiter: Callable[[], bool], trace: Trace) -> None:
        self._pods = pods
        self._devices = devices
        self._limiter = limiter
        self._trace = trace

    async def List(  # noqa: N802 - the protocol's name
        self,
        request: api_pb2.ListPodResourcesRequest,  # noqa: ARG002 - it is empty
        context: aio.ServicerContext[api_pb2.ListPodResourcesRequest, Awaitable[api_pb2.ListPodResourcesResponse]],
    ) -> api_pb2.ListPodResourcesResponse:
        """List every active pod, and on this occasion drop what dead pods hold."""
        await self._limit(context, "List")
        pods = list(self._pods.active)
        self._pods.purge()
        self._trace.note("List")
        return api_pb2.ListPodResourcesResponse(pod_resources=[self._pod(pod) for pod in pods])

    async def Get(  # noqa: N802 - the protocol's name
        self,
        request: api_pb2.GetPodResourcesRequest,
        context: aio.ServicerContext[api_pb2.GetPodResourcesRequest, Awaitable[api_pb2.GetPodResourcesResponse]],
    ) -> api_pb2.GetPodResourcesResponse:
        """Return one pod; this drops nothing."""
        await self._limit(context, "Get")
        for pod in self._pods.active:
            if (pod.namespace, pod.name) == (request.pod_namespace, request.pod_name):
                self._trace.note("Get")
                return api_pb2.GetPodResourcesResponse(pod_resources=self._pod(pod))
        text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        self._trace.note("Get", answer=text)
        await context.abort(grpc.StatusCode.UNKNOWN, text)
        raise AssertionError(text)  # abort never returns

    async def GetAllocatableResources(  # noqa: N802 - the protocol's name
        self,
        request: api_pb2.AllocatableResourcesRequest,  # noqa: ARG002 - it is empty
        context: aio.ServicerContext[
            api_pb2.AllocatableResourcesRequest, Awaitable[api_pb2.AllocatableResourcesResponse]
        ],
    ) -> api_pb2.AllocatableResourcesResponse:
        """Return the healthy devices, allocated ones included."""
        await self._limit(context, "GetAllocatableResources")
        devices = [
            entry
            for resource, names in self._devices.healthy.items()
            for entry in self._each(resource, self._devices.shuffled(names))
        ]
        self._trace.note("GetAllocatableResources")
        return api_pb2.AllocatableResourcesResponse(devices=devices)

    async def _limit(self, context: aio.ServicerContext[Any, Any], rpc: str) -> None:
        if not self._limiter():
            self._trace.note(rpc, answer="rejected by rate limit")
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    def _pod(self, pod: Pod) -> api_pb2.PodResources:
        listed = [c for c in pod.in_order() if c.kind is not ContainerKind.INIT]
        return api_pb2.PodResources(
            name=pod.name,
            namespace=pod.namespace,
            containers=[self._container(pod, container) for container in listed],
        )

    def _container(self, pod: Pod, container: Container) -> api_pb2.ContainerResources:
        devices = [
            entry
            for stored in self._devices.of(pod.uid, container.name)
            for entry in self._each(stored.resource, sorted(stored.ids))
        ]
        return api_pb2.ContainerResources(name=container.name, devices=devices)

    def _each(self, resource: str, names: Iterable[str]) -> Iterable[api_pb2.ContainerDevices]:
        known = self._devices.known.get(resource, {})
        for name in names:
            nodes = [node.ID for node in known[name].topology.nodes] if name in known else []
            if not nodes:
                yield api_pb2.ContainerDevices(resource_name=resource, device_ids=[name])
            for node in nodes:
                topology = api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=node)])
                yield api_pb2.ContainerDevices(resource_name=resource, device_ids=[name], topology=topology)
