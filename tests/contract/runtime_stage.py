"""Where a container runtime is put to the test, and what the tests do there."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Protocol

from domain.evidence import ObjectKind, RuntimeObject
from domain.ports.clock import Clock
from domain.ports.runtime import ContainerRuntime

PREFIX = "io.contivpp.memif"
"""The annotation prefix of the pool for which a stage's runtime is made."""

ID = "bcdfghjklmnpqrstvwxz"
SECRET = "averygoodsecret4u"

PATIENCE: Final = 30.0
"""Seconds until something that is awaited counts as not coming; far beyond the deadline of any stage's runtime."""


class Stage(Protocol):
    """A runtime behind its adapter, with levers that do not go through the port.  It begins without pods.

    The adapter is made for :data:`PREFIX`, with a deadline of a second or so.
    """

    @property
    def runtime(self) -> ContainerRuntime:
        """The adapter under test, made for :data:`PREFIX`."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock that the adapter was given."""
        ...

    @property
    def kind(self) -> str:
        """What the adapter calls its runtime."""
        ...

    @property
    def host_dir(self) -> str:
        """A directory of the node whose subdirectories containers may mount; the runtime may make missing ones."""
        ...

    async def sandbox(self, uid: str, namespace: str, name: str, annotations: Mapping[str, str]) -> str:
        """Run a sandbox as the kubelet does, with the pod's own annotations; return its id."""
        ...

    async def container(
        self, sandbox: str, name: str, *, mounts: Mapping[str, str], annotations: Mapping[str, str]
    ) -> str:
        """Create a container of a sandbox, not started; ``mounts`` are host paths by container path."""
        ...

    async def start(self, container: str) -> None:
        """Start a container."""
        ...

    async def end(self, container: str) -> None:
        """Let a started container end; it still exists."""
        ...

    async def remove(self, container: str) -> None:
        """Remove a container that does not run."""
        ...

    async def cut(self) -> None:
        """Make the runtime unreachable."""
        ...

    async def hang(self) -> None:
        """Let it take connections and answer nothing."""
        ...

    async def restore(self) -> None:
        """Make it reachable again."""
        ...


def directory(stage: Stage) -> str:
    """Return the directory of an allocation."""
    return f"{stage.host_dir}/{ID}"


def claims(stage: Stage) -> dict[str, str]:
    """Return the annotations of a container that was given the directory."""
    return {
        f"{PREFIX}.socket.host": f"{directory(stage)}/memif.sock",
        f"{PREFIX}.socket.container": "/run/vpp/memif.sock",
        f"{PREFIX}.secret": SECRET,
    }


async def cnf(stage: Stage) -> str:
    """Create a container that was given the directory, in a pod of its own; return its id."""
    sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
    return await stage.container(sandbox, "a", mounts={"/run/vpp": directory(stage)}, annotations=claims(stage))


async def hint(feed: AsyncIterator[None]) -> None:
    """Wait for the next hint."""
    async with asyncio.timeout(PATIENCE):
        await anext(feed)


@asynccontextmanager
async def listening(stage: Stage) -> AsyncIterator[AsyncIterator[None]]:
    """Listen for changes; the feed is up."""
    feed = stage.runtime.changes()
    try:
        await hint(feed)
        yield feed
    finally:
        if isinstance(feed, AsyncGenerator):
            await feed.aclose()


async def containers_of(stage: Stage) -> dict[str, RuntimeObject]:
    view = await stage.runtime.snapshot()
    return {thing.id: thing for thing in view.objects if thing.kind is ObjectKind.CONTAINER}
