"""How plugins register, and what the kubelet makes of several of one name."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import grpc
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from adapters.memory.node.devices import DeviceManager
from adapters.memory.node.errors import Refused
from adapters.memory.node.plugin import PluginClient
from adapters.memory.node.trace import Trace
from domain.ports.clock import Clock
from domain.resource import InvalidResourceName, resource_name

VERSION: Final = "v1beta1"


class Plugins:
    """The store of connections by resource name.

    Its mistakes are the kubelet's: a new connection replaces an older one of its name without closing it; whichever
    stream of a name ends, the *current* connection of that name is torn down; and a registration that fails takes
    the entry of a living plugin away, so that the end of that one's stream is no longer noticed.
    """

    def __init__(
        self,
        directory: Path,
        *,
        devices: DeviceManager,
        clock: Clock,
        trace: Trace,
        dial_timeout: float,
        pre_start_deadline: float,
        on_list: Callable[[], None],
    ) -> None:
        self._directory = directory
        self._devices = devices
        self._clock = clock
        self._trace = trace
        self._dial_timeout = dial_timeout
        self._pre_start_deadline = pre_start_deadline
        self._on_list = on_list
        self._current: dict[str, PluginClient] = {}
        self._open: set[PluginClient] = set()

    async def connect(self, resource: str, endpoint: str) -> None:
        """Take a plugin in: dial it, ask for its options, watch its list from now on.

        Raises:
            Refused: it does not answer; the entry of the name is gone, whosever it was before.
        """
        client = PluginClient(
            resource,
            _joined(self._directory, endpoint),
            trace=self._trace,
            pre_start_deadline=self._pre_start_deadline,
        )
        self._current[resource] = client
        self._open.add(client)
        try:
            await client.dial(self._dial_timeout)
            options = await client.options()
        except BaseException:
            # Also when the caller gave up: its deadline ends the handshake.
            self._current.pop(resource, None)
            await self._close(client)
            raise
        self._devices.connect(resource, client, options)
        client.watching = asyncio.create_task(self._watch(client), name=f"list of {resource}")

    async def _watch(self, client: PluginClient) -> None:
        def receive(devices: Sequence[api_pb2.Device]) -> None:
            self._devices.update(client.resource, devices)
            self._on_list()

        await client.watch(receive)
        current = self._current.pop(client.resource, None)
        if current is not None:
            await self._close(current)
            self._devices.disconnect(client.resource, now=self._clock.monotonic())
        self._trace.changed()

    async def _close(self, client: PluginClient) -> None:
        self._open.discard(client)
        await client.close()

    def streams(self, resource: str) -> int:
        """Return how many ListAndWatch streams of a resource are open, forgotten ones included."""
        watching = [c.watching for c in self._open if c.resource == resource]
        return sum(task is not None and not task.done() for task in watching)

    async def close(self) -> None:
        """Drop every connection, as the end of the process does."""
        tasks = [client.watching for client in self._open if client.watching is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in self._open:
            await client.close()
        self._open.clear()
        self._current.clear()


class RegistrationServicer(api_pb2_grpc.RegistrationServicer):
    """The kubelet's registration service; every refusal has the code UNKNOWN and the kubelet's text."""

    def __init__(self, plugins: Plugins, trace: Trace) -> None:
        self._plugins = plugins
        self._trace = trace

    async def Register(  # noqa: N802 - the protocol's name
        self,
        request: api_pb2.RegisterRequest,
        context: aio.ServicerContext[api_pb2.RegisterRequest, Awaitable[api_pb2.Empty]],
    ) -> api_pb2.Empty:
        """Check version and name, dial back inside the call, and answer once the plugin's options are known."""
        try:
            _check(request)
            await self._plugins.connect(request.resource_name, request.endpoint)
        except Refused as refusal:
            self._trace.note("Register", resource=request.resource_name, answer=str(refusal))
            await context.abort(grpc.StatusCode.UNKNOWN, str(refusal))
        self._trace.note("Register", resource=request.resource_name)
        return api_pb2.Empty()


def _joined(directory: Path, endpoint: str) -> str:
    """Join without a check, so that sub-directories work and an absolute path is re-rooted."""
    return os.path.normpath(f"{directory}/{endpoint}")


def _check(request: api_pb2.RegisterRequest) -> None:
    """Refuse a version or a resource name that the kubelet refuses; the request's options are not even looked at."""
    if request.version != VERSION:
        raise Refused(
            f'requested API version "{request.version}" is not supported by kubelet. Supported version is ["{VERSION}"]'
        )
    try:
        resource_name(request.resource_name)
    except InvalidResourceName as error:
        raise Refused(f'the ResourceName "{request.resource_name}" is invalid') from error
