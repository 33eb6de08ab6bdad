"""A client of the control API, as an agent in another language would write one: nothing of our own but the protocol."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from google.rpc import error_details_pb2, status_pb2
from grpc import aio

from adapters._pb.memif.v1 import memif_pb2, memif_pb2_grpc

Watching = aio.UnaryStreamCall[memif_pb2.WatchRequest, memif_pb2.WatchResponse]


@asynccontextmanager
async def channel(path: Path) -> AsyncIterator[aio.Channel]:
    """A connection of its own."""
    async with aio.insecure_channel(f"unix:{path}", options=[("grpc.use_local_subchannel_pool", 1)]) as opened:
        yield opened


@asynccontextmanager
async def client(path: Path) -> AsyncIterator[memif_pb2_grpc.MemifStub]:
    """A client on a connection of its own."""
    async with channel(path) as opened:
        yield memif_pb2_grpc.MemifStub(opened)


def reason(error: aio.AioRpcError) -> tuple[str, str]:
    """Return reason and domain of a refusal, from google.rpc.ErrorInfo; two empty texts if it has none."""
    info = error_details_pb2.ErrorInfo()
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status_pb2.Status.FromString(value).details[0].Unpack(info)
    return info.reason, info.domain


async def told(call: Any, until: memif_pb2.EventType.ValueType) -> list[memif_pb2.WatchResponse]:
    """Read a watch up to the first message of a type."""
    found = []
    async for message in call:
        found.append(message)
        if message.type == until:
            return found
    raise AssertionError(f"the watch ended after {found}")


def types(messages: list[memif_pb2.WatchResponse]) -> list[str]:
    """Return the short names of messages' types."""
    return [memif_pb2.EventType.Name(each.type).removeprefix("EVENT_TYPE_") for each in messages]
