"""The device-plugin service: the door by which the kubelet's calls come in.

Each call is translated, handed to the core, and translated back; what the core refuses becomes a gRPC status in one
place.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from grpc import aio
from structlog.contextvars import bound_contextvars

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from adapters.kubelet import numa, refusals, translate
from adapters.kubelet.feed import DeviceFeed
from domain.errors import MemifError
from domain.pool import Device
from domain.ports.inbound import DevicePlugin
from domain.ports.reports import Reports

Context: TypeAlias = aio.ServicerContext[Any, Any]
T = TypeVar("T")

OPTIONS = api_pb2.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=False)
"""What the kubelet is told of us, when it asks; what a registration says of it does not count.

PreStartContainer is wanted because it is the only call repeated before every start of a container.
"""


class DevicePluginService(api_pb2_grpc.DevicePluginServicer):
    """One pool's service."""

    def __init__(self, *, plugin: DevicePlugin, feed: DeviceFeed, reports: Reports) -> None:
        self._plugin = plugin
        self._feed = feed
        self._reports = reports

    async def GetDevicePluginOptions(  # noqa: N802 -- the protocol's name
        self, request: api_pb2.Empty, context: Context
    ) -> api_pb2.DevicePluginOptions:
        """Say which of the optional calls are wanted."""
        del request, context
        return OPTIONS

    async def ListAndWatch(  # noqa: N802
        self, request: api_pb2.Empty, context: Context
    ) -> AsyncIterator[api_pb2.ListAndWatchResponse]:
        """Send the whole list at once, and again whenever it is published, until the server closes."""
        del request
        with self._feed.watching() as publications:
            async for _ in publications:
                yield await self._guarded("ListAndWatch", context, self._list)

    async def GetPreferredAllocation(  # noqa: N802
        self, request: api_pb2.PreferredAllocationRequest, context: Context
    ) -> api_pb2.PreferredAllocationResponse:
        """Prefer nothing: one memif device is as good as another.  Not offered, and answered all the same."""
        del context
        return api_pb2.PreferredAllocationResponse(
            container_responses=[api_pb2.ContainerPreferredAllocationResponse() for _ in request.container_requests]
        )

    async def Allocate(  # noqa: N802
        self, request: api_pb2.AllocateRequest, context: Context
    ) -> api_pb2.AllocateResponse:
        """Grant what a container asks for."""
        return await self._guarded("Allocate", context, lambda: self._granted(request))

    async def PreStartContainer(  # noqa: N802
        self, request: api_pb2.PreStartContainerRequest, context: Context
    ) -> api_pb2.PreStartContainerResponse:
        """Make sure of the directories of a container that is about to start."""
        await self._guarded("PreStartContainer", context, lambda: self._plugin.pre_start(tuple(request.devices_ids)))
        return api_pb2.PreStartContainerResponse()

    async def _list(self) -> api_pb2.ListAndWatchResponse:
        return translate.device_list(self._placed(self._plugin.devices()))

    def _placed(self, devices: Sequence[Device]) -> Sequence[Device]:
        """Return the devices without the NUMA nodes that this machine does not have, and warn of those."""
        if all(each.numa_node is None for each in devices) or (nodes := numa.online()) is None:
            return devices
        missing = numa.missing(devices, nodes)
        if not missing:
            return devices
        self._reports.warn(
            "the NUMA node of a pool is not on this machine, so its devices are listed without one; correct numa_node",
            resource=self._plugin.resource,
            numa_node=list(missing),
            present=sorted(nodes),
        )
        return numa.without(missing, devices)

    async def _granted(self, request: api_pb2.AllocateRequest) -> api_pb2.AllocateResponse:
        return translate.allocate_response(await self._plugin.allocate(translate.requests(request)))

    async def _guarded(self, call: str, context: Context, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the core, and refuse the call with the status of what it raises; all that is logged of it has one id."""
        with bound_contextvars(request=secrets.token_hex(4)):
            return await self._asked(call, context, ask)

    async def _asked(self, call: str, context: Context, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await ask()
        except asyncio.CancelledError:
            self._reports.note("the kubelet gave up a call", call=call, resource=self._plugin.resource)
            raise
        except MemifError as refusal:
            code, text = refusals.status(refusal)
            self._reports.warn(
                "a call of the kubelet was refused",
                call=call,
                resource=self._plugin.resource,
                code=code.name,
                reason=str(refusal),
            )
        except Exception as error:  # noqa: BLE001 -- the last door: gRPC would send the text of anything to the kubelet
            code, text = refusals.status(error)
            self._reports.warn(
                "a call of the kubelet failed", call=call, resource=self._plugin.resource, fault=type(error).__name__
            )
        await context.abort(code, text)
        raise AssertionError("abort never returns")
