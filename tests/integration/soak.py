"""A long life of the daemon on real sockets: what it holds at the end must be what it held at the beginning.

The kubelet is restarted again and again, pods come and go in every way, and what the daemon depends on fails at
random.  Descriptors, tasks and threads are counted before and after, of daemon and kubelet double together, since
they live in one process here.
"""

import asyncio
import gc
import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from tests.integration.daemon import GRACE, INTERVAL, RESOURCE, House, Stand
from tests.integration.tenants import Tenants

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
    """

    before: Held
    after: Held
    restarts: int
    pods: int
    failures: int

    def __str__(self) -> str:
        return (
            f"{self.restarts} restarts of the kubelet, {self.pods} pods, {self.failures} failures; "
            f"before: {self.before}; after: {self.after}"
        )


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
        self._tenants = Tenants(stand.node, self._chance)
        self._failures = 0

    async def run(self, restarts: int) -> Soaked:
        """Live for so many restarts of the kubelet."""
        house = await self._stand.serve()
        for _ in range(WARM_UP):
            await self._round(house)
        before = await self._held(house)
        for _ in range(restarts - WARM_UP):
            await self._round(house)
        after = await self._held(house)
        for _ in range(int(CALM / 0.1)):
            if after == before:
                break
            await asyncio.sleep(0.1)
            after = _held()
        return Soaked(before, after, restarts, self._tenants.came, self._failures)

    async def _round(self, house: House) -> None:
        """Restart the kubelet, let pods come and go, let something fail, and look whether anything is left."""
        for _ in range(self._chance.randrange(2 * self._pods + 1)):
            await self._tenants.turn()
            if self._chance.random() < 0.2:
                await house.reconcile()
            self._stand.clock.advance(self._chance.random())
        await self._failure(house)
        await self._stand.restart_kubelet(house)
        await self._tenants.run()
        await self._settle(house)
        self._check(house)
        # What the doubles wrote down is no leak of the daemon's.
        self._stand.node.calls.clear()
        self._stand.runtime.asked.clear()
        house.heard.notes.clear()
        house.heard.warnings.clear()

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
                await self._tenants.crash()
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
        self._tenants.check()
        mounted = self._tenants.mounted
        stand = self._stand
        assert set(stand.directories) == mounted, (set(stand.directories) ^ mounted, house.heard.warnings)
        assert {each.id for each in house.live} == mounted
        assert len(house.container.state().ledger) == len(mounted)
        assert house.container.state().first_seen == {}

    async def _held(self, house: House) -> Held:
        """Count what is held when no pod is there."""
        await self._tenants.leave()
        await self._settle(house)
        self._check(house)
        gc.collect()
        return _held()


def _lists(stand: Stand) -> int:
    return sum(call.what == "list" for call in stand.node.calls)


def _held() -> Held:
    descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return Held(descriptors, len(asyncio.all_tasks()), threading.active_count())
