"""The kubelet's pod-resources service, as a client."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import grpc
import grpc.aio

from adapters._pb.kubelet.podresources.v1 import api_pb2, api_pb2_grpc
from adapters.kubelet import translate
from adapters.kubelet.channel import channel
from adapters.kubelet.server import selinux_hint
from domain.evidence import PodDevices
from domain.identity import DeviceId
from domain.ports.kubelet import KubeletUnavailable, NoSinglePod
from domain.resource import ResourceName

DEADLINE: Final = 5.0
"""Seconds for one call; the service answers from memory."""

ONE_POD: Final = 1.2
"""Seconds for a question about one pod, on which a look-up waits, and may have to ask twice."""

T = TypeVar("T")


class KubeletPodResources:
    """Asks the kubelet; keeps the port :class:`domain.ports.kubelet.PodResources`."""

    def __init__(self, *, path: str, deadline: float = DEADLINE) -> None:
        self._path = path
        self._deadline = deadline

    async def pod(self, namespace: str, name: str) -> PodDevices | None:
        """Return what one pod holds, ``None`` if the kubelet does not know the pod."""
        request = api_pb2.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        try:
            answer = await self._call(lambda stub: stub.Get(request, timeout=min(self._deadline, ONE_POD)))
        except _Refused as refusal:
            # There is no code for it: an unknown pod and a method that is switched off are both UNKNOWN, with a text.
            if "not found" in refusal.text:
                return None
            raise NoSinglePod(f"the kubelet's pod-resources Get answers: {refusal.text}") from refusal
        return translate.pod_devices(answer.pod_resources)

    async def pods(self) -> tuple[PodDevices, ...]:
        """Return what every active pod holds."""
        request = api_pb2.ListPodResourcesRequest()
        answer = await self._call(lambda stub: stub.List(request, timeout=self._deadline))
        return tuple(map(translate.pod_devices, answer.pod_resources))

    async def allocatable(self, resource: ResourceName) -> frozenset[DeviceId]:
        """Return the healthy devices that the kubelet knows of a resource."""
        request = api_pb2.AllocatableResourcesRequest()
        answer = await self._call(lambda stub: stub.GetAllocatableResources(request, timeout=self._deadline))
        return translate.by_resource(answer.devices).get(resource, frozenset())

    async def _call(self, ask: Callable[[api_pb2_grpc.PodResourcesListerStub], Awaitable[T]]) -> T:
        async with channel(self._path) as opened:
            stub = api_pb2_grpc.PodResourcesListerStub(opened)
            with _mapped(self._path):
                answer = await ask(stub)
        if answer is None:  # what gRPC makes of an answer that it cannot decode
            raise KubeletUnavailable(
                f"the kubelet's pod-resources service at {self._path} answers with no message of it"
            )
        return answer


class _Refused(KubeletUnavailable):
    """The kubelet answered, with code UNKNOWN and a text."""

    def __init__(self, text: str) -> None:
        super().__init__(f"the kubelet's pod-resources service answers: {text}")
        self.text = text


@contextmanager
def _mapped(path: str) -> Iterator[None]:
    """Turn whatever a call raises into an exception of the port."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        text = error.details() or "no text"
        if error.code() is grpc.StatusCode.UNKNOWN:
            raise _Refused(text) from error
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            raise NoSinglePod(f"the kubelet has no such pod-resources method: {text}") from error
        hint = f"; run as root{selinux_hint()}" if "Permission denied" in text else ""
        raise KubeletUnavailable(
            f"the kubelet's pod-resources service at {path} does not answer: {error.code().name}: {text}{hint}"
        ) from error
