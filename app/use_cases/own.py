"""Owning: writing down whose an allocation is, as it becomes known."""

from collections.abc import Iterable
from functools import partial

from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain import resync
from domain.evidence import CheckpointView, Unknown
from domain.ports.journal import JournalUnusable
from domain.ports.reports import Reports
from domain.ports.worker import Worker


class Own:
    """Fills the gaps of owners, in ledger and journal.  For display and look-up only."""

    def __init__(self, *, state: State, storage: Storage, worker: Worker, reports: Reports) -> None:
        self._state = state
        self._storage = storage
        self._worker = worker
        self._reports = reports

    async def from_checkpoint(self, view: CheckpointView | Unknown) -> None:
        """Write down what a reading of the checkpoint, with the last one of the runtime, tells of owners."""
        await self(resync.owners(self._state.ledger, self._state.runtime, view, self._state.known_pools))

    async def __call__(self, effects: Iterable[resync.Own]) -> None:
        """Write down what became known."""
        for effect in effects:
            self._state.ledger = self._state.ledger.owned(effect.id, effect.owner)
            await self._worker.run("recording an owner", partial(self._record, effect))
            if effect.owner.complete:
                self._reports.note(
                    "bound",
                    allocation=effect.id,
                    namespace=effect.owner.namespace,
                    name=effect.owner.name,
                    uid=effect.owner.uid,
                    container=effect.owner.container,
                )

    def _record(self, known: resync.Own) -> None:
        try:
            self._storage.journal.own(known.id, known.owner)
        except JournalUnusable as error:
            self._reports.warn("an owner is not in the journal", allocation=known.id, reason=str(error))
