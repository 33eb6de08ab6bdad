"""One gRPC server on one socket of the plugin directory."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import grpc.aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2_grpc
from adapters.kubelet.channel import target
from adapters.kubelet.feed import DeviceFeed
from adapters.kubelet.service import DevicePluginService
from domain.errors import MemifError
from domain.ports.inbound import DevicePlugin
from domain.ports.reports import Reports

FAREWELL: Final = 0.5
"""Seconds that calls in flight are given when a server ends; streams end at once."""


MOST_CONNECTIONS: Final = 32
"""At a time.  The kubelet has one; each costs a descriptor, and without one left no directory can be made."""

_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_allowed_incoming_connections", MOST_CONNECTIONS),
    # Who connects and does not go on to speak gRPC has to make room.
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.max_metadata_size", 16 * 1024),
)


class NoSocket(MemifError):
    """The plugin's socket cannot be made."""


class PluginServer:
    """A pool's server, open under a name of its own until it is left."""

    def __init__(self, *, path: str, feed: DeviceFeed) -> None:
        self.path = path
        self.feed = feed
        self._identity = _socket_identity(path)

    @property
    def endpoint(self) -> str:
        """The base name that is registered."""
        return os.path.basename(self.path)  # noqa: PTH119 -- a name, no file is touched

    @property
    def lost(self) -> bool:
        """Whether the socket is gone from the directory; gRPC itself never notices.

        A starting kubelet wipes the sockets in its directory, and to register a wiped one blocks for ten seconds.
        """
        return self._identity is None or _socket_identity(self.path) != self._identity


@asynccontextmanager
async def serving(
    *, path: str, plugin: DevicePlugin, reports: Reports, changed: Callable[[], None], interval: float
) -> AsyncIterator[PluginServer]:
    """Serve a pool on a new socket; ends its streams first and then the server.

    The order matters: an endless stream burns the whole grace period of a server that is stopped under it.

    Raises:
        NoSocket: the socket cannot be made there.
    """
    feed = DeviceFeed(changed=changed, interval=interval)
    server = grpc.aio.server(options=_OPTIONS)
    api_pb2_grpc.add_DevicePluginServicer_to_server(
        DevicePluginService(plugin=plugin, feed=feed, reports=reports), server
    )
    _bind(server, path)
    try:
        await _start(server)
        yield PluginServer(path=path, feed=feed)
    finally:
        feed.close()
        await server.stop(FAREWELL)
        _stay_cancelled()


async def _start(server: grpc.aio.Server) -> None:
    """Start a server, even if the task is told to end meanwhile: gRPC's own loop fails if nobody waits for that."""
    starting = asyncio.ensure_future(server.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait((starting,))
        raise


def _stay_cancelled() -> None:
    """End a task that was told to end while its server did.

    gRPC waits with :func:`asyncio.wait_for`, which before Python 3.12 loses a cancellation that comes in the moment in
    which the wait is over; a session would go on for ever, and the daemon would not stop.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _bind(server: grpc.aio.Server, path: str) -> None:
    """Bind with mode 0600: nobody but the kubelet, which is root, has business there."""
    if not os.path.isdir(os.path.dirname(path)):  # noqa: PTH112, PTH120 -- gRPC itself would say so on stderr each time
        raise NoSocket(_obstacle(path))
    before = os.umask(0o177)
    try:
        server.add_insecure_port(target(path))
    except RuntimeError as error:
        raise NoSocket(_obstacle(path)) from error
    finally:
        os.umask(before)


def _obstacle(path: str) -> str:
    """Say what gRPC hides: why a socket could not be made in a directory.

    The name, which is another one each time, is left out: the same trouble must have the same words.
    """
    directory = os.path.dirname(path)  # noqa: PTH120
    if not os.path.isdir(directory):  # noqa: PTH112
        return f"there is no directory {directory}; the kubelet makes it when it starts"
    if not os.access(directory, os.W_OK | os.X_OK):
        return f"no permission to write in {directory}; run as root{selinux_hint()}"
    size = len(path.encode())
    return f"{directory} takes no socket: its file system is full or read-only, or a path of {size} bytes is too long"


def selinux_hint() -> str:
    """Return where else to look when permission is denied on a node with SELinux."""
    if os.path.isdir("/sys/fs/selinux"):  # noqa: PTH112
        return ", and look for AVC denials (ausearch -m avc): the plugin needs the type container_device_plugin_t"
    return ""


def _socket_identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISSOCK(status.st_mode) else None
