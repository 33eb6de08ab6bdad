"""Adoption: taking over what the kubelet will mount and we do not know."""

from collections.abc import Iterable

from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain.adoption import Adoption, adoption
from domain.allocation import Allocation
from domain.answer import SECRET_FILE
from domain.evidence import CheckpointView, Unknown
from domain.identity import AllocationId
from domain.ports.clock import Clock
from domain.ports.entropy import Entropy
from domain.ports.journal import JournalUnusable
from domain.ports.reports import Reports
from domain.ports.sockets import DirectoryUnusable
from domain.ports.worker import Worker
from domain.secret import Secret, is_secret


class Adopt:
    """Takes allocations over, into ledger, journal and directory."""

    def __init__(
        self, *, state: State, storage: Storage, worker: Worker, entropy: Entropy, clock: Clock, reports: Reports
    ) -> None:
        self._state = state
        self._storage = storage
        self._worker = worker
        self._entropy = entropy
        self._clock = clock
        self._reports = reports

    async def from_checkpoint(self, *, budget: float | None = None) -> CheckpointView | Unknown:
        """Read the checkpoint, take over what it names and the ledger does not know, and return the reading."""
        view = await self._worker.run("reading the checkpoint", self._storage.read_checkpoint, budget=budget)
        self._state.checkpoint = view
        if isinstance(view, CheckpointView):
            now, pools = self._clock.now(), self._state.known_pools
            found = (adoption(entry, pools, now=now) for entry in view.entries)
            await self(
                (each for each in found if each is not None),
                reason="the kubelet's checkpoint names it",
                budget=budget,
            )
        return view

    async def __call__(self, adoptions: Iterable[Adoption], *, reason: str, budget: float | None = None) -> None:
        """Take over those that the ledger does not know, of any standing.

        Raises:
            OverBudget: storage is slow; the ledger may know more than the journal then, which the kubelet's record
                makes up for.
        """
        new = {each.allocation.id: each for each in adoptions if each.allocation.id not in self._state.ledger}
        if not new:
            return
        opened = [await self._opened(each, budget=budget) for each in new.values()]
        # Another call may have adopted the same while a secret was read.
        allocations = [each for each in opened if each is not None and each.id not in self._state.ledger]
        self._state.ledger = self._state.ledger.with_live(allocations, at=self._clock.monotonic())
        inodes = await self._worker.run("adopting", lambda: self._store(allocations), budget=budget)
        self._state.ledger = self._state.ledger.made(inodes)
        for each in allocations:
            self._reports.note(
                "adopted",
                allocation=each.id,
                reason=reason,
                resource=each.resource,
                devices=list(each.devices),
                uid=each.owner.uid,
                container=each.owner.container,
            )

    async def _opened(self, found: Adoption, *, budget: float | None) -> Allocation | None:
        """Return the allocation with its secret; ``None`` if that cannot be read now, which must not change it."""
        if not found.sealed:
            return found.allocation
        directory = found.allocation.directory
        try:
            text = await self._worker.run(
                "reading a secret", lambda: self._storage.sockets.read(directory, SECRET_FILE), budget=budget
            )
        except DirectoryUnusable as error:
            self._reports.warn("an allocation is not adopted yet", allocation=directory.id, reason=str(error))
            return None
        if text is not None and is_secret(text):
            return found.with_secret(Secret(text))
        self._reports.warn(
            "the secret file of an adopted allocation is gone; a new secret was made, and the container must be "
            "restarted to read it",
            allocation=directory.id,
        )
        return found.with_secret(self._entropy.secret(found.pool.secret_length))

    def _store(self, allocations: list[Allocation]) -> dict[AllocationId, int]:
        try:
            self._storage.record(allocations)
        except JournalUnusable as error:
            # The kubelet's record is the durable one: it will be adopted from again.
            self._reports.warn("an adopted allocation is not in the journal", reason=str(error))
        inodes, troubles = self._storage.ensure(allocations)
        for trouble in troubles:
            self._reports.warn(
                "the directory of an adopted allocation cannot be had", allocation=trouble.id, reason=str(trouble.error)
            )
        return inodes
