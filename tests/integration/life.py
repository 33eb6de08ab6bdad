"""Histories as they are lived, on a stand, and judged."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from domain.identity import AllocationId
from tests.integration.crash import Power
from tests.integration.happenings import MOMENT, Happenings
from tests.integration.histories import made
from tests.integration.history import History, Step, shortened, written
from tests.integration.places import memory_place
from tests.integration.socketless import Stand
from tests.integration.soundness import Unsound, check_empty, check_sound, must

_PATIENCE: Final = 20.0
"""Seconds of real time after which a history, which takes a small part of one, counts as hanging."""


class Life:
    """One history as it is lived.

    After each step everything that something may still mount must be where it was; whatever happens, nothing is
    removed under it.
    """

    def __init__(self, stand: Stand, history: History) -> None:
        self.stand = stand
        self.history = history
        self.world = Happenings(stand, history)

    async def live(self) -> None:
        """Live it from a running node to its end."""
        await self.stand.start_kubelet()
        await self.stand.run()
        steps = list(self.history.steps)
        while steps:
            step = steps.pop(0)
            meanwhile = [steps.pop(0) for _ in range(step.arguments[1] if step.verb == "meanwhile" else 0) if steps]
            await self._watched(step, *meanwhile)
        await self._end()

    async def _end(self) -> None:
        """Let everything work again, and look whether anything is lost or left."""
        stand = self.stand
        stand.power.fault = None
        stand.power.end_before(None)
        stand.runtime.restore()
        await self.world.run()
        await self.world.kubelet_start()
        if self.world.configured:
            await self.world.configure(0)
            await self.world.kill()
        await self.world.run()
        if self.world.forced:
            await self._restart_everything()
        await check_sound(stand, journal_lost=self.world.journal_lost, journal_behind=self.world.disk_failed)
        self.world.given.check(stand)
        await self._check_look_up()
        await stand.restart()
        await check_sound(stand, journal_lost=self.world.journal_lost)
        self.world.given.check(stand)
        await check_empty(stand)

    async def _restart_everything(self) -> None:
        """Let every container be started anew, which brings back what was forced out of those that run."""
        for slot in self.world.pods:
            await self.world.restart(slot)

    async def _check_look_up(self) -> None:
        """Whoever asks for a pod that runs is told what its containers were given."""
        house = self.stand.house
        assert house is not None
        for each in self.world.pods.values():
            mounts = {c.name: c.mounts.get("/run/vpp") for c in each.containers if c.running}
            if each not in self.stand.node.pods or not any(mounts.values()) or each.terminal:
                continue
            found = await house.container.look_up()(each.namespace, each.name)
            told = {c.name: c.allocation.directory.path for c in found.containers if c.name in mounts}
            must(
                told == {name: path for name, path in mounts.items() if path},
                f"a look-up of {each.name} tells {told}, and it mounts {mounts}",
            )

    async def _watched(self, *steps: Step) -> None:
        before = self._protected()
        self.stand.clock.advance(MOMENT)
        self.world.wiped = False
        self.world.show()
        if len(steps) > 1:
            await self._together(steps[0], steps[1:])
        else:
            await self.world.do(steps[0])
        if self.stand.power.dead:
            self.stand.bury()
        house = self.stand.house
        must(house is None or "a call of the kubelet failed" not in house.heard.warned, "an internal error was met")
        after = self._protected()
        for name, inode in before.items():
            if name in after and inode is not None and not self.world.wiped:
                must(
                    after[name] == inode,
                    f"the directory {name} was {'replaced' if after[name] else 'removed'} while something may mount it",
                )
        self.world.check_strays()
        self.world.given.check(self.stand)

    async def _together(self, first: Step, others: Sequence[Step]) -> None:
        """Do steps while a reconcile runs, begun some turns of the loop after it."""

        async def later() -> None:
            for _ in range(first.arguments[0]):
                await asyncio.sleep(0)
            for each in others:
                await self.world.do(each)

        await asyncio.gather(self.world.do(Step("reconcile")), later())

    def _protected(self) -> dict[AllocationId, int | None]:
        """Return the inodes of the directories that something mounts or may mount."""
        there = self.stand.directories()
        return {name: there.get(name) for name in self.stand.used()}


async def lived(history: History, power: Power, root: Path | None = None) -> None:
    """Live a history, in a directory of its own unless one is given.

    Raises:
        Unsound: something was lost or left.
    """
    if root is None:
        with memory_place() as place:
            await lived(history, power, place)
        return
    stand = Stand(root, power, seed=history.seed, secret_delivery=history.delivery)
    try:
        await Life(stand, history).live()
    finally:
        power.fault = None
        await stand.close()
        power.reset()


async def trouble(history: History, power: Power) -> Exception | None:
    """Live a history, and return what went wrong."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await lived(history, power)
    except Exception as error:  # noqa: BLE001 -- whatever it is, a history is not to end so
        return error
    return None


async def examined(seeds: Sequence[int], power: Power) -> None:
    """Live the histories of seeds, and fail with the first that goes wrong, made short and ready to be replayed."""
    for seed in seeds:
        history = made(seed)
        error = await trouble(history, power)
        if error is not None:
            short = await shortened(history, lambda other: _fails(other, power))
            last = await trouble(short, power)
            raise Unsound(
                f"the history of seed {seed} went wrong: {error}\n\nIts shortest part that still does, with: {last}\n"
                f"To live it again: python -m tests.soak.replay FILE, with this in the file.\n\n{written(short)}"
            ) from (last or error)


async def _fails(history: History, power: Power) -> bool:
    return await trouble(history, power) is not None
