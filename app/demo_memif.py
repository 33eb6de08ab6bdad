"""The demo's scene of memif itself: a dataplane on the node and an application in the pod agree on their links.

Both ends are ours, and speak what VPP, DPDK and libmemif speak; no packet flows.
"""

import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Protocol

from adapters.memif.client import Link, connect, probe
from adapters.memif.handshake import Interface
from adapters.memif.server import MemifServer
from adapters.memory.node import Container
from domain.allocation import Allocation
from domain.secret import Secret

_WRONG: Final = Secret("somebody-elses-secret")


class Stage(Protocol):
    """Where the demo prints and checks."""

    def line(self, text: str) -> None:
        """Say something."""

    def check(self, holds: bool, text: str) -> None:  # noqa: FBT001 -- check(this, "is so") reads as it is meant
        """Say whether something is so."""


@dataclass(frozen=True, slots=True)
class Links:
    """The links of one container, seen from both ends."""

    server: MemifServer
    clients: tuple[Link, ...]

    @property
    def up(self) -> bool:
        """Whether both ends of every link are there."""
        return len(self.server.links) == len(self.clients) and all(link.up for link in self.clients)


@contextlib.asynccontextmanager
async def linked(stage: Stage, allocation: Allocation, container: Container) -> AsyncIterator[Links]:
    """Listen as the node's dataplane, connect as the pod's application; then keep the links up.

    Args:
        stage: where it is shown.
        allocation: what a dataplane agent was told, which is all that the node's end knows.
        container: what the pod was given, which is all that the pod's end knows.
    """
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(_dataplane(allocation))
        stage.line(f"it listens on {allocation.host_socket} with the secret that it looked up")
        path, secret = _in_the_pod(container), Secret(container.env["MEMIF_SECRET"])
        refused = await probe(path, secret=_WRONG)
        stage.check(
            refused.refusal == "incorrect secret",
            f"a client with another secret is turned away: {refused.hello.name} says '{refused.refusal}'",
        )
        clients = []
        for each in _ids(allocation):
            link = await stack.enter_async_context(await connect(path, interface=each, secret=secret))
            clients.append(link)
            stage.check(link.up and each in server.links, f"memif id {each} is up: {link.peer_interface} <-> pod")
        yield Links(server, tuple(clients))


@contextlib.asynccontextmanager
async def listening(allocations: Iterable[Allocation]) -> AsyncIterator[None]:
    """Listen as the node's dataplane, so that whoever probes a container's socket is answered."""
    async with contextlib.AsyncExitStack() as stack:
        for each in allocations:
            await stack.enter_async_context(_dataplane(each))
        yield


def _dataplane(allocation: Allocation) -> MemifServer:
    """Return a dataplane that offers what a container was given."""
    offered = [Interface(id=each, secret=allocation.secret, name=f"memif0/{each}") for each in _ids(allocation)]
    return MemifServer(allocation.host_socket, offered, name="demo dataplane")


def _ids(allocation: Allocation) -> range:
    return range(1, len(allocation.devices) + 1)


def _in_the_pod(container: Container) -> str:
    """Return where the container's own path leads, as the mount does for its processes."""
    socket = PurePosixPath(container.env["MEMIF_SOCKET"])
    return f"{container.mounts[str(socket.parent)]}/{socket.name}"
