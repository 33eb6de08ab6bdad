"""The control API's calls.

Each is translated, handed to the core, and translated back; what the core refuses becomes a status in one place.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

from grpc import StatusCode, aio
from structlog.contextvars import bound_contextvars

from adapters._pb.memif.v1 import memif_pb2, memif_pb2_grpc
from adapters.control import refusals, translate
from adapters.control.jobs import Jobs
from adapters.control.waiting import PodLookUp
from adapters.control.watching import Closing, WatchStreams
from domain.errors import MemifError
from domain.identity import PodUid
from domain.lookup import Question
from domain.ports.inbound import ListsAllocations, LooksUp, Reconciles, ReleasesPods, TellsStatus, Watches
from domain.ports.reports import Reports

Context: TypeAlias = aio.ServicerContext[Any, Any]
T = TypeVar("T")

LONGEST_NAME: Final = 253
"""Characters of a name in Kubernetes."""

LONGEST_WAIT: Final = 3600.0
"""Seconds; who waits longer asks again."""

_BEFORE_THE_DEADLINE: Final = 0.3
"""Seconds before a client's own deadline at which it is told that it takes longer: a deadline gives no reason."""


class Door(StrEnum):
    """Through which socket a call came in."""

    CONTROL = "control"
    """Root's: everything is allowed."""
    AGENT = "agent"
    """A dataplane agent's: looking, with secrets, and telling that a pod is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """What the calls lead to."""

    look_up: LooksUp
    list_allocations: ListsAllocations
    watch: Watches
    release_pod: ReleasesPods
    reconciler: Reconciles
    status: TellsStatus


class MemifService(memif_pb2_grpc.MemifServicer):
    """The service behind one socket.

    Args:
        jobs: shared by all sockets, so that a pod is looked up once at a time.
        streams: the watches of all sockets.
    """

    def __init__(self, *, core: Core, door: Door, jobs: Jobs, streams: WatchStreams, reports: Reports) -> None:
        self._core = core
        self._door = door
        self._jobs = jobs
        self._reports = reports
        self._streams = streams
        self._pods = PodLookUp(look_up=core.look_up, watches=core.watch, jobs=jobs)

    async def GetPod(  # noqa: N802 -- the protocol's name
        self, request: memif_pb2.GetPodRequest, context: Context
    ) -> memif_pb2.GetPodResponse:
        """Tell what a pod was given."""
        question = await self._question(request, context)
        within = _patience(context)
        wait = min(request.wait.seconds + request.wait.nanos * 1e-9, LONGEST_WAIT if within is None else within)
        found = await self._guarded("GetPod", context, lambda: self._pods(question, wait=wait, within=within))
        return translate.pod(found, secrets=request.with_secrets)

    async def ListAllocations(  # noqa: N802
        self, request: memif_pb2.ListAllocationsRequest, context: Context
    ) -> memif_pb2.ListAllocationsResponse:
        """Tell every allocation."""

        async def listed() -> memif_pb2.ListAllocationsResponse:
            return translate.allocations(self._core.list_allocations(), secrets=request.with_secrets)

        return await self._guarded("ListAllocations", context, listed)

    async def Watch(  # noqa: N802
        self, request: memif_pb2.WatchRequest, context: Context
    ) -> AsyncIterator[memif_pb2.WatchResponse]:
        """Tell what happens, as it happens."""
        try:
            async for message in self._streams.follow(request):
                yield message
        except Closing as closing:
            await context.abort(StatusCode.UNAVAILABLE, str(closing))

    async def ReleasePod(  # noqa: N802
        self, request: memif_pb2.ReleasePodRequest, context: Context
    ) -> memif_pb2.ReleasePodResponse:
        """Let what a pod holds go, by the rule or by force."""
        question = await self._question(request, context)
        if request.force:
            await self._root_only(context, "ReleasePod with force")
        act = self._core.release_pod.force if request.force else self._core.release_pod
        reason = f"{'forced' if request.force else 'reported gone'} through the {self._door} socket"

        async def released() -> tuple[str, ...]:
            names = await act(question, reason=reason)
            self._changed(
                "a pod was released by force" if request.force else "a pod was released on request",
                namespace=question.namespace,
                name=question.name,
                uid=question.uid,
                allocations=list(names),
            )
            return names

        key = ("release", question, request.force)
        names = await self._guarded(
            "ReleasePod", context, lambda: self._jobs.run(key, released, within=_patience(context))
        )
        return memif_pb2.ReleasePodResponse(released=names)

    async def Reconcile(  # noqa: N802
        self, request: memif_pb2.ReconcileRequest, context: Context
    ) -> memif_pb2.ReconcileResponse:
        """Run the resync rules now."""
        await self._root_only(context, "Reconcile")

        async def reconciled() -> memif_pb2.ReconcileResponse:
            if not request.dry_run:
                self._changed("a reconcile was asked for")
            done = await self._core.reconciler.once(dry_run=request.dry_run)
            return translate.outcome(done, dry_run=request.dry_run)

        key = ("reconcile", request.dry_run)
        return await self._guarded(
            "Reconcile", context, lambda: self._jobs.run(key, reconciled, within=_patience(context))
        )

    async def GetStatus(  # noqa: N802
        self, request: memif_pb2.GetStatusRequest, context: Context
    ) -> memif_pb2.GetStatusResponse:
        """Tell how the daemon is."""
        del request

        async def told() -> memif_pb2.GetStatusResponse:
            return translate.overview(self._core.status())

        return await self._guarded("GetStatus", context, told)

    async def _question(
        self, request: memif_pb2.GetPodRequest | memif_pb2.ReleasePodRequest, context: Context
    ) -> Question:
        """Return whose memif is meant, or refuse what can be nobody's."""
        for field, text in (("namespace", request.namespace), ("name", request.name)):
            if not text or len(text) > LONGEST_NAME:
                await context.abort(
                    StatusCode.INVALID_ARGUMENT, f"{field} must have 1 to {LONGEST_NAME} characters, not {len(text)}"
                )
        if len(request.uid) > LONGEST_NAME:
            await context.abort(StatusCode.INVALID_ARGUMENT, f"uid must have at most {LONGEST_NAME} characters")
        return Question(
            namespace=request.namespace, name=request.name, uid=PodUid(request.uid) if request.uid else None
        )

    async def _root_only(self, context: Context, call: str) -> None:
        if self._door is not Door.CONTROL:
            await context.abort(
                StatusCode.PERMISSION_DENIED, f"{call} is not allowed on the agent socket; use the control socket"
            )

    def _changed(self, event: str, **facts: object) -> None:
        """Say that something changed because a client wanted it, and through which socket."""
        self._reports.note(event, socket=self._door.value, **facts)

    async def _guarded(self, call: str, context: Context, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the core, and refuse the call with the status of what it raises; all that is logged of it has one id."""
        with bound_contextvars(request=secrets.token_hex(4)):
            return await self._asked(call, context, ask)

    async def _asked(self, call: str, context: Context, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await ask()
        except asyncio.CancelledError:
            raise
        except MemifError as error:
            code, text, reason = refusals.refusal(error)
            await context.abort(code, text, trailing_metadata=refusals.details(code, text, reason))
        except Exception as error:  # noqa: BLE001 -- the last door: gRPC would send the text of anything to the client
            self._reports.warn(
                "a call of the control API failed",
                call=call,
                socket=self._door.value,
                fault=type(error).__name__,
                reason=str(error),
            )
            await context.abort(StatusCode.INTERNAL, refusals.UNFORESEEN)
        raise AssertionError("abort never returns")


def _patience(context: Context) -> float | None:
    """Return how long the client may be kept waiting, ``None`` if it set no deadline."""
    left = context.time_remaining()
    return None if left is None else max(0.0, left - _BEFORE_THE_DEADLINE)
