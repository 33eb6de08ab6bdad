"""What watchers are told: how the set of living allocations changed.

Events follow from two ledgers, the one before and the one after a change, so none can be forgotten where a ledger is
changed.  A watcher that keeps up sees each; one that does not is told to begin anew, and nothing is kept for it.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from operator import is_

from domain.allocation import Allocation
from domain.errors import MemifError
from domain.ledger import Ledger, Record, Standing


class EventType(StrEnum):
    """What happened to an allocation, or to the watch itself."""

    ALLOCATED = "ALLOCATED"
    """It lives: granted, adopted, or alive again."""
    BOUND = "BOUND"
    """Its owner is completely known."""
    RELEASED = "RELEASED"
    """It is going; its directory still exists at this moment, and may be gone at any later one."""
    SYNCED = "SYNCED"
    """The snapshot is complete; from here on events follow."""
    RESYNC_NEEDED = "RESYNC_NEEDED"
    """Events are missing; begin anew with a snapshot."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happened to one allocation."""

    type: EventType
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Event:
    """A change in its place in the order; ``seq`` counts from 1 within one process."""

    seq: int
    type: EventType
    allocation: Allocation | None


class GapGone(MemifError):
    """The events after a sequence number are not kept any more, or never existed."""

    def __init__(self, seq: int) -> None:
        super().__init__(f"the events after {seq} are gone")


def changes(before: Ledger, after: Ledger) -> Iterator[Change]:
    """Yield what watchers are told of the step from one ledger to another, in the order of the grants."""
    if all(map(is_, before.records.values(), after.records.values())) and len(before) <= len(after):
        # Nothing but new ones: an Allocate, which is waited for and must not take longer the more there is.
        for record in islice(after, len(before), None):
            yield from _changed(None, record)
        return
    for name, record in after.records.items():
        old = before.records.get(name)
        if old is not record:
            yield from _changed(old, record)
    for name, record in before.records.items():
        if name not in after.records and record.standing is Standing.LIVE:
            yield Change(EventType.RELEASED, record.allocation)


def snapshot(ledger: Ledger) -> tuple[Change, ...]:
    """Return one change a living allocation: ALLOCATED while its owner is not known, else BOUND."""
    return tuple(
        Change(EventType.BOUND if each.owner.complete else EventType.ALLOCATED, each) for each in ledger.live()
    )


def _changed(old: Record | None, new: Record) -> Iterator[Change]:
    lived, lives = old is not None and old.standing is Standing.LIVE, new.standing is Standing.LIVE
    if lives and not lived:
        yield Change(EventType.ALLOCATED, new.allocation)
    known = lived and old is not None and old.allocation.owner.complete
    if lives and new.allocation.owner.complete and not known:
        yield Change(EventType.BOUND, new.allocation)
    if lived and not lives:
        yield Change(EventType.RELEASED, new.allocation)


class EventLog:
    """The last events, for every watcher together; what is older is forgotten.

    Each holds an allocation as it was then, a kilobyte or two, so all of them are a small part of the daemon's memory.
    """

    def __init__(self, *, kept: int = 2_000) -> None:
        self._kept: deque[Event] = deque(maxlen=kept)
        self.last = 0
        """Sequence number of the newest event, 0 before the first."""

    def append(self, change: Change) -> None:
        """Add a change as the newest event."""
        self.last += 1
        self._kept.append(Event(self.last, change.type, change.allocation))

    def after(self, seq: int) -> tuple[Event, ...]:
        """Return the events after a sequence number, in order.

        Raises:
            GapGone: some of them are not kept any more, or the number is of another process.
        """
        missing = self.last - seq
        if missing < 0 or missing > len(self._kept):
            raise GapGone(seq)
        if not missing:
            return ()
        newest = []
        for event in reversed(self._kept):
            if event.seq <= seq:
                break
            newest.append(event)
        return tuple(reversed(newest))
