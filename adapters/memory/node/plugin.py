"""The kubelet's end of a connection to one plugin."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import grpc
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from adapters.memory.node.errors import PluginFailed, Refused
from adapters.memory.node.trace import Trace

T = TypeVar("T")

_CHANNEL: Final = (
    # A connection of its own for each dial, as the kubelet's, not one that other channels of this process share.
    ("grpc.use_local_subchannel_pool", 1),
)


class PluginClient:
    """A connection to one plugin's socket; one is made for each registration and never used again."""

    def __init__(self, resource: str, path: str, *, trace: Trace, pre_start_deadline: float) -> None:
        self.resource = resource
        self.path = path
        self._trace = trace
        self._pre_start_deadline = pre_start_deadline
        self._channel: aio.Channel | None = None
        self.watching: asyncio.Task[None] | None = None

    async def dial(self, limit: float) -> None:
        """Connect, trying again until the limit of so many seconds.

        Raises:
            Refused: nobody answers there.
        """
        channel = aio.insecure_channel(f"unix:{self.path}", options=_CHANNEL)
        self._channel = channel
        try:
            async with asyncio.timeout(limit):
                await channel.channel_ready()
        except TimeoutError as error:
            raise Refused("failed to dial device plugin: context deadline exceeded") from error

    async def options(self) -> api_pb2.DevicePluginOptions:
        """Call GetDevicePluginOptions."""
        try:
            options = await self._call("GetDevicePluginOptions", (), self._stub.GetDevicePluginOptions(_EMPTY))
        except PluginFailed as error:
            raise Refused(f"failed to get device plugin options: {error}") from error
        return options

    async def watch(self, receive: Callable[[Sequence[api_pb2.Device]], None]) -> None:
        """Open ListAndWatch and hand on each list, until the stream ends for whatever reason."""
        call = self._stub.ListAndWatch(_EMPTY)
        self._trace.note("ListAndWatch", resource=self.resource, what="open")
        answer = "ok"
        try:
            async for message in call:
                receive(message.devices)
                ids = tuple(device.ID for device in message.devices)
                self._trace.note("ListAndWatch", resource=self.resource, ids=ids, what="list")
        except aio.AioRpcError as error:
            answer = str(PluginFailed(error.code(), error.details() or ""))
        except asyncio.CancelledError:
            # Raised too when the channel was closed under the call; only a task that is itself cancelled passes it on.
            if _is_cancelled():
                raise
        finally:
            call.cancel()
            self._trace.note("ListAndWatch", resource=self.resource, what="end", answer=answer)

    async def allocate(self, ids: Sequence[str]) -> Sequence[api_pb2.ContainerAllocateResponse]:
        """Call Allocate for one container; the kubelet sets no deadline."""
        request = api_pb2.AllocateRequest(container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=ids)])
        answer = await self._call("Allocate", ids, self._stub.Allocate(request))
        return list(answer.container_responses)

    async def preferred(self, available: Sequence[str], must: Sequence[str], size: int) -> frozenset[str]:
        """Call GetPreferredAllocation for one container; the kubelet sets no deadline."""
        wish = api_pb2.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        request = api_pb2.PreferredAllocationRequest(container_requests=[wish])
        answer = await self._call("GetPreferredAllocation", must, self._stub.GetPreferredAllocation(request))
        return frozenset(name for reply in answer.container_responses[:1] for name in reply.deviceIDs)

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Call PreStartContainer."""
        request = api_pb2.PreStartContainerRequest(devices_ids=ids)
        call = self._stub.PreStartContainer(request, timeout=self._pre_start_deadline)
        await self._call("PreStartContainer", ids, call)

    async def close(self) -> None:
        """Close the connection, which ends its stream and every call in flight; closing twice is fine."""
        if self._channel is not None:
            await self._channel.close()

    @property
    def _stub(self) -> api_pb2_grpc.DevicePluginStub:
        if self._channel is None:
            raise Refused(f"nobody has dialed {self.path}")
        return api_pb2_grpc.DevicePluginStub(self._channel)

    async def _call(self, rpc: str, ids: Sequence[str], call: Awaitable[T]) -> T:
        try:
            answer = await call
        except aio.AioRpcError as error:
            failure = PluginFailed(error.code(), error.details() or "")
            self._trace.note(rpc, resource=self.resource, ids=tuple(ids), answer=str(failure))
            raise failure from error
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            failure = PluginFailed(grpc.StatusCode.CANCELLED, "grpc: the client connection is closing")
            self._trace.note(rpc, resource=self.resource, ids=tuple(ids), answer=str(failure))
            raise failure from error
        self._trace.note(rpc, resource=self.resource, ids=tuple(ids))
        return answer


_EMPTY: Final = api_pb2.Empty()


def _is_cancelled() -> bool:
    """Tell whether somebody cancelled this task, and not only the call that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
