"""The sockets on which the control API is served."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from adapters._pb.memif.v1 import memif_pb2, memif_pb2_grpc
from adapters.control.channel import target
from adapters.control.jobs import Jobs
from adapters.control.reflection import LazyReflection
from adapters.control.service import Core, Door, MemifService
from adapters.control.sockets import ControlSocketUnusable, Place, hand_over, prepare
from adapters.control.watching import WatchStreams
from domain.ports.reports import Reports

SERVICE: Final = memif_pb2.DESCRIPTOR.services_by_name["Memif"].full_name

FAREWELL: Final = 0.5
"""Seconds that calls in flight are given when the server ends; watches end at once."""

AGENT_MODE: Final = 0o660

_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    # Bytes.  A request names a pod, nothing larger.
    ("grpc.max_receive_message_length", 64 * 1024),
    ("grpc.max_metadata_size", 16 * 1024),
    # Each costs a descriptor, of which the daemon needs some for its work.
    ("grpc.max_allowed_incoming_connections", 256),
    ("grpc.max_concurrent_streams", 256),
    ("grpc.server_handshake_timeout_ms", 5_000),
    # A client may ask whether we live, every two seconds.
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class ControlServer:
    """Serves the control API on the control socket, and on the agent socket if there is one.

    Args:
        control: root's socket.
        agent_path: of the socket for dataplane agents, ``None`` for none.
        agent_group: who may use that one, beside root.
    """

    def __init__(
        self,
        *,
        core: Core,
        reports: Reports,
        control: Place,
        agent_path: str | None = None,
        agent_group: str | int | None = None,
    ) -> None:
        self._core = core
        self._reports = reports
        self._places = {Door.CONTROL: control}
        if agent_path is not None:
            self._places[Door.AGENT] = Place(path=agent_path, mode=AGENT_MODE, group=agent_group)

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ControlSocketUnusable: a socket cannot be opened.
        """
        jobs, streams = Jobs(), WatchStreams(watches=self._core.watch)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(jobs.aclose)
            stack.enter_context(streams.open())
            for door, place in self._places.items():
                service = MemifService(core=self._core, door=door, jobs=jobs, streams=streams, reports=self._reports)
                await stack.enter_async_context(_serving(service, place))
            # An open watch would burn the whole grace period of a server that is stopped under it.
            stack.callback(streams.close)
            await asyncio.Event().wait()


@asynccontextmanager
async def _serving(service: MemifService, place: Place) -> AsyncIterator[None]:
    condition = health.aio.HealthServicer()
    server = aio.server(options=_OPTIONS)
    memif_pb2_grpc.add_MemifServicer_to_server(service, server)
    health_pb2_grpc.add_HealthServicer_to_server(condition, server)
    server.add_generic_rpc_handlers((LazyReflection((SERVICE, health.SERVICE_NAME)),))
    _bind(server, place)
    await server.start()
    await condition.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)
    try:
        yield
    finally:
        await condition.enter_graceful_shutdown()
        await server.stop(FAREWELL)


def _bind(server: aio.Server, place: Place) -> None:
    """Bind with mode 0600 and only then let others in, whatever the umask was."""
    prepare(place)
    before = os.umask(0o177)
    try:
        server.add_insecure_port(target(place.path))
    except RuntimeError as error:
        raise ControlSocketUnusable(
            f"the control socket {place.path} cannot be opened: its directory takes no socket; its file system may "
            "be full or read-only, or we lack the right to write there"
        ) from error
    finally:
        os.umask(before)
    hand_over(place)
