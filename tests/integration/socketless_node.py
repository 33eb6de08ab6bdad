"""The embedded node without sockets: its kubelet calls the daemon's service directly, and is called so.

Nothing happens by itself: no time passes, and what cannot be started is not tried again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final, Never, TypeVar, cast

import grpc
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2
from adapters._pb.kubelet.podresources.v1 import api_pb2 as resources_pb
from adapters.kubelet import translate
from adapters.kubelet.service import DevicePluginService
from adapters.memory.node import EmbeddedNode, Pod, Source, Timing, checkpoint
from adapters.memory.node.errors import PluginFailed
from adapters.memory.node.kubelet import Kubelet
from adapters.memory.node.pod_resources import PodResourcesServicer
from adapters.memory.runtime import MemoryRuntime
from domain.evidence import PodDevices, RuntimeView
from domain.identity import DeviceId
from domain.ports.kubelet import KubeletUnavailable
from domain.resource import ResourceName
from tests.integration.crash import Killed

AT_ONCE: Final = Timing(readmit_after=0.0, retry=3600.0)
"""Nothing takes time, and nothing is tried again by itself."""

T = TypeVar("T")
Context = aio.ServicerContext[Any, Any]


class _Aborted(Exception):
    """A call was ended with a status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code, self.details = code, details


class _Call:
    """What a service needs of the call that it answers."""

    async def abort(self, code: grpc.StatusCode, details: str) -> Never:
        raise _Aborted(code, details)


_CALL: Final = cast("Context", _Call())


class HidingRuntime(MemoryRuntime):
    """A runtime that can be made to show nothing although containers run."""

    hidden = False

    async def snapshot(self) -> RuntimeView:
        view = await super().snapshot()
        return replace(view, objects=()) if self.hidden else view

    def restore(self) -> None:
        super().restore()
        self.hidden = False


class SocketlessKubelet(Kubelet):
    """A life of the kubelet that nobody dials."""

    async def start(self) -> None:
        """Read the record; pods come with :meth:`deliver`."""
        machine = self._machine
        machine.plugin_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
        self.devices.restore(*checkpoint.read(machine.checkpoint_path), now=machine.clock.monotonic())

    def lister(self) -> PodResourcesServicer:
        """Return the service that tells what pods hold."""
        return PodResourcesServicer(
            pods=self, devices=self.devices, limiter=self._machine.limiter, trace=self._machine.trace
        )


class SocketlessNode(EmbeddedNode):
    """A node whose kubelet nobody dials."""

    async def start_kubelet(self, *, withhold: Collection[Source] = ()) -> None:
        """Start a kubelet that waits for :meth:`deliver_sources`."""
        assert self._kubelet is None
        for each in self.pods:
            each.admitted = False
        self._kubelet = SocketlessKubelet(
            self._machine, self.timing, pods=lambda: self.pods, ready=self._bury, withheld=withhold or tuple(Source)
        )
        await self._kubelet.start()

    @property
    def orphans(self) -> tuple[Pod, ...]:
        """The pods that the kubelet was made to forget and of which something may still run."""
        return tuple(self._orphans)

    @property
    def ready(self) -> bool:
        """Whether a kubelet runs and has its pods."""
        return self.running and not self.kubelet.dead and self.kubelet.sources_ready

    async def attempted(self, *pods: Pod) -> None:
        """Wait until the workers of pods have started everything or met an obstacle; then nobody tries again."""
        for each in pods:
            task = self.kubelet._workers.get(each)
            # A turn of the loop is all that it takes: it waits for nothing else.
            while task is not None and not task.done() and all(c.waiting is None for c in each.containers):  # noqa: ASYNC110
                await asyncio.sleep(0)
            await self.kubelet.stop_work(each)

    async def attempt(self, pod: Pod) -> None:
        """Let the kubelet try once to start what a pod lacks."""
        for each in pod.containers:
            each.waiting = None
        pod.started = True
        if pod.admitted and self.running:
            self.begin(pod)
            await self.attempted(pod)

    async def deliver(self) -> None:
        """Let all pods come, and the kubelet try once to start them."""
        for pod in self.pods:
            for each in pod.containers:
                each.waiting = None
        await self.deliver_sources()
        if self.running and not self.kubelet.dead:
            await self.attempted(*self.pods)


class Line:
    """The kubelet's line to one run of the daemon; keeps the kubelet's idea of a plugin.

    Args:
        service: the run's.
        answered: called after each answer, which the kubelet may have acted upon by the next.
    """

    def __init__(self, service: DevicePluginService, answered: Callable[[], None]) -> None:
        self._service = service
        self._answered = answered

    async def allocate(self, ids: Sequence[str]) -> Sequence[api_pb2.ContainerAllocateResponse]:
        request = api_pb2.AllocateRequest(container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=ids)])
        return list((await self._asked(self._service.Allocate(request, _CALL))).container_responses)

    async def preferred(self, available: Sequence[str], must: Sequence[str], size: int) -> frozenset[str]:
        del available, size
        return frozenset(must)

    async def pre_start(self, ids: Sequence[str]) -> None:
        await self._asked(self._service.PreStartContainer(api_pb2.PreStartContainerRequest(devices_ids=ids), _CALL))

    async def _asked(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except _Aborted as refusal:
            raise PluginFailed(refusal.code, refusal.details) from refusal
        except Killed as end:
            raise PluginFailed(grpc.StatusCode.UNAVAILABLE, "error reading from server: EOF") from end
        finally:
            self._answered()


class NodePodResources:
    """The port to the kubelet that runs now, if one does."""

    def __init__(self, node: SocketlessNode) -> None:
        self._node = node

    async def pod(self, namespace: str, name: str) -> PodDevices | None:
        request = resources_pb.GetPodResourcesRequest(pod_namespace=namespace, pod_name=name)
        try:
            return translate.pod_devices((await self._lister.Get(request, _CALL)).pod_resources)
        except _Aborted:
            return None

    async def pods(self) -> tuple[PodDevices, ...]:
        answer = await self._lister.List(resources_pb.ListPodResourcesRequest(), _CALL)
        return tuple(map(translate.pod_devices, answer.pod_resources))

    async def allocatable(self, resource: ResourceName) -> frozenset[DeviceId]:
        answer = await self._lister.GetAllocatableResources(resources_pb.AllocatableResourcesRequest(), _CALL)
        return translate.by_resource(answer.devices).get(resource, frozenset())

    @property
    def _lister(self) -> PodResourcesServicer:
        if not self._node.running or self._node.kubelet.dead:
            raise KubeletUnavailable("no kubelet runs")
        assert isinstance(self._node.kubelet, SocketlessKubelet)
        return self._node.kubelet.lister()
