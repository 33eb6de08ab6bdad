"""Release: an allocation's directory and record go."""

from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain.identity import AllocationId
from domain.ledger import Record, Standing
from domain.ports.journal import JournalUnusable
from domain.ports.reports import Reports
from domain.ports.sockets import Leftover
from domain.ports.worker import Worker


class Release:
    """Lets one allocation go, in steps of which each can be resumed after a crash.

    The record says *releasing* before the directory goes and is dropped after it.  A PreStartContainer that comes in
    between makes the allocation live again: its directory job queues behind this one, and the drop is skipped.
    """

    def __init__(self, *, state: State, storage: Storage, worker: Worker, reports: Reports) -> None:
        self._state = state
        self._storage = storage
        self._worker = worker
        self._reports = reports

    async def __call__(self, decided: Record, *, reason: str) -> bool:
        """Release the allocation if it stands as it did when that was decided; tell whether it is gone."""
        name = decided.allocation.id
        now = self._state.ledger.get(name)
        if now is None or (now.standing, now.touched) != (decided.standing, decided.touched):
            return False
        self._state.ledger = self._state.ledger.standing(name, Standing.RELEASING)
        try:
            leftover = await self._worker.run("releasing an allocation", lambda: self._remove(now))
        except JournalUnusable as error:
            self._reports.warn("an allocation is not released yet", allocation=name, reason=str(error))
            self._if_releasing(name, now.standing)
            return False
        if leftover.obstacle is not None or not self._still_releasing(name):
            return False
        self._state.ledger = self._state.ledger.without((name,))
        await self._worker.run("dropping a record", lambda: self._drop(name))
        self._reports.note("released", allocation=name, resource=now.allocation.resource, reason=reason)
        return True

    def _remove(self, record: Record) -> Leftover:
        self._storage.journal.stand((record.allocation.id,), Standing.RELEASING)
        return self._storage.clear(record.allocation.directory)

    def _drop(self, name: AllocationId) -> None:
        try:
            self._storage.journal.drop((name,))
        except JournalUnusable as error:
            # It says "releasing" there, so the next start finishes it.
            self._reports.warn("a released allocation stays in the journal", allocation=name, reason=str(error))

    def _still_releasing(self, name: AllocationId) -> bool:
        record = self._state.ledger.get(name)
        return record is not None and record.standing is Standing.RELEASING

    def _if_releasing(self, name: AllocationId, standing: Standing) -> None:
        if self._still_releasing(name):
            self._state.ledger = self._state.ledger.standing(name, standing)
