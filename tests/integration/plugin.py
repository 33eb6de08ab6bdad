"""A device plugin of the tests' own: small, scripted, and with all the ways in which plugins go wrong."""
# ruff: noqa: ARG002, N802 - names and signatures are the protocol's

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc

RESOURCE = "example.com/memif"


class ScriptedPlugin(api_pb2_grpc.DevicePluginServicer):
    """Serves one resource and records what the kubelet does, as ``seen``: one text or one (call, ids) each.

    Levers: ``allocate_error`` and ``pre_start_error`` (code and text, ``None`` = succeed), ``hold`` and
    ``pre_start_hold`` (cleared, Allocate or PreStartContainer waits), ``empty`` (Allocate answers nothing), ``make``
    (builds the answer to one container).
    """

    def __init__(
        self,
        plugin_dir: Path,
        *,
        resource: str = RESOURCE,
        count: int = 4,
        endpoint: str = "test.sock",
        pre_start: bool = True,
        preferred: Callable[[Sequence[str], Sequence[str], int], Sequence[str]] | None = None,
    ) -> None:
        self.plugin_dir = plugin_dir
        self.resource = resource
        self.endpoint = endpoint
        self.pre_start = pre_start
        self.preferred = preferred
        self.health = {f"{resource}/{index}": "Healthy" for index in range(count)}
        self.numa: dict[str, tuple[int, ...]] = {}
        self.seen: list[str | tuple[str, tuple[str, ...]]] = []
        self.allocate_error: tuple[grpc.StatusCode, str] | None = None
        self.pre_start_error: tuple[grpc.StatusCode, str] | None = None
        self.hold = asyncio.Event()
        self.hold.set()
        self.pre_start_hold = asyncio.Event()
        self.pre_start_hold.set()
        self.entered = asyncio.Event()
        self.ended = asyncio.Event()
        self.empty = False
        self.make: Callable[[int], api_pb2.ContainerAllocateResponse] = self._answer
        self.answers = 0
        self._queues: list[asyncio.Queue[None]] = []
        self._server: aio.Server | None = None

    # -- life --------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self.plugin_dir / self.endpoint

    async def __aenter__(self) -> Self:
        await self.serve()
        try:
            await self.register()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def serve(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        server = aio.server()
        api_pb2_grpc.add_DevicePluginServicer_to_server(self, server)
        server.add_insecure_port(f"unix:{self.path}")
        await server.start()
        self._server = server

    async def register(
        self, *, version: str = "v1beta1", endpoint: str | None = None, within: float | None = None
    ) -> None:
        """Register with the kubelet; options in the request are deliberately wrong, since nobody reads them."""
        target = f"unix:{self.plugin_dir / 'kubelet.sock'}"
        async with aio.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            request = api_pb2.RegisterRequest(
                version=version,
                endpoint=self.endpoint if endpoint is None else endpoint,
                resource_name=self.resource,
                options=api_pb2.DevicePluginOptions(pre_start_required=not self.pre_start),
            )
            await api_pb2_grpc.RegistrationStub(channel).Register(request, timeout=within)
        self.seen.append("Register")

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(None)

    def publish(self) -> None:
        """Send the list again, as ``health`` is now."""
        for queue in self._queues:
            queue.put_nowait(None)

    @property
    def calls(self) -> list[tuple[str, tuple[str, ...]]]:
        """Only the calls that name devices."""
        return [entry for entry in self.seen if not isinstance(entry, str)]

    # -- what the kubelet calls --------------------------------------------------------------------------------

    async def GetDevicePluginOptions(
        self,
        request: api_pb2.Empty,
        context: aio.ServicerContext[api_pb2.Empty, Awaitable[api_pb2.DevicePluginOptions]],
    ) -> api_pb2.DevicePluginOptions:
        self.seen.append("GetDevicePluginOptions")
        return api_pb2.DevicePluginOptions(
            pre_start_required=self.pre_start, get_preferred_allocation_available=self.preferred is not None
        )

    async def ListAndWatch(
        self, request: api_pb2.Empty, context: aio.ServicerContext[api_pb2.Empty, AsyncIterator[Any]]
    ) -> AsyncIterator[api_pb2.ListAndWatchResponse]:
        self.seen.append("ListAndWatch open")
        self.ended = asyncio.Event()
        queue: asyncio.Queue[None] = asyncio.Queue()
        self._queues.append(queue)
        try:
            while True:
                yield api_pb2.ListAndWatchResponse(devices=[self._device(name) for name in self.health])
                await queue.get()
        finally:
            self._queues.remove(queue)
            self.seen.append("ListAndWatch end")
            self.ended.set()

    async def GetPreferredAllocation(
        self,
        request: api_pb2.PreferredAllocationRequest,
        context: aio.ServicerContext[
            api_pb2.PreferredAllocationRequest, Awaitable[api_pb2.PreferredAllocationResponse]
        ],
    ) -> api_pb2.PreferredAllocationResponse:
        wish = request.container_requests[0]
        assert self.preferred is not None
        chosen = self.preferred(list(wish.available_deviceIDs), list(wish.must_include_deviceIDs), wish.allocation_size)
        answer = api_pb2.ContainerPreferredAllocationResponse(deviceIDs=chosen)
        return api_pb2.PreferredAllocationResponse(container_responses=[answer])

    async def Allocate(
        self,
        request: api_pb2.AllocateRequest,
        context: aio.ServicerContext[api_pb2.AllocateRequest, Awaitable[api_pb2.AllocateResponse]],
    ) -> api_pb2.AllocateResponse:
        assert len(request.container_requests) == 1
        self.seen.append(("Allocate", tuple(request.container_requests[0].devices_ids)))
        self.entered.set()
        await self.hold.wait()
        if self.allocate_error is not None:
            await context.abort(*self.allocate_error)
        self.answers += 1
        return api_pb2.AllocateResponse(container_responses=[] if self.empty else [self.make(self.answers)])

    async def PreStartContainer(
        self,
        request: api_pb2.PreStartContainerRequest,
        context: aio.ServicerContext[api_pb2.PreStartContainerRequest, Awaitable[api_pb2.PreStartContainerResponse]],
    ) -> api_pb2.PreStartContainerResponse:
        self.seen.append(("PreStartContainer", tuple(request.devices_ids)))
        await self.pre_start_hold.wait()
        if self.pre_start_error is not None:
            await context.abort(*self.pre_start_error)
        return api_pb2.PreStartContainerResponse()

    def _device(self, name: str) -> api_pb2.Device:
        nodes = [api_pb2.NUMANode(ID=node) for node in self.numa.get(name, ())]
        topology = api_pb2.TopologyInfo(nodes=nodes) if nodes else None
        return api_pb2.Device(ID=name, health=self.health[name], topology=topology)

    def _answer(self, number: int) -> api_pb2.ContainerAllocateResponse:
        return api_pb2.ContainerAllocateResponse(
            envs={"NUMBER": str(number)},
            mounts=[
                api_pb2.Mount(container_path="/run/vpp", host_path=str(self.plugin_dir.parent / "memif" / str(number)))
            ],
            annotations={"example.com.memif.number": str(number)},
        )
