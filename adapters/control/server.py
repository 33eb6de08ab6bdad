"""The sockets on which the control API is served."""

import asyncio
import os
from contextlib import AsyncExitStack
from typing import Final

from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from adapters._pb.memif.v1 import memif_pb2, memif_pb2_grpc
from adapters.control.channel import target
from adapters.control.jobs import Jobs
from adapters.control.reflection import LazyReflection
from adapters.control.service import Core, Door, MemifService
from adapters.control.sockets import ControlSocketUnusable, Place, hand_over, identity, prepare
from adapters.control.watching import WatchStreams
from domain.ports.reports import Reports

SERVICE: Final = memif_pb2.DESCRIPTOR.services_by_name["Memif"].full_name

FAREWELL: Final = 0.5
"""Seconds that calls in flight are given when the server ends; watches end at once."""

AGENT_MODE: Final = 0o660

LOOK: Final = 5.0
"""Seconds between two looks whether the sockets are still there."""

MOST_CONNECTIONS: Final = 256
"""At a time, on each socket.  Each costs a descriptor, of which the daemon needs some for its work."""

_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    # Bytes.  A request names a pod, nothing larger.
    ("grpc.max_receive_message_length", 64 * 1024),
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.max_allowed_incoming_connections", MOST_CONNECTIONS),
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
        look: seconds between two looks whether the sockets are still there.
    """

    def __init__(
        self,
        *,
        core: Core,
        reports: Reports,
        control: Place,
        agent_path: str | None = None,
        agent_group: str | int | None = None,
        look: float = LOOK,
    ) -> None:
        self._core = core
        self._reports = reports
        self._look = look
        self._places = {Door.CONTROL: control}
        if agent_path is not None:
            self._places[Door.AGENT] = Place(path=agent_path, mode=AGENT_MODE, group=agent_group)

    async def run(self) -> None:
        """Serve until cancelled; a socket whose file somebody removes is made again.

        Raises:
            ControlSocketUnusable: a socket cannot be opened at the start.
        """
        jobs, streams = Jobs(), WatchStreams(watches=self._core.watch)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(jobs.aclose)
            stack.enter_context(streams.open())
            servers = []
            for door, place in self._places.items():
                service = MemifService(core=self._core, door=door, jobs=jobs, streams=streams, reports=self._reports)
                server = _SocketServer(service, place)
                stack.push_async_callback(server.stop)
                await server.start()
                servers.append(server)
            # An open watch would burn the whole grace period of a server that is stopped under it.
            stack.callback(streams.close)
            while True:
                await asyncio.sleep(self._look)
                for server in servers:
                    if server.lost:
                        await self._open_again(server)

    async def _open_again(self, server: "_SocketServer") -> None:
        """Open a socket whose file is gone; whoever is connected has to connect again."""
        path = server.place.path
        await server.stop()
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # gRPC's wait may have swallowed it, before Python 3.12
            raise asyncio.CancelledError
        try:
            await server.start()
        except ControlSocketUnusable as error:
            self._reports.warn("a control socket is gone and cannot be made again yet", reason=str(error))
        else:
            self._reports.warn(
                "a control socket was gone and was made again",
                socket=path,
                cure="find out who removes it; a cleaner of temporary files needs an exception for its directory",
            )


class _SocketServer:
    """The service on one socket, which can be opened again after it was closed."""

    def __init__(self, service: MemifService, place: Place) -> None:
        self.place = place
        self._service = service
        self._condition = health.aio.HealthServicer()
        self._server: aio.Server | None = None
        self._identity: tuple[int, int] | None = None

    @property
    def lost(self) -> bool:
        """Whether nobody finds us any more at the path; gRPC itself never notices."""
        return self._identity is None or identity(self.place.path) != self._identity

    async def start(self) -> None:
        """Open the socket and serve on it.

        Raises:
            ControlSocketUnusable: it cannot be opened.
        """
        prepare(self.place)
        server, self._condition = aio.server(options=_OPTIONS), health.aio.HealthServicer()
        memif_pb2_grpc.add_MemifServicer_to_server(self._service, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._condition, server)
        server.add_generic_rpc_handlers((LazyReflection((SERVICE, health.SERVICE_NAME)),))
        _bind(server, self.place)
        self._server, self._identity = server, identity(self.place.path)
        await _start(server)
        await self._condition.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self) -> None:
        """End every call and close the socket; one that is closed already stays so.

        A new one is opened only afterwards: with the old one gRPC removes whatever socket has its path by then.
        """
        server, self._server, self._identity = self._server, None, None
        if server is None:
            return
        await self._condition.enter_graceful_shutdown()
        await server.stop(FAREWELL)


async def _start(server: aio.Server) -> None:
    """Start a server, even if the task is told to end meanwhile: gRPC's own loop fails if nobody waits for that."""
    starting = asyncio.ensure_future(server.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait((starting,))
        raise


def _bind(server: aio.Server, place: Place) -> None:
    """Bind with mode 0600 and only then let others in, whatever the umask was."""
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
