"""How a question is put to containerd."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from adapters.containerd.errors import not_understood

if TYPE_CHECKING:
    from adapters.containerd.api import Api, Method

LARGEST_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes; the most that containerd sends, unless it is told otherwise."""

_NAMESPACE: Final = "containerd-namespace"
"""The header that says whose containers are meant."""


class Conversation:
    """Questions over one connection.

    Answers are decoded here and not by gRPC, which would log what it cannot decode and go on without it.

    Args:
        opened: the connection.
        api: what there is to ask.
        path: containerd's socket, for messages.
        namespace: containerd's, not Kubernetes'.
    """

    def __init__(self, opened: grpc.aio.Channel, *, api: "Api", path: str, namespace: str) -> None:
        self._channel = opened
        self._api = api
        self._path = path
        self._metadata = grpc.aio.Metadata((_NAMESPACE, namespace))

    async def containers(self, *, besides: Collection[str] = ()) -> AsyncGenerator[Any]:
        """Yield every container but those of some ids.

        One a message: all in one could be more than a message may have, and tenants decide how large their
        environments are.
        """
        # Conditions with commas between them must all hold; what does not match is not sent.
        filters = [",".join(f'id!="{each}"' for each in besides)] if besides else []
        stream = self._api.list_stream
        some = False
        try:
            async for raw in self._parts(stream, filters=filters):
                some = True
                yield self._message(stream.answer, raw).container
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED or some:
                raise
        else:
            return
        for container in (await self._ask(self._api.list_at_once, filters=filters)).containers:
            yield container

    async def tasks(self) -> dict[str, int]:
        """Return the status of every container's first process, by the container's id."""
        answer = await self._ask(self._api.list_tasks)
        return {task.container_id or task.id: task.status for task in answer.tasks}

    async def version(self) -> str:
        """Return containerd's version, in its own words."""
        return str((await self._ask(self._api.version)).version)

    def events(self, *filters: str) -> AsyncGenerator[tuple[str, Any]]:
        """Subscribe, and return an iterator over topics and events; the event is ``None`` if it is of an unknown kind.

        The question is under way when this returns, so that the answer to a later one shows that it has arrived.
        """
        return self._events(self._parts(self._api.subscribe, filters=filters))

    async def _events(self, envelopes: AsyncIterable[bytes]) -> AsyncGenerator[tuple[str, Any]]:
        async for raw in envelopes:
            envelope = self._message(self._api.subscribe.answer, raw)
            kind = self._api.events.get(envelope.topic)
            yield envelope.topic, None if kind is None else self._message(kind, envelope.event.value)

    async def _ask(self, method: "Method", **fields: object) -> Any:
        ask: grpc.aio.UnaryUnaryMultiCallable[Any, bytes] = self._channel.unary_unary(
            method.path, request_serializer=method.request.SerializeToString
        )
        return self._message(method.answer, await ask(method.request(**fields), metadata=self._metadata))

    def _parts(self, method: "Method", **fields: object) -> AsyncIterable[bytes]:
        ask: grpc.aio.UnaryStreamMultiCallable[Any, bytes] = self._channel.unary_stream(
            method.path, request_serializer=method.request.SerializeToString
        )
        return ask(method.request(**fields), metadata=self._metadata)

    def _message(self, kind: type[Any], raw: bytes) -> Any:
        try:
            return kind.FromString(raw)
        except DecodeError as error:
            raise not_understood(self._path) from error


@asynccontextmanager
async def channel(path: str) -> AsyncIterator[grpc.aio.Channel]:
    """Open a channel to a Unix socket.

    One a use: a channel that outlives a restart of containerd reconnects only after a back-off, and one that several
    calls share takes them all down when it is closed.
    """
    opened = grpc.aio.insecure_channel(
        f"unix:{quote(path)}",  # a URI, in which "#", "%" and "?" would mean something else
        options=(
            ("grpc.max_receive_message_length", LARGEST_MESSAGE),
            # Otherwise identical channels share a connection, with the back-off of its last failure.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
        ),
    )
    try:
        yield opened
    finally:
        await opened.close()
