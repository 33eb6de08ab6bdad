"""When to reconcile: at an interval, and at once when something suggests it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from app.use_cases.reconcile import Reconcile, Reconciled
from domain.ports.reports import Reports
from domain.ports.runtime import ContainerRuntime, RuntimeUnavailable

PAUSE: Final = 1.0
"""Seconds between two reconciles for hints of the runtime: a pod that starts or ends gives several at once."""

LONGEST: Final = 120.0
"""Seconds that a reconcile may take at most: every question in it has a deadline of its own, and where the runtime must
be looked for, there are several."""

LATEST: Final = 5.0
"""Seconds by which a reconcile may begin too late."""

RETRY: Final = 5.0
"""Seconds until the runtime's hints are asked for again."""


class Reconciler:
    """Runs one reconcile after the other, never two at a time.

    A reconcile that fails is reported and the next one comes all the same: the daemon's first duty is to serve.
    """

    def __init__(self, *, reconcile: Reconcile, runtime: ContainerRuntime, reports: Reports, interval: float) -> None:
        self._reconcile = reconcile
        self._runtime = runtime
        self._reports = reports
        self._interval = interval
        self._wanted = asyncio.Event()
        self._begun = asyncio.Event()
        self._turn = asyncio.Lock()
        self.last: Reconciled | None = None
        """What the last reconcile saw and decided, ``None`` before the first and after a failed one."""

    @property
    def turn(self) -> asyncio.Lock:
        """Held while a reconcile runs; whoever does a part of one holds it meanwhile."""
        return self._turn

    def trigger(self) -> None:
        """Have a reconcile run soon, once, however often this is called until then."""
        self._wanted.set()

    async def run(self, turn: Callable[[float], None] = lambda _: None) -> None:
        """Reconcile for ever, at first when somebody wants it: nothing slow may come before registering.

        Args:
            turn: told at each turn within how many seconds the next one comes.
        """
        while True:
            turn(self._interval + LATEST)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._wanted.wait()
            self._wanted.clear()
            turn(LONGEST)
            try:
                await self.once()
            except Exception as error:  # noqa: BLE001 -- see the class's docstring
                self.last = None
                self._reports.warn("a reconcile failed", fault=type(error).__name__, reason=str(error))
            self._begun.set()

    async def follow(self) -> None:
        """Take the runtime's hints for ever; without them the interval alone remains.

        The first hint comes as soon as the feed is up, so nothing is followed before the first reconcile.
        """
        await self._begun.wait()
        while True:
            with suppress(RuntimeUnavailable):
                async for _ in self._runtime.changes():
                    self.trigger()
                    await asyncio.sleep(PAUSE)
            await asyncio.sleep(min(self._interval, RETRY))

    async def once(self, *, dry_run: bool = False) -> Reconciled:
        """Run one reconcile now, or as soon as the one that runs is done."""
        async with self._turn:
            done = await self._reconcile(dry_run=dry_run)
        if not dry_run:
            self.last = done
        return done
