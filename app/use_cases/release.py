"""Release: an allocation's directory and record go."""

from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain.identity import AllocationId
from domain.ledger import Record, Standing
from domain.ports.journal import JournalUnusable
from domain.ports.measures import Measures, ReleasedBy
from domain.ports.reports import Reports
from domain.ports.sockets import Leftover
from domain.ports.worker import Worker


class Release:
    """Lets one allocation go, in steps of which each can be resumed after a crash.

    The record says *releasing* before the directory goes and is dropped when nothing is left of that, which may take
    several passes: it is what remembers, over a restart and a changed configuration, where to go on.

    A PreStartContainer that comes in between makes the allocation live again: its directory job queues behind this
    one, and the drop is skipped.
    """

    def __init__(self, *, state: State, storage: Storage, worker: Worker, reports: Reports, measures: Measures) -> None:
        self._state = state
        self._storage = storage
        self._worker = worker
        self._reports = reports
        self._measures = measures
        self._told: set[AllocationId] = set()

    async def possible(self) -> bool:
        """Tell whether the journal would record a release now; say so if not.

        Watchers are told of a release before it is recorded, and that the allocation lives again if it cannot be.  To
        be asked before releasing by the rule, or they were told both at every reconcile while a disk is full.
        """
        try:
            await self._worker.run("checking the journal", self._storage.journal.check)
        except JournalUnusable as error:
            self._reports.warn("nothing is released while it cannot be recorded", reason=str(error))
            return False
        return True

    async def __call__(self, decided: Record, *, reason: str, by: ReleasedBy = ReleasedBy.RULE) -> bool:
        """Release the allocation if it stands as it did when that was decided; tell whether nobody can use it any more.

        What is left of its directory then has been renamed and is deleted over time.
        """
        name = decided.allocation.id
        now = self._state.ledger.get(name)
        if now is None or (now.standing, now.touched) != (decided.standing, decided.touched):
            return False
        self._state.ledger = self._state.ledger.standing(name, Standing.RELEASING)
        try:
            leftover = await self._worker.run("releasing an allocation", lambda: self._remove(now, Standing.RELEASING))
        except JournalUnusable as error:
            self._reports.warn("an allocation is not released yet", allocation=name, reason=str(error))
            self._if_standing(name, Standing.RELEASING, now.standing)
            return False
        if leftover.obstacle is not None or not self._stands(name, Standing.RELEASING):
            return False
        first = now.standing is not Standing.RELEASING or name not in self._told
        self._told.add(name)
        if leftover.done:
            self._told.discard(name)
            self._state.ledger = self._state.ledger.without((name,))
            await self._worker.run("dropping a record", lambda: self._drop(name))
        if first:
            self._reports.note("released", allocation=name, resource=now.allocation.resource, reason=reason)
            if now.standing is not Standing.FORCED:  # that one was counted when it was forced out
                self._measures.released(now.allocation.resource, by)
        return True

    async def force(self, decided: Record, *, reason: str) -> bool:
        """Let a living allocation go although something may still use it; tell whether that was recorded.

        Its directory goes at once and its record stays, hidden, until the rule drops it: or adoption would bring it
        back.  What resists removal is removed when the record is dropped.  A PreStartContainer that names it makes it
        live again, and makes its directory after this removal.
        """
        name = decided.allocation.id
        now = self._state.ledger.get(name)
        if now is None or now.standing is not Standing.LIVE:
            return False
        self._state.ledger = self._state.ledger.standing(name, Standing.FORCED)
        try:
            await self._worker.run("forcing an allocation out", lambda: self._force_out(now))
        except JournalUnusable as error:
            self._reports.warn("an allocation is not forced out", allocation=name, reason=str(error))
            self._if_standing(name, Standing.FORCED, now.standing)
            return False
        self._reports.warn("forced out", allocation=name, resource=now.allocation.resource, reason=reason)
        self._measures.released(now.allocation.resource, ReleasedBy.FORCE)
        return True

    def _remove(self, record: Record, standing: Standing) -> Leftover:
        self._storage.journal.stand((record.allocation.id,), standing)
        return self._storage.clear(record.allocation.directory)

    def _force_out(self, record: Record) -> Leftover:
        # A full disk may have kept it out of the journal when it was adopted, and without a record there, adoption
        # would bring it back after a crash.
        self._storage.record((record.allocation,))
        return self._remove(record, Standing.FORCED)

    def _drop(self, name: AllocationId) -> None:
        try:
            self._storage.journal.drop((name,))
        except JournalUnusable as error:
            # It says "releasing" there, so the next start finishes it.
            self._reports.warn("a released allocation stays in the journal", allocation=name, reason=str(error))

    def _stands(self, name: AllocationId, standing: Standing) -> bool:
        record = self._state.ledger.get(name)
        return record is not None and record.standing is standing

    def _if_standing(self, name: AllocationId, standing: Standing, then: Standing) -> None:
        if self._stands(name, standing):
            self._state.ledger = self._state.ledger.standing(name, then)
