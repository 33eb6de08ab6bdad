"""The one call by which a plugin makes itself known."""

import grpc.aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from adapters.kubelet.channel import channel
from adapters.kubelet.service import OPTIONS
from adapters.kubelet.translate import API_VERSION
from domain.errors import MemifError
from domain.resource import ResourceName


class Refusal(MemifError):
    """The kubelet did not accept the registration, or did not answer."""


async def register(*, socket: str, endpoint: str, resource: ResourceName, deadline: float) -> None:
    """Register an endpoint that is being served.

    Args:
        socket: path of the kubelet's registration socket.
        endpoint: base name of our socket; the kubelet joins it to its own directory.
        resource: what is served there.
        deadline: seconds; above ten, because the kubelet dials back inside the call and gives that ten.

    Raises:
        Refusal: with the kubelet's own text.
    """
    request = api_pb2.RegisterRequest(version=API_VERSION, endpoint=endpoint, resource_name=resource, options=OPTIONS)
    async with channel(socket) as opened:
        try:
            await api_pb2_grpc.RegistrationStub(opened).Register(request, timeout=deadline)
        except grpc.aio.AioRpcError as error:
            text = error.details() or error.code().name
            raise Refusal(f"the kubelet did not accept the registration: {text}") from error
