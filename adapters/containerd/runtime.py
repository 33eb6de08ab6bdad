"""containerd as a container runtime."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final

import grpc.aio

from adapters.containerd.conversation import Conversation, channel
from adapters.containerd.errors import mapped
from adapters.containerd.feed import Feed
from adapters.containerd.records import Reading, Records
from domain.evidence import RuntimeView
from domain.ports.clock import Clock
from domain.ports.runtime import RuntimeIdentity, RuntimeUnavailable

if TYPE_CHECKING:
    from adapters.containerd.api import Api

DEADLINE: Final = 10.0
"""Seconds for one reading.  To list tasks containerd asks every shim, and gives one that hangs up after two."""

_SCHEME: Final = "unix://"


class ContainerdRuntime:
    """Reads containerd by its own API; keeps the port :class:`domain.ports.runtime.PartlyReadable`.

    One reading is one list of the containers, then one of the tasks.  A container without a task has ended, or has not
    been started yet: the latter is known only of those that were made while somebody listened for changes.

    A sandbox that is no container, as a sandbox controller of containerd 2 may keep it (for virtual machines), does
    not show; its containers do.

    Args:
        endpoint: containerd's socket, as a path or as ``unix:///path``.
        namespace: containerd's, in which the kubelet's containers are.
        prefixes: the pools' annotation prefixes; other annotations are left out.
        clock: tells when a reading began.
        deadline: seconds for one reading.

    Raises:
        ValueError: the endpoint is no Unix socket.
    """

    def __init__(
        self,
        *,
        endpoint: str,
        prefixes: tuple[str, ...],
        clock: Clock,
        namespace: str = "k8s.io",
        deadline: float = DEADLINE,
    ) -> None:
        self._path = endpoint.removeprefix(_SCHEME)
        if not self._path.startswith("/"):
            raise ValueError(f"{endpoint} is no Unix socket: write {_SCHEME}/path")
        self._namespace = namespace
        self._records = Records(prefixes)
        self._clock = clock
        self._deadline = deadline
        self._feeds: dict[Feed, grpc.aio.Channel] = {}

    async def snapshot(self) -> RuntimeView:
        """Return everything that exists."""
        reading = self._records.reading()
        view = await self._read(reading)
        self._records.remember(reading)
        return view

    async def besides(self, ids: Collection[str]) -> RuntimeView:
        """Return everything that exists but the objects of these ids."""
        return await self._read(self._records.reading(), besides=ids)

    async def _read(self, reading: Reading, *, besides: Collection[str] = ()) -> RuntimeView:
        began = self._clock.monotonic()
        async with self._asking() as conversation:
            async with aclosing(conversation.containers(besides=besides)) as containers:
                async for each in containers:
                    reading.add(each)
            tasks = await conversation.tasks()
        objects = reading.objects(tasks, frozenset().union(*(feed.waiting for feed in self._feeds)))
        return RuntimeView(began=began, objects=objects)

    async def identity(self) -> RuntimeIdentity:
        """Return which containerd answers now."""
        async with self._asking() as conversation:
            return RuntimeIdentity(kind="containerd", version=await conversation.version())

    async def changes(self) -> AsyncGenerator[None]:
        """Yield whenever something may have changed."""
        api = await _api()
        feed = Feed(path=self._path, namespace=self._namespace, deadline=self._deadline)
        async with channel(self._path) as opened:
            self._feeds[feed] = opened
            try:
                async with aclosing(feed.hints(self._conversation(opened, api))) as hints:
                    async for _ in hints:
                        yield
            finally:
                del self._feeds[feed]

    async def aclose(self) -> None:
        """Break the feeds; a reading closes its connection itself."""
        for opened in tuple(self._feeds.values()):
            await opened.close()

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[Conversation]:
        """Open a connection for some questions, which together have the deadline."""
        async with channel(self._path) as opened:
            with mapped(self._path, self._deadline):
                async with asyncio.timeout(self._deadline):
                    yield self._conversation(opened, await _api())

    def _conversation(self, opened: grpc.aio.Channel, api: "Api") -> Conversation:
        return Conversation(opened, api=api, path=self._path, namespace=self._namespace)


async def _api() -> "Api":
    """Return what there is to ask; it is loaded in a thread, because nothing may hold the loop up for so long.

    Raises:
        RuntimeUnavailable: what describes it is not as expected.
    """
    return await asyncio.to_thread(_load)


def _load() -> "Api":
    # These take longer to import than all else here, and nothing slow may come before registering.
    from adapters.containerd.api import load  # noqa: PLC0415 -- as said
    from adapters.containerd.descriptors import PackageNotUnderstood  # noqa: PLC0415 -- as said

    try:
        return load()
    except PackageNotUnderstood as error:
        raise RuntimeUnavailable(str(error)) from error
