"""Daemons of other versions: servers of the control API that answer what they are told to."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc import aio

from adapters._pb.memif.v1 import memif_pb2 as memif

SERVICE: Final = "memif.v1.Memif"
WATCH: Final = "Watch"

FROM_THE_FUTURE: Final = bytes([0xC2, 0x3E, 5]) + b"later"
"""A field of number 1000 with a text, which no message has."""

UNHEARD_OF: Final = 99
"""A value that no enumeration has."""

Context = aio.ServicerContext[Any, Any]


def _later(message: Message) -> bytes:
    return message.SerializeToString() + FROM_THE_FUTURE


def _allocation() -> memif.Allocation:
    allocation = memif.Allocation(id="b" * 20, resource="contivpp.io/memif", devices=["a/1"], host_socket="/h/m.sock")
    allocation.state = UNHEARD_OF  # type: ignore[assignment]  # not of ours
    return memif.Allocation.FromString(_later(allocation))


def _event() -> memif.WatchResponse:
    event = memif.WatchResponse(instance="later", seq=1, allocation=_allocation())
    event.type = UNHEARD_OF  # type: ignore[assignment]  # not of ours
    return event


NEWER: Final[Mapping[str, bytes]] = {
    "GetStatus": _later(memif.GetStatusResponse(version="9.9", role="observer")),
    "GetPod": _later(memif.GetPodResponse(pod=memif.Pod(namespace="telco", name="cnf"), containers=[_allocation()])),
    "ListAllocations": _later(memif.ListAllocationsResponse(allocations=[_allocation()])),
    WATCH: _later(_event()),
    "ReleasePod": _later(memif.ReleasePodResponse(released=["b" * 20])),
    "Reconcile": _later(memif.ReconcileResponse(effects=[memif.Effect(effect="teleport", reason="it can")])),
}
"""Answers with fields and values that are not known yet."""

OLDER: Final[Mapping[str, bytes]] = dict.fromkeys(NEWER, b"")
"""Answers in which everything is missing that could be."""

GARBAGE: Final[Mapping[str, bytes]] = dict.fromkeys(NEWER, b"\xff\xff\xff\xff")
"""Answers that are no messages."""


@asynccontextmanager
async def serving(
    path: Path, answers: Mapping[str, bytes], *, service: str = SERVICE, refusal: str | None = None
) -> AsyncIterator[None]:
    """Serve raw answers; a call without one is not known.

    Args:
        path: of the socket.
        answers: by method.
        service: whose methods these are.
        refusal: a reason with which every call is refused instead.
    """
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        name: grpc.unary_stream_rpc_method_handler(_stream(answer, refusal))
        if name == WATCH
        else grpc.unary_unary_rpc_method_handler(_unary(answer, refusal))
        for name, answer in answers.items()
    }
    server = aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)


def _unary(answer: bytes, refusal: str | None) -> Callable[[bytes, Context], Awaitable[bytes]]:
    async def handle(_: bytes, context: Context) -> bytes:
        await _refuse(context, refusal)
        return answer

    return handle


def _stream(answer: bytes, refusal: str | None) -> Callable[[bytes, Context], AsyncIterator[bytes]]:
    async def handle(_: bytes, context: Context) -> AsyncIterator[bytes]:
        await _refuse(context, refusal)
        yield answer

    return handle


async def _refuse(context: Context, reason: str | None) -> None:
    if reason is None:
        return
    packed = any_pb2.Any()
    packed.Pack(error_details_pb2.ErrorInfo(reason=reason, domain="memif.v1"))
    code, text = grpc.StatusCode.FAILED_PRECONDITION, "it is not the season"
    status = status_pb2.Status(code=code.value[0], message=text, details=[packed])
    await context.abort(code, text, (("grpc-status-details-bin", status.SerializeToString()),))
