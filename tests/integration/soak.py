"""A long life of the daemon on real sockets: what it holds at the end must be what it held at the beginning.

The kubelet is restarted again and again, pods come and go in every way, and what the daemon depends on fails at
random.  Descriptors, tasks and threads are counted before and after, of daemon and kubelet double together, since
they live in one process here.
"""

import asyncio
import gc
import shutil
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Final

from adapters.memory.node import Pod
from tests.integration.daemon import GRACE, INTERVAL, RESOURCE, House, Stand
from tests.integration.filesystem import open_descriptors
from tests.integration.nodes import app, init, pod, sidecar

WARM_UP: Final = 5
"""Rounds after which everything that is made once has been made."""

CALM: Final = 15.0
"""Seconds of real time that gRPC is given to end what it ends a little later."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a process holds."""

    descriptors: int
    tasks: int
    threads: int


@dataclass(slots=True)
class Soaked:
    """What a soak did and found.

    Attributes:
        before: what was held after the first rounds.
        after: what is held at the end, in the same circumstances.
        memory: resident memory after each round, in KiB.
    """

    before: Held
    after: Held
    restarts: int
    pods: int
    failures: int
    memory: list[int] = field(default_factory=list)

    @property
    def slope(self) -> float:
        """KiB of resident memory that are gained in a restart, over the last four fifths, by least squares."""
        return slope(self.memory[len(self.memory) // 5 :])

    def __str__(self) -> str:
        return (
            f"{self.restarts} restarts of the kubelet, {self.pods} pods, {self.failures} failures; "
            f"before: {self.before}; after: {self.after}; from {self.memory[0]} to {self.memory[-1]} KiB, "
            f"{self.slope:+.2f} KiB a restart (daemon and kubelet double together)"
        )


def slope(values: Sequence[int]) -> float:
    """Return by how much values grow from one to the next, by least squares."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    above = sum((place - middle) * (each - mean) for place, each in enumerate(values))
    return above / sum((place - middle) ** 2 for place in range(len(values)))


class Soak:
    """One long life.

    Args:
        stand: with a kubelet, and without a daemon.
        seed: of everything that happens.
        pods: how many come in a round, on the average.
    """

    def __init__(self, stand: Stand, *, seed: int, pods: int) -> None:
        self._stand = stand
        self._chance = Random(seed)
        self._pods = pods
        self._alive: list[Pod] = []
        self._came = self._failures = 0

    async def run(self, restarts: int) -> Soaked:
        """Live for so many restarts of the kubelet."""
        house = await self._stand.serve()
        memory: list[int] = []
        for _ in range(WARM_UP):
            await self._round(house)
        before = await self._held(house)
        for _ in range(restarts - WARM_UP):
            await self._round(house)
            memory.append(_resident())
        after = await self._held(house)
        for _ in range(int(CALM / 0.1)):
            if after == before:
                break
            await asyncio.sleep(0.1)
            after = _held()
        return Soaked(before, after, restarts, self._came, self._failures, memory)

    async def _round(self, house: House) -> None:
        """Restart the kubelet, let pods come and go, let something fail, and look whether anything is left."""
        for _ in range(self._chance.randrange(2 * self._pods + 1)):
            await self._something(house)
        await self._failure(house)
        await self._stand.restart_kubelet(house)
        for each in self._alive:
            await self._stand.node.run(each)
        await self._settle(house)
        self._check(house)
        # What the doubles wrote down is no leak of the daemon's.
        self._stand.node.calls.clear()
        self._stand.runtime.asked.clear()
        house.heard.notes.clear()
        house.heard.warnings.clear()

    async def _something(self, house: House) -> None:
        node, chance = self._stand.node, self._chance
        self._came += 1
        spec = chance.choice(_SPECS)(f"pod-{self._came}")
        one = await node.admit(replace(spec, oversized=chance.random() < 0.05))
        if one.admitted:
            await node.run(one)
            self._alive.append(one)
        while self._alive and chance.random() < (0.5 if len(self._alive) < 4 else 0.9):
            gone = self._alive.pop(chance.randrange(len(self._alive)))
            match chance.randrange(4):
                case 0:
                    await node.force_delete(gone)
                    await node.finish(gone)
                case 1:
                    await node.complete(gone)
                    await node.delete(gone)
                case _:
                    await node.delete(gone)
        if self._alive and chance.random() < 0.2:
            await node.restart_container(chance.choice(self._alive), "a")
        if chance.random() < 0.2:
            await house.reconcile()
        self._stand.clock.advance(chance.random())

    async def _failure(self, house: House) -> None:
        """Let something fail for a while."""
        stand, chance = self._stand, self._chance
        self._failures += 1
        match chance.randrange(8):
            case 0:
                stand.runtime.cut()
                await self._settle(house)
                stand.runtime.restore()
            case 1:
                stand.runtime.fail_next()
                await house.reconcile()
            case 2:
                stand.node.die_after_next_answer()
                self._alive.append(await stand.node.admit(_SPECS[0](f"late-{self._failures}")))
                self._came += 1
            case 3:
                await stand.node.stop_kubelet()
                await self._settle(house)
            case 4:
                stand.node.pod_resources_socket.unlink()
                await self._settle(house)
            case 5:
                await self._lose_socket(house)
            case 6:
                shutil.rmtree(stand.host_dir)
                await house.reconcile()
            case _:
                self._failures -= 1

    async def _lose_socket(self, house: House) -> None:
        """Somebody removes the plugin's socket under the running daemon."""
        times = house.heard.noted.count("registered with the kubelet")
        (ours,) = self._stand.node.plugin_dir.glob("contiv*.sock")
        ours.unlink()
        await house.until(lambda: house.heard.noted.count("registered with the kubelet") > times)
        await self._stand.node.wait_registered(RESOURCE)

    async def _settle(self, house: House) -> None:
        """Let an interval and the grace pass twice: the kubelet forgets in the first, and the second releases."""
        for _ in range(3):
            self._stand.clock.advance(INTERVAL + GRACE)
            lists = _lists(self._stand)
            await house.reconcile()
            with suppress(TimeoutError):
                await self._stand.node.until(lambda before=lists: _lists(self._stand) > before, within=0.02)  # type: ignore[misc]  # a loop's lambda

    def _check(self, house: House) -> None:
        """Fail if something is lost or left."""
        mounted = {
            each.mounts["/run/vpp"].rpartition("/")[2] for one in self._alive for each in one.containers if each.mounts
        }
        stand = self._stand
        assert set(stand.directories) == mounted, (set(stand.directories) ^ mounted, house.heard.warnings)
        assert {each.id for each in house.live} == mounted
        assert len(house.container.state().ledger) == len(mounted)
        assert house.container.state().first_seen == {}

    async def _held(self, house: House) -> Held:
        """Count what is held when no pod is there."""
        for each in self._alive:
            await self._stand.node.delete(each)
        self._alive.clear()
        await self._settle(house)
        self._check(house)
        gc.collect()
        return _held()


_SPECS: Final = (
    lambda name: pod(name, app("a", 1, RESOURCE)),
    lambda name: pod(name, init("setup", 1, RESOURCE), app("a", 1, RESOURCE)),
    lambda name: pod(name, init("setup", 1, RESOURCE), sidecar("side", 1, RESOURCE), app("a", 1, RESOURCE)),
)


def _lists(stand: Stand) -> int:
    return sum(call.what == "list" for call in stand.node.calls)


def _held() -> Held:
    return Held(open_descriptors(), len(asyncio.all_tasks()), threading.active_count())


def _resident() -> int:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS:"))
