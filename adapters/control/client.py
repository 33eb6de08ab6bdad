"""The command line's end of the control API."""

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, NoReturn, TypeVar

from grpc import StatusCode, aio

from adapters._pb.memif.v1 import memif_pb2, memif_pb2_grpc
from adapters.control import refusals, shapes
from adapters.control.channel import target
from adapters.control.shapes import Shape
from domain.errors import MemifError

DEADLINE: Final = 3.0
"""Seconds for one answer; a command whose daemon hangs is over in less than five."""

UNREACHABLE: Final = "UNREACHABLE"

_CONNECT: Final = 1.0
"""Seconds in which a socket takes a connection."""

_LIFE_SIGN: Final = 2_000
"""Milliseconds without a message after which a watched daemon is asked whether it lives, and given to say so."""

_NO_LIFE_SIGN: Final = re.compile(r"\b(ping|keepalive)\b")
"""In gRPC's words for a peer that does not say that it lives."""

_LARGEST: Final = 256 * 1024 * 1024
"""Bytes; a full node has many allocations."""

T = TypeVar("T")


class Failed(MemifError):
    """What was asked for was not had.

    Attributes:
        reason: one of the API's reasons, or UNREACHABLE.
    """

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


class ControlClient:
    """Asks a daemon, one connection a question; answers come in the JSON shapes of the command line.

    Every method raises :class:`Failed`.
    """

    def __init__(self, path: str, *, deadline: float = DEADLINE) -> None:
        self._path = path
        self._deadline = deadline

    async def status(self) -> Shape:
        """Return how the daemon is."""
        request = memif_pb2.GetStatusRequest()
        return shapes.status(await self._ask(lambda stub: stub.GetStatus(request, timeout=self._deadline)))

    async def pod(self, namespace: str, name: str, uid: str | None, *, wait: float, secrets: bool) -> Shape:
        """Return what a pod was given, waiting up to so many seconds for it."""
        request = memif_pb2.GetPodRequest(namespace=namespace, name=name, uid=uid or "", with_secrets=secrets)
        request.wait.FromMilliseconds(int(wait * 1000))
        return shapes.pod(await self._ask(lambda stub: stub.GetPod(request, timeout=wait + self._deadline)))

    async def allocations(self) -> list[Shape]:
        """Return every allocation."""
        request = memif_pb2.ListAllocationsRequest()
        answer = await self._ask(lambda stub: stub.ListAllocations(request, timeout=self._deadline))
        return [shapes.allocation(each) for each in answer.allocations]

    async def release(self, namespace: str, name: str, uid: str | None, *, force: bool) -> list[str]:
        """Say that a pod is gone, and return the allocations that are gone too."""
        request = memif_pb2.ReleasePodRequest(namespace=namespace, name=name, uid=uid or "", force=force)
        answer = await self._ask(lambda stub: stub.ReleasePod(request, timeout=self._deadline))
        return list(answer.released)

    async def reconcile(self, *, dry_run: bool) -> Shape:
        """Run the resync rules."""
        request = memif_pb2.ReconcileRequest(dry_run=dry_run)
        return shapes.reconcile(await self._ask(lambda stub: stub.Reconcile(request, timeout=self._deadline)))

    async def watch(self) -> AsyncIterator[Shape]:
        """Yield what happens until the daemon ends the stream; one that hangs is noticed."""
        self._knock()
        async with self._channel() as channel:
            call = memif_pb2_grpc.MemifStub(channel).Watch(memif_pb2.WatchRequest())
            try:
                # Only the first message is due: before it, gRPC waits for a connection much longer than we do.
                async with asyncio.timeout(self._deadline):
                    message = await call.read()
                while isinstance(message, memif_pb2.WatchResponse):
                    yield shapes.event(message)
                    message = await call.read()
            except TimeoutError as error:
                raise Failed(self._hung(), UNREACHABLE) from error
            except aio.AioRpcError as error:
                self._explain(error)
            if message is not aio.EOF:
                raise self._stranger()

    async def _ask(self, ask: Callable[[memif_pb2_grpc.MemifStub], Awaitable[T]]) -> T:
        self._knock()
        async with self._channel() as channel:
            try:
                answer = await ask(memif_pb2_grpc.MemifStub(channel))
            except aio.AioRpcError as error:
                self._explain(error)
        if answer is None:  # what gRPC makes of an answer that it cannot decode
            raise self._stranger()
        return answer

    def _knock(self) -> None:
        """See whether somebody listens at all: gRPC's own words for that help nobody.

        Raises:
            Failed: nobody does, or we may not ask.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_CONNECT)
            try:
                probe.connect(self._path)
            except FileNotFoundError as error:
                raise Failed(
                    f"no daemon answers: there is no socket {self._path}; is the daemon running on this node, and is "
                    "this its control.socket?",
                    UNREACHABLE,
                ) from error
            except ConnectionRefusedError as error:
                raise Failed(
                    f"no daemon answers: nobody listens on {self._path}; the daemon is not running", UNREACHABLE
                ) from error
            except PermissionError as error:
                raise Failed(
                    f"no permission to connect to {self._path}; run as root, or use the agent socket as a member of "
                    "its group",
                    UNREACHABLE,
                ) from error
            except (TimeoutError, BlockingIOError) as error:
                raise Failed(self._hung(), UNREACHABLE) from error
            except OSError as error:
                text = os.strerror(error.errno) if error.errno else str(error)
                raise Failed(f"cannot connect to {self._path}: {text}", UNREACHABLE) from error

    def _channel(self) -> aio.Channel:
        return aio.insecure_channel(
            target(self._path),
            options=(
                ("grpc.max_receive_message_length", _LARGEST),
                ("grpc.enable_http_proxy", 0),
                ("grpc.keepalive_time_ms", _LIFE_SIGN),
                ("grpc.keepalive_timeout_ms", _LIFE_SIGN),
                ("grpc.http2.ping_timeout_ms", _LIFE_SIGN),
                ("grpc.http2.max_pings_without_data", 0),
            ),
        )

    def _explain(self, error: aio.AioRpcError) -> NoReturn:
        """Raise what a failed call means."""
        text = error.details() or "no text"
        reason = refusals.reason_in(error.trailing_metadata())
        if reason is not None:
            raise Failed(text, reason) from error
        raise Failed(self._unreachable(error.code(), text), UNREACHABLE) from error

    def _unreachable(self, code: StatusCode, text: str) -> str:
        match code:
            case StatusCode.DEADLINE_EXCEEDED:
                return self._hung()
            case StatusCode.UNIMPLEMENTED:
                return (
                    f"the daemon at {self._path} does not know this call; it is of another version, so use the "
                    "command of its own version"
                )
            case StatusCode.UNAVAILABLE if _NO_LIFE_SIGN.search(text):
                return self._hung()
            case StatusCode.UNAVAILABLE:
                return f"the daemon at {self._path} does not answer: {text}"
            case _:
                return f"the daemon at {self._path} refuses: {text}"

    def _stranger(self) -> Failed:
        return Failed(f"what answers at {self._path} does not speak memif.v1; is it another program?", UNREACHABLE)

    def _hung(self) -> str:
        return f"the daemon at {self._path} does not answer in time; it hangs or is stopped"
