"""A journal that lasts as long as the object."""

from collections.abc import Iterable
from typing import Final

from domain.allocation import Allocation, Owner
from domain.identity import AllocationId
from domain.ledger import Standing
from domain.pool import Pool
from domain.ports.journal import JournalUnusable, Recovered
from domain.resource import ResourceName


class MemoryJournal:
    """A :class:`~domain.ports.journal.Journal` in memory.

    A new process is played by calling :meth:`open` again on the same object.

    Attributes:
        contents: each allocation with its standing, in the order of their grant.
        pools: each pool as it was last used.
        durable: the allocations that were added durably.
        asked: the names of the methods that were called, in order.
        is_open: whether it is open.
    """

    def __init__(self) -> None:
        self.contents: Final[dict[AllocationId, tuple[Allocation, Standing]]] = {}
        self.pools: Final[dict[ResourceName, Pool]] = {}
        self.durable: Final[set[AllocationId]] = set()
        self.asked: Final[list[str]] = []
        self.is_open = False
        self._next_error: JournalUnusable | None = None
        self._error: JournalUnusable | None = None
        self._flaw: str | None = None

    def open(self) -> Recovered:
        """See the port."""
        self.is_open = True
        try:
            self._begin("open")
        except JournalUnusable:
            self.is_open = False
            raise
        flaw, self._flaw = self._flaw, None
        if flaw is not None:
            self.contents.clear()
            self.pools.clear()
        return Recovered(
            allocations=tuple(self.contents.values()),
            pools=tuple(self.pools[resource] for resource in sorted(self.pools)),
            set_aside=flaw,
        )

    def add(self, allocations: Iterable[Allocation], *, durable: bool = False) -> None:
        """See the port.  An addition of a known one replaces it, as the last in order."""
        new = tuple(allocations)
        self._begin("add")
        for each in new:
            self.contents.pop(each.id, None)
            self.contents[each.id] = (each, Standing.LIVE)
            (self.durable.add if durable else self.durable.discard)(each.id)

    def own(self, name: AllocationId, owner: Owner) -> None:
        """See the port.  Fills gaps only."""
        self._begin("own")
        if name in self.contents:
            allocation, standing = self.contents[name]
            self.contents[name] = (allocation.owned_by(owner), standing)

    def stand(self, names: Iterable[AllocationId], standing: Standing) -> None:
        """See the port."""
        self._begin("stand")
        for name in names:
            if name in self.contents:
                self.contents[name] = (self.contents[name][0], standing)

    def drop(self, names: Iterable[AllocationId]) -> None:
        """See the port."""
        self._begin("drop")
        for name in names:
            self.contents.pop(name, None)
            self.durable.discard(name)

    def use(self, pools: Iterable[Pool]) -> None:
        """See the port.  Pools that are not named stay as they were last used."""
        self._begin("use")
        self.pools.update({each.resource: each for each in pools})

    def check(self) -> None:
        """See the port."""
        self._begin("check")

    def close(self) -> None:
        """See the port."""
        self.asked.append("close")
        self.is_open = False

    def _begin(self, what: str) -> None:
        self.asked.append(what)
        error, self._next_error = self._next_error or self._error, None
        if error is not None:
            raise error
        if not self.is_open:
            raise JournalUnusable("the journal is not open")

    # Levers.

    def fail_next(self, error: JournalUnusable) -> None:
        """Let the next call fail, whatever it is."""
        self._next_error = error

    def fail(self, error: JournalUnusable | None) -> None:
        """Let every call fail, as on a full disk; ``None`` makes it work again."""
        self._error = error

    def damage(self, why: str) -> None:
        """Let the next :meth:`open` find a file that it has to set aside."""
        self._flaw = why
