"""Server reflection, by which tools such as grpcurl learn the API from the daemon itself."""

from typing import Any, Final

import grpc

_PREFIX: Final = "/grpc.reflection."
_V1: Final = "grpc.reflection.v1.ServerReflection"
"""The name that newer tools try first; its messages are the same on the wire."""


class LazyReflection(grpc.GenericRpcHandler):
    """Loads reflection when somebody first asks for it.

    That takes a twentieth of a second, and memory for good; most daemons are never asked.

    Args:
        services: full names of those that are told of.
    """

    def __init__(self, services: tuple[str, ...]) -> None:
        self._services = services
        self._handlers: tuple[grpc.GenericRpcHandler, ...] = ()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """Return the handler of a call, ``None`` if it is no question about the API."""
        if not handler_call_details.method.startswith(_PREFIX):
            return None
        self._handlers = self._handlers or self._load()
        return next((found for each in self._handlers if (found := each.service(handler_call_details))), None)

    def _load(self) -> tuple[grpc.GenericRpcHandler, ...]:
        from grpc_reflection.v1alpha import reflection, reflection_pb2  # noqa: PLC0415 -- see the class's docstring

        servicer = reflection.aio.ReflectionServicer((*self._services, reflection.SERVICE_NAME))
        methods = {
            "ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(
                servicer.ServerReflectionInfo,
                request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
                response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
            )
        }
        return tuple(grpc.method_handlers_generic_handler(name, methods) for name in (reflection.SERVICE_NAME, _V1))
