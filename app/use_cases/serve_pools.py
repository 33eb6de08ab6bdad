"""Which pools are served, when that changes while the daemon runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain.carry_over import DeviceIdsChanged, carry_on
from domain.pool import Pool
from domain.ports.journal import JournalUnusable
from domain.ports.kubelet import DeviceLists
from domain.ports.reports import Reports
from domain.ports.worker import Worker
from domain.resource import ResourceName

BUDGET: Final = 5.0
"""Seconds that base directories and journal may take; what is configured can wait, what runs cannot."""


class ServePools:
    """Changes the pools, all as configured or none.

    An allocation keeps what it was made with: it is looked for, repaired and removed where it was recorded, and an
    answer of before is still understood.
    """

    def __init__(self, *, state: State, storage: Storage, worker: Worker, lists: DeviceLists, reports: Reports) -> None:
        self._state = state
        self._storage = storage
        self._worker = worker
        self._lists = lists
        self._reports = reports

    async def __call__(self, configured: Sequence[Pool]) -> None:
        """Serve these pools from now on, and drain what is served and not among them.

        Raises:
            DeviceIdsChanged, ListTooLarge: they do not suit what lives or what the kubelet was shown.
            DirectoryUnusable, NoRoom: a base directory cannot be used or made.
            OverBudget: storage is slow.
        """
        served = self._carried_on(configured)
        used = {pool.host_dir for pool in self._state.pools.values()}
        new = sorted({pool.host_dir for pool in configured} - used)
        await self._worker.run("opening new base directories", lambda: self._open(new), budget=BUDGET)
        await self._worker.run("recording the pools", lambda: self._record(served.values()), budget=BUDGET)
        before = self._state.pools
        try:
            self._state.pools = self._carried_on(configured)  # anew, because something may have been granted meanwhile
        except DeviceIdsChanged:
            await self._worker.run("recording the pools", lambda: self._record(before.values()), budget=BUDGET)
            raise
        self._state.earlier = tuple(dict.fromkeys((*before.values(), *self._state.earlier)))
        self._tell(before)

    def drop_drained(self) -> bool:
        """Serve drained pools no more of which nothing is left; tell whether there was one.

        Not while the kubelet may be asking for devices: it would find the door shut.
        """
        held = {record.allocation.resource for record in self._state.ledger}
        over = [pool for pool in self._state.pools.values() if pool.drained and pool.resource not in held]
        if not over or not self._state.quiet:
            return False
        for pool in over:
            del self._state.pools[pool.resource]
            self._state.health.pop(pool.resource, None)
            self._reports.note("a drained pool is empty and not served any more", resource=pool.resource)
        self._state.earlier = tuple(dict.fromkeys((*over, *self._state.earlier)))
        return True

    def _carried_on(self, configured: Sequence[Pool]) -> dict[ResourceName, Pool]:
        served = carry_on(configured, tuple(self._state.pools.values()), self._state.ledger.live())
        return {pool.resource: pool for pool in served}

    def _open(self, host_dirs: Iterable[str]) -> None:
        for host_dir in host_dirs:
            self._storage.sockets.open(host_dir)

    def _record(self, pools: Iterable[Pool]) -> None:
        try:
            self._storage.journal.use(pools)
        except JournalUnusable as error:
            self._reports.warn("the pools are not in the journal", reason=str(error))

    def _tell(self, before: Mapping[ResourceName, Pool]) -> None:
        """Show the kubelet each list that is another one now, and say what became of the pools."""
        for resource, pool in self._state.pools.items():
            was = before.get(resource)
            if was is None:
                self._reports.note("a pool is new", resource=resource, capacity=pool.capacity)
                continue
            if pool.devices() != was.devices():
                self._lists.publish((resource,))
            if pool.drained and not was.drained:
                self._reports.note("a pool is not configured any more and is drained", resource=resource)
