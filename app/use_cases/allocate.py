"""Allocate: a container asks for devices.

The kubelet waits in its admission loop meanwhile, and no other pod of the node is admitted: nothing here asks the
runtime, the kubelet or the network anything, and a budget bounds the rest.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain import device_info, grant
from domain.answer import Answer
from domain.grant import Draw, Grant
from domain.identity import AllocationId
from domain.pool import Pool
from domain.ports.clock import Clock
from domain.ports.entropy import Entropy
from domain.ports.measures import Measures
from domain.ports.reports import Reports
from domain.ports.worker import Worker

BUDGET: Final = 2.0
"""Seconds for the storage part of a call."""


class Allocate:
    """Grants the container requests of one call, all or none."""

    def __init__(
        self,
        *,
        state: State,
        storage: Storage,
        worker: Worker,
        entropy: Entropy,
        clock: Clock,
        reports: Reports,
        measures: Measures,
    ) -> None:
        self._state = state
        self._storage = storage
        self._worker = worker
        self._entropy = entropy
        self._clock = clock
        self._reports = reports
        self._measures = measures

    async def __call__(self, pool: Pool, requests: Sequence[Sequence[str]]) -> tuple[Answer, ...]:
        """Return one answer for each request, in their order.

        Raises:
            RequestRefused: ids that are unknown, double or missing; nothing was done.
            NoRoom, DirectoryUnusable, JournalUnusable: storage; nothing is left.
            OverBudget: storage is slow; whatever it still does is undone.
        """
        with self._measured(pool), self._state.allocating():
            granted = self._decide(pool, requests)
            info = {pool.device_info_dir: device_info.files(pool, granted.allocations)} if pool.device_info_dir else {}
            inodes = await self._worker.run(
                "storing an allocation",
                lambda: self._storage.keep(granted.allocations, info),
                undo=lambda _: self._storage.discard(granted.allocations),
                budget=BUDGET,
            )
            ledger = self._state.ledger.with_live(granted.allocations, at=self._clock.monotonic())
            self._state.ledger = ledger.made(inodes)
        for each in granted.allocations:
            self._reports.note("allocated", allocation=each.id, resource=each.resource, devices=list(each.devices))
        return granted.answers

    @contextmanager
    def _measured(self, pool: Pool) -> Iterator[None]:
        """Count a call, however it ends, and how long it took."""
        began, ok = self._clock.monotonic(), False
        try:
            yield
            ok = True
        finally:
            self._measures.allocated(pool.resource, ok=ok, seconds=self._clock.monotonic() - began)

    def _decide(self, pool: Pool, requests: Sequence[Sequence[str]]) -> Grant:
        draws = [Draw(id=self._unused_id(), secret=self._entropy.secret(pool.secret_length)) for _ in requests]
        return grant.plan(pool, requests, self._state.ledger, draws, now=self._clock.now())

    def _unused_id(self) -> AllocationId:
        while (name := self._entropy.allocation_id()) in self._state.ledger:
            continue
        return name
