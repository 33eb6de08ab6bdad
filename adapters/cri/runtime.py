"""The container runtime behind the CRI."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Final

import grpc.aio

from adapters._pb.cri.runtime.v1 import api_pb2, api_pb2_grpc
from adapters.cri import translate
from adapters.cri.changes import Changes
from adapters.cri.channel import channel
from adapters.cri.errors import mapped, understood
from adapters.cri.known import KnownContainers, KnownSandboxes
from domain.evidence import RuntimeView
from domain.ports.clock import Clock
from domain.ports.runtime import RuntimeIdentity

DEADLINE: Final = 10.0
"""Seconds for one reading.  A runtime answers from memory; one that takes longer is in trouble."""

POLL: Final = 10.0
"""Seconds between two looks of a feed at a runtime without events: often enough that a socket is cleaned up soon after
its pod has gone, and rarely enough to cost nothing."""


class CriRuntime:
    """Reads a runtime by its CRI; keeps the port :class:`domain.ports.runtime.ContainerRuntime`.

    One reading is one list of the sandboxes and one of the containers.  The lists show no mounts, so a container that
    carries annotations of a pool is asked for besides, once in its life.

    Args:
        endpoint: path of the runtime's Unix socket, with ``unix://`` before it or without.
        prefixes: the annotation prefixes of the pools.
        clock: tells when a reading began.
        deadline: seconds for one reading.
        poll: seconds between two looks of a feed where the runtime has no events.
    """

    def __init__(
        self, *, endpoint: str, prefixes: tuple[str, ...], clock: Clock, deadline: float = DEADLINE, poll: float = POLL
    ) -> None:
        self._endpoint = endpoint.removeprefix("unix://")
        self._clock = clock
        self._deadline = deadline
        self._poll = poll
        below = tuple(f"{prefix}." for prefix in prefixes)
        self._sandboxes = KnownSandboxes(below)
        self._containers = KnownContainers(below)
        self._feeds: set[grpc.aio.Channel] = set()

    async def snapshot(self) -> RuntimeView:
        """Return everything that exists."""
        began = self._clock.monotonic()
        async with self._asking() as stub:
            sandboxes = understood(self._endpoint, await stub.ListPodSandbox(api_pb2.ListPodSandboxRequest())).items
            listed = understood(self._endpoint, await stub.ListContainers(api_pb2.ListContainersRequest())).containers
            # At most half of the time: without the mounts a reading is still complete.
            containers = await self._containers.of(stub, listed, budget=self._deadline / 2)
        return RuntimeView(began=began, objects=(*self._sandboxes.of(sandboxes), *containers))

    async def identity(self) -> RuntimeIdentity:
        """Return which runtime answers now."""
        async with self._asking() as stub:
            answer = await stub.Version(api_pb2.VersionRequest())
        return translate.identity(understood(self._endpoint, answer))

    async def changes(self) -> AsyncGenerator[None]:
        """Yield whenever something may have changed; see :mod:`adapters.cri.changes`."""
        async with channel(self._endpoint) as opened:
            self._feeds.add(opened)
            try:
                stub = api_pb2_grpc.RuntimeServiceStub(opened)
                feed = Changes(stub, path=self._endpoint, deadline=self._deadline, poll=self._poll)
                async with aclosing(feed.hints()) as hints:
                    async for _ in hints:
                        yield
            finally:
                self._feeds.discard(opened)

    async def aclose(self) -> None:
        """Break the feeds; a reading closes its connection itself."""
        for opened in tuple(self._feeds):
            await opened.close()

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[api_pb2_grpc.RuntimeServiceStub]:
        """Open a connection for some questions, which together have the deadline."""
        async with channel(self._endpoint) as opened:
            with mapped(self._endpoint, self._deadline):
                async with asyncio.timeout(self._deadline):
                    yield api_pb2_grpc.RuntimeServiceStub(opened)
