"""Taking over a changed configuration while the daemon runs."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from adapters.kubelet.plugins import KubeletPlugins
from app.announcer import Announcer
from app.health import Health, Phase
from app.logs import configure
from app.settings import Settings
from app.settings.faults import Fault, InvalidSettings, KeyPath, dotted
from app.settings.loading import Effective
from app.settings.restart import changed, restart_needed
from app.use_cases.serve_pools import ServePools
from app.use_cases.state import State
from domain.overview import Configuration
from domain.ports.clock import Clock
from domain.ports.measures import Measures
from domain.ports.reports import Reports
from domain.ports.worker import Worker

Reread: TypeAlias = Callable[[], Effective]
"""Reads the configuration anew from where it was read at the start; raises :class:`InvalidSettings`."""

BUDGET: Final = 5.0
"""Seconds that reading it may take."""


class Reloader:
    """Takes a changed configuration over as a whole, or refuses it as a whole and says why.

    One change at a time; whoever asks meanwhile gets one more when that is done.  A standby takes over everything that
    an active process may, and uses it when its time comes.

    Args:
        settings: in force at the start.
        reread: ``None`` = there is nothing to read again.
        worker: one of its own, because the file may lie on storage that hangs.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        reread: Reread | None,
        state: State,
        serve_pools: ServePools,
        plugins: KubeletPlugins,
        announcer: Announcer,
        health: Health,
        worker: Worker,
        clock: Clock,
        measures: Measures,
        reports: Reports,
    ) -> None:
        self._reread = reread
        self._state = state
        self._serve_pools = serve_pools
        self._plugins = plugins
        self._announcer = announcer
        self._health = health
        self._worker = worker
        self._clock = clock
        self._measures = measures
        self._reports = reports
        self._wanted = asyncio.Event()
        self._attempts = 0
        self.settings = settings
        """In force now."""
        self.turn = asyncio.Lock()
        """Held while a configuration is taken over, and by whoever must not meet that half done."""

    def trigger(self) -> None:
        """Have the configuration read again soon, once, however often this is called until then."""
        self._wanted.set()

    async def run(self) -> None:
        """Take over what changed each time that it is wanted, until cancelled."""
        while True:
            await self._wanted.wait()
            async with self.turn:
                self._wanted.clear()
                with self._announcer.reloading():
                    await self._once()

    async def _once(self) -> None:
        """Try once; whatever is wrong with the new configuration, the old one is still good."""
        self._attempts += 1
        if self._reread is None or self._health.phase is Phase.STOPPING:
            return
        try:
            new = await self._worker.run("reading the configuration", self._reread, budget=BUDGET)
            keys = await self._take_over(new)
        except InvalidSettings as error:
            self._refuse("; ".join(map(str, error.faults)))
        except Exception as error:  # noqa: BLE001 -- see above
            self._refuse(str(error) or type(error).__name__)
        else:
            self._state.configuration = Configuration(loaded=self._clock.now())
            self._measures.reloaded(ok=True)
            self._reports.note("the configuration was reloaded", changed=[dotted(key) for key in keys])

    async def _take_over(self, new: Effective) -> tuple[KeyPath, ...]:
        """Put a configuration into force and return what is different in it."""
        _suitable(restart_needed(self.settings, new))
        before, after = self.settings, new.settings
        if self._health.phase is Phase.SERVING:
            await self._serve_pools(after.domain_pools)
            self._plugins.follow()
        else:
            self._state.pools = {pool.resource: pool for pool in after.domain_pools}
        if after.log != before.log:
            configure(level=after.log.level, form=after.log.format)
        self.settings = after
        return changed(before, after)

    def _refuse(self, reason: str) -> None:
        self._state.configuration = replace(self._state.configuration, error=reason)
        self._measures.reloaded(ok=False)
        self._reports.warn(
            "the configuration was not reloaded; the one before stays in force",
            reason=reason,
            # The same fault met at another attempt is said again: somebody is waiting for the answer.
            attempt=self._attempts,
        )


def _suitable(faults: Iterable[Fault]) -> None:
    """Raise what stands against taking a configuration over.

    Raises:
        InvalidSettings: there is something.
    """
    if found := tuple(faults):
        raise InvalidSettings(found)
