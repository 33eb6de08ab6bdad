"""Health: whether the node lets us serve what we offer.

Devices turn unhealthy only for what no pod can bring about: a base directory that is missing and cannot be made, is
read-only or not ours alone, a journal that cannot be written, storage that hangs.  Of space and inodes in a base
directory a tenant can use up all there is, so for want of them Allocate fails and the devices stay healthy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain.health import Pulse
from domain.pool import Pool
from domain.ports.journal import JournalUnusable
from domain.ports.kubelet import DeviceLists
from domain.ports.reports import Reports
from domain.ports.sockets import DirectoryUnusable, NoRoom
from domain.ports.worker import OverBudget, Worker

BUDGET: Final = 4.0
"""Seconds for one look: longer than a bounded removal, behind which it may have to queue and which tenants cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What speaks against serving: for all pools, and by base directory."""

    everywhere: str | None = None
    directories: Mapping[str, str] = field(default_factory=dict)

    def trouble(self, pool: Pool) -> str | None:
        return self.directories.get(pool.host_dir, self.everywhere)


class CheckHealth:
    """Looks at every served pool, and sends a device list where what counts of its health changed."""

    def __init__(self, *, state: State, storage: Storage, worker: Worker, lists: DeviceLists, reports: Reports) -> None:
        self._state = state
        self._storage = storage
        self._worker = worker
        self._lists = lists
        self._reports = reports

    async def __call__(self) -> None:
        """Look once.  One look changes nothing yet; see :class:`domain.health.Pulse`."""
        pools = tuple(self._state.pools.values())
        seen = await self._look({pool.host_dir for pool in pools})
        for pool in pools:
            before = self._state.health.get(pool.resource, Pulse())
            after = self._state.health[pool.resource] = before.after(seen.trouble(pool))
            self._tell(pool, before, after)
            if before.healthy is not after.healthy and not pool.drained:  # a drained pool's list stays the same
                self._lists.publish((pool.resource,))

    async def _look(self, host_dirs: Iterable[str]) -> _Seen:
        try:
            return await self._worker.run("checking health", lambda: self._examine(host_dirs), budget=BUDGET)
        except OverBudget:
            return _Seen(everywhere=f"storage hangs: looking at it took longer than {BUDGET:g} s; see dmesg")

    def _examine(self, host_dirs: Iterable[str]) -> _Seen:
        return _Seen(
            everywhere=self._journal(),
            directories={each: trouble for each in host_dirs if (trouble := self._directory(each)) is not None},
        )

    def _journal(self) -> str | None:
        try:
            self._storage.journal.check()
        except JournalUnusable as error:
            return str(error)
        return None

    def _directory(self, host_dir: str) -> str | None:
        try:
            self._storage.sockets.open(host_dir)
        except DirectoryUnusable as error:
            return str(error)
        except NoRoom:
            return None
        return None

    def _tell(self, pool: Pool, before: Pulse, after: Pulse) -> None:
        if after.trouble is not None and after.trouble != before.trouble:
            self._reports.warn("the devices of a pool are unhealthy", resource=pool.resource, reason=after.trouble)
        elif after.healthy and not before.healthy:
            self._reports.note("the devices of a pool are healthy again", resource=pool.resource, was=before.trouble)
