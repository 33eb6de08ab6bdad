"""Pods that come and go in every way, for lives that are too long to be written down."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from adapters.memory.node import Container, EmbeddedNode, Pod
from tests.integration.daemon import RESOURCE
from tests.integration.nodes import app, init, pod, sidecar

MOST: Final = 4
"""Pods at a time, more or less."""

_MOUNTED_AT: Final = "/run/vpp"

_SPECS: Final = (
    lambda name: pod(name, app("a", 1, RESOURCE)),
    lambda name: pod(name, init("setup", 1, RESOURCE), app("a", 1, RESOURCE)),
    lambda name: pod(name, init("setup", 1, RESOURCE), sidecar("side", 1, RESOURCE), app("a", 1, RESOURCE)),
)


class Tenants:
    """The pods of a node.

    Args:
        node: with a kubelet that has the plugin's devices whenever something is asked for.
        chance: decides what they do.

    Attributes:
        alive: those that the kubelet is to run.
        came: how many ever came.
    """

    def __init__(self, node: EmbeddedNode, chance: Random) -> None:
        self.alive: list[Pod] = []
        self.came = 0
        self._node = node
        self._chance = chance
        self._given: dict[tuple[str, str], tuple[str, str]] = {}

    async def turn(self) -> None:
        """Let one come, some go, and perhaps a container be restarted."""
        node, chance = self._node, self._chance
        self.came += 1
        spec = chance.choice(_SPECS)(f"pod-{self.came}")
        one = await node.admit(replace(spec, oversized=chance.random() < 0.05))
        if one.admitted:
            await node.run(one)
            self.alive.append(one)
        while self.alive and chance.random() < (0.5 if len(self.alive) < MOST else 0.9):
            await self._end(self.alive.pop(chance.randrange(len(self.alive))))
        if self.alive and chance.random() < 0.2:
            await node.restart_container(chance.choice(self.alive), "a")

    async def crash(self) -> None:
        """Let one come at whose answer the kubelet dies."""
        self._node.die_after_next_answer()
        self.came += 1
        self.alive.append(await self._node.admit(_SPECS[0](f"pod-{self.came}")))

    async def run(self) -> None:
        """Wait until the kubelet has started everything."""
        for each in self.alive:
            await self._node.run(each)

    async def leave(self) -> None:
        """Let all of them be deleted."""
        for each in self.alive:
            await self._node.delete(each)
        self.alive.clear()

    async def _end(self, gone: Pod) -> None:
        match self._chance.randrange(4):
            case 0:
                await self._node.force_delete(gone)
                await self._node.finish(gone)
            case 1:
                await self._node.complete(gone)
                await self._node.delete(gone)
            case _:
                await self._node.delete(gone)

    @property
    def mounted(self) -> set[str]:
        """The names of the directories that they mount."""
        return {each.mounts[_MOUNTED_AT].rpartition("/")[2] for _, each in self._mounting()}

    def check(self) -> None:
        """Fail if a container has another path or secret than when it ran first."""
        given = {
            (one.uid, each.name): (each.mounts[_MOUNTED_AT], each.env["MEMIF_SECRET"])
            for one, each in self._mounting()
            if each.running
        }
        changed = {key: now for key, now in given.items() if self._given.get(key, now) != now}
        assert not changed, f"the paths or secrets of {sorted(changed)} changed"
        self._given = {key: now for key, now in (self._given | given).items() if key[0] in self._uids}

    @property
    def _uids(self) -> set[str]:
        return {each.uid for each in self.alive}

    def _mounting(self) -> Iterator[tuple[Pod, Container]]:
        return ((one, each) for one in self.alive for each in one.containers if each.mounts)
