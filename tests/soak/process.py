"""A long life of the daemon as a process of its own, whose memory is nobody else's."""

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

import grpc

from adapters._pb.memif.v1 import memif_pb2
from tests.e2e.cuts import reconciled
from tests.e2e.daemon import PATIENCE, RESOURCE, Daemon, Stand, soon
from tests.e2e.node_cri import NodeCri
from tests.integration.control import client
from tests.integration.tenants import Tenants

WARM_UP: Final = 100
"""Restarts after which memory is looked at: allocators take their time to find their level."""

CALM: Final = 60.0
"""Seconds of real time that gRPC is given to end connections that it does not use any more."""

MOST_POOLED: Final = 16
"""Threads that gRPC's pool keeps at most when it has nothing to do."""

_POOLED: Final = "event_engine"
"""What the kernel is told of the threads of gRPC's pool."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds, as the kernel tells.

    Attributes:
        threads: all but those of gRPC's pool, which takes one more when it is busy and lets it go when it likes.
        pool: those, which is no part of a comparison.
    """

    descriptors: int
    threads: int
    pool: int = field(compare=False)


@dataclass(slots=True)
class Lived:
    """What a life was like.

    Attributes:
        before: what was held after the first restarts, when no pod was there.
        after: what is held at the end, in the same circumstances.
        left: the allocations that are in the journal at the end.
        memory: resident memory after each restart, in KiB.
    """

    before: Held
    after: Held
    left: set[str]
    pods: int
    failures: int
    memory: list[int] = field(default_factory=list)

    @property
    def slope(self) -> float:
        """KiB of resident memory that a restart with its pods costs, after the first restarts, but for one step.

        Once in a long life CPython makes its table of interned strings a megabyte larger: pathlib interns the names of
        files, inotify tells a new one at every turn, and the table is rebuilt when enough of them have come and gone.
        It happens once, as the number of strings that live stays the same, and is no slope.
        """
        values = self.memory[WARM_UP:]
        steps = [after - before for before, after in pairwise(values)]
        largest = max(steps)
        place = steps.index(largest) + 1
        return slope(values[:place] + [each - largest for each in values[place:]])

    def __str__(self) -> str:
        return (
            f"{len(self.memory)} restarts of the kubelet, {self.pods} pods, {self.failures} failures; "
            f"before: {self.before}; after: {self.after}; "
            f"memory at the start, after {WARM_UP} restarts, at the end: "
            f"{self.memory[0]}, {self.memory[WARM_UP]}, {self.memory[-1]} KiB; "
            f"{self.slope:+.2f} KiB a restart, one step aside"
        )


class LongLife:
    """One process, many lives of the kubelet.

    Args:
        stand: with a kubelet, and without a daemon.
        runtime: what the daemon reads the node's pods from.
        seed: of what happens; how it meets the process is up to the machine.
        pods: how many come in a restart, on the average.
    """

    def __init__(self, stand: Stand, runtime: NodeCri, *, seed: int, pods: int) -> None:
        self._stand = stand
        self._runtime = runtime
        self._chance = Random(seed)
        self._pods = pods
        self._tenants = Tenants(stand.node, self._chance)
        self._failures = 0

    async def live(self, restarts: int) -> Lived:
        """Live for so many restarts of the kubelet."""
        daemon = await self._stand.registered()
        memory: list[int] = []
        for _ in range(WARM_UP):
            await self._round(daemon)
            memory.append(resident(daemon.process.pid))
        before = await self._calm(daemon, 0.1 * CALM)
        for _ in range(restarts - WARM_UP):
            await self._round(daemon)
            memory.append(resident(daemon.process.pid))
        after = await self._calm(daemon, CALM, like=before)
        assert await daemon.stop() == 0
        return Lived(before, after, self._stand.recorded, self._tenants.came, self._failures, memory)

    async def _round(self, daemon: Daemon) -> None:
        """Let pods come and go, something fail, and the kubelet be restarted; look at what runs."""
        for _ in range(self._chance.randrange(2 * self._pods + 1)):
            await self._tenants.turn()
        await self._failure(daemon)
        times = self._registrations(daemon)
        await self._stand.node.restart_kubelet()
        await self._registered(daemon, times)
        if self._runtime.faults:
            self._runtime.faults.clear()
        await self._tenants.run()
        self._tenants.check()
        await soon(lambda: self._tenants.mounted <= self._stand.directories)
        self._stand.node.calls.clear()
        daemon.lines.clear()
        daemon.stderr.clear()

    async def _failure(self, daemon: Daemon) -> None:
        """Let something fail for a while."""
        self._failures += 1
        match self._chance.randrange(7):
            case 0:
                await self._runtime.stop()
                await self._runtime.start()
            case 1:
                self._runtime.faults["ListContainers"] = grpc.StatusCode.UNAVAILABLE
            case 2:
                await self._tenants.crash()
            case 3:
                self._stand.node.pod_resources_socket.unlink()
            case 4:
                times = self._registrations(daemon)
                for ours in self._stand.node.plugin_dir.glob("contiv*.sock"):
                    ours.unlink()
                await self._registered(daemon, times)
            case 5:
                shutil.rmtree(self._stand.host_dir, ignore_errors=True)  # the daemon may be removing things too
            case _:
                self._failures -= 1

    async def _registered(self, daemon: Daemon, times: int) -> None:
        await daemon.registered(times + 1)
        await self._stand.node.wait_registered(RESOURCE)

    def _registrations(self, daemon: Daemon) -> int:
        return len(daemon.said("registered with the kubelet"))

    async def _calm(self, daemon: Daemon, seconds: float, *, like: Held | None = None) -> Held:
        """Let all pods go, see that nothing is left of them, and count what is held once it changes no more."""
        await self._tenants.leave()
        await self._forgotten()
        await reconciled(self._stand)
        assert self._stand.directories == set()
        now = held(daemon.process.pid)
        for _ in range(int(seconds)):
            if now == like:
                break
            await asyncio.sleep(1)
            now = held(daemon.process.pid)
        return now

    async def _forgotten(self) -> None:
        """Wait until the daemon has no allocation any more; the kubelet forgets first, then it lets go."""
        async with asyncio.timeout(PATIENCE), client(self._stand.root / "control.sock") as asked:
            while (await asked.ListAllocations(memif_pb2.ListAllocationsRequest())).allocations:  # noqa: ASYNC110 -- no event
                await asyncio.sleep(0.2)


def held(pid: int) -> Held:
    """Count what a process holds now."""
    threads = [(each / "comm").read_text(encoding="ascii").strip() for each in Path(f"/proc/{pid}/task").iterdir()]
    pool = threads.count(_POOLED)
    descriptors = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return Held(descriptors=descriptors, threads=len(threads) - pool, pool=pool)


def resident(pid: int) -> int:
    """Return the resident memory of a process, in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def slope(values: Sequence[int]) -> float:
    """Return by how much values grow from one to the next, by least squares."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    above = sum((place - middle) * (each - mean) for place, each in enumerate(values))
    return above / sum((place - middle) ** 2 for place in range(len(values)))
