"""Pods that come and go while the daemon is killed at any moment."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Final

from adapters.memory.node import Pod
from domain.ledger import Standing
from tests.e2e.daemon import Stand, soon
from tests.integration.nodes import app, init, pod

MOST: Final = 5
"""Pods at a time; each has up to three devices in two containers."""

LONGEST: Final = 0.6
"""Seconds of real time after the start of a process within which it is killed; it registers after about the half."""


class Storm:
    """Lets pods come and go without a pause, and kills the daemon over and over.

    Args:
        stand: with a kubelet, and without a daemon.
        seed: of what happens and when; what of it meets what is up to the machine.
    """

    def __init__(self, stand: Stand, *, seed: int) -> None:
        self._stand = stand
        stand.pool["capacity"] = 4 * MOST
        self._chance = Random(seed)
        self._alive: list[Pod] = []
        self._given: dict[str, list[tuple[str, str]]] = {}
        self._came = 0

    async def rage(self, kills: int) -> None:
        """Kill the daemon so many times; then look whether anything is lost or left."""
        blowing = asyncio.create_task(self._blow())
        try:
            for _ in range(kills):
                daemon = await self._stand.run()
                if self._chance.random() < 0.7:
                    await daemon.registered()
                await asyncio.sleep(self._chance.random() * LONGEST)
                await daemon.kill()
                assert not blowing.done(), blowing.exception()
        finally:
            blowing.cancel()
            with suppress(asyncio.CancelledError):
                await blowing
        await self._look()

    async def _blow(self) -> None:
        """Let pods come and go for ever."""
        node, chance = self._stand.node, self._chance
        while True:
            if len(self._alive) < MOST and self._stand.node.registered(self._resource):
                self._came += 1
                containers = init("setup", 1, self._resource), app("a", chance.randrange(1, 4), self._resource)
                one = await node.admit(pod(f"pod-{self._came}", *containers))
                if one.admitted:
                    self._alive.append(one)
                    node.begin(one)
            if self._alive and chance.random() < 0.3:
                gone = self._alive.pop(chance.randrange(len(self._alive)))
                await (node.force_delete(gone) if chance.random() < 0.3 else node.delete(gone))
                if gone in node._orphans:
                    await node.finish(gone)
            self._note()
            await asyncio.sleep(0.01)

    @property
    def _resource(self) -> str:
        return str(self._stand.pool["resource"])

    def _note(self) -> None:
        """Remember what runs, and fail if a path or a secret is another one than before."""
        for one in self._alive:
            for each in one.containers:
                if each.running and each.mounts:
                    now = (each.mounts["/run/vpp"], each.env["MEMIF_SECRET"])
                    before = self._given.setdefault(f"{one.uid}/{each.name}", [now])
                    assert before == [now], f"path or secret of {one.name}/{each.name} changed"

    async def _look(self) -> None:
        """Let a last daemon come, which is not killed, and look at it and at what it leaves."""
        stand = self._stand
        daemon = await stand.registered()
        for one in self._alive:
            await stand.node.run(one)
            if one.container("a").running:
                await stand.node.restart_container(one, "a")
        self._note()
        mounted = {each.mounts["/run/vpp"].rpartition("/")[2] for one in self._alive for each in one.containers}
        assert mounted <= stand.directories
        assert all((stand.host_dir / name).stat().st_mode & 0o7777 == 0o2770 for name in mounted)
        assert await daemon.stop() == 0
        recorded = {allocation.id for allocation, standing in stand.journal().allocations if standing is Standing.LIVE}
        assert mounted <= recorded
        for one in self._alive:
            await stand.node.delete(one)
        self._alive.clear()
        daemon = await stand.registered()
        await soon(lambda: stand.directories == set())
        assert await daemon.stop() == 0
        assert stand.recorded == set()
        assert stand.sockets == set()
