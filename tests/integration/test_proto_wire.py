"""The generated stub and servicer of the device plugin on a real Unix socket.

The plugin below is also the sample by which mypy shows that their types can be lived with.
"""

import tempfile
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import pytest
from grpc import aio
from typing_extensions import override

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc

# The generated servicers repeat request and answer in the type of the context. No method of it needs them.
Context: TypeAlias = aio.ServicerContext[Any, Any]


class Plugin(api_pb2_grpc.DevicePluginServicer):
    """Two devices, and an answer that repeats the question."""

    @override
    async def GetDevicePluginOptions(self, request: api_pb2.Empty, context: Context) -> api_pb2.DevicePluginOptions:
        return api_pb2.DevicePluginOptions(pre_start_required=True)

    @override
    async def ListAndWatch(
        self, request: api_pb2.Empty, context: Context
    ) -> AsyncIterator[api_pb2.ListAndWatchResponse]:
        for health in ("Healthy", "Unhealthy"):
            yield api_pb2.ListAndWatchResponse(
                devices=[api_pb2.Device(ID=device, health=health) for device in ("d0", "d1")]
            )

    @override
    async def GetPreferredAllocation(
        self, request: api_pb2.PreferredAllocationRequest, context: Context
    ) -> api_pb2.PreferredAllocationResponse:
        return api_pb2.PreferredAllocationResponse()

    @override
    async def Allocate(self, request: api_pb2.AllocateRequest, context: Context) -> api_pb2.AllocateResponse:
        return api_pb2.AllocateResponse(
            container_responses=[
                api_pb2.ContainerAllocateResponse(envs={"IDS": ",".join(container.devices_ids)})
                for container in request.container_requests
            ]
        )

    @override
    async def PreStartContainer(
        self, request: api_pb2.PreStartContainerRequest, context: Context
    ) -> api_pb2.PreStartContainerResponse:
        return api_pb2.PreStartContainerResponse()


@pytest.fixture
async def channel() -> AsyncIterator[aio.Channel]:
    """A channel to a served plugin."""
    server = aio.server()
    api_pb2_grpc.add_DevicePluginServicer_to_server(Plugin(), server)
    with tempfile.TemporaryDirectory() as directory:  # pytest's own paths can be too long for a socket
        target = f"unix://{directory}/plugin.sock"
        server.add_insecure_port(target)
        await server.start()
        async with aio.insecure_channel(target) as channel:
            yield channel
        await server.stop(grace=None)


async def test_typed_stub_and_servicer_understand_each_other(channel: aio.Channel) -> None:
    stub = api_pb2_grpc.DevicePluginStub(channel)
    request = api_pb2.AllocateRequest(container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=["d0", "d1"])])

    options = await stub.GetDevicePluginOptions(api_pb2.Empty())
    answer = await stub.Allocate(request)
    seen = [
        {device.ID: device.health for device in message.devices} async for message in stub.ListAndWatch(api_pb2.Empty())
    ]

    assert options.pre_start_required
    assert [dict(container.envs) for container in answer.container_responses] == [{"IDS": "d0,d1"}]
    assert seen == [{"d0": "Healthy", "d1": "Healthy"}, {"d0": "Unhealthy", "d1": "Unhealthy"}]


async def test_servicer_answers_bytes_that_no_generated_code_made(channel: aio.Channel) -> None:
    allocate: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/v1beta1.DevicePlugin/Allocate")

    # container_requests(1) {devices_ids(1) "d7"}
    answer = await allocate(bytes.fromhex("0a 04  0a 02 64 37"))

    # container_responses(1) {envs(1) {key(1) "IDS", value(2) "d7"}}
    assert answer.hex(" ") == "0a 0b 0a 09 0a 03 49 44 53 12 02 64 37"
