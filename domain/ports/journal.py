"""The journal: the ledger on disk."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from domain.allocation import Allocation, Owner
from domain.errors import MemifError
from domain.identity import AllocationId
from domain.ledger import Standing
from domain.pool import Pool


class JournalUnusable(MemifError):
    """The journal cannot be written: its disk is full or read-only, or the file is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a journal held when it was opened.

    Attributes:
        allocations: each with its standing, in the order of their grant.
        pools: every pool as it was last used, by resource.
        set_aside: why the file that was there was not used and where it lies now, ``None`` if it was.
    """

    allocations: tuple[tuple[Allocation, Standing], ...] = ()
    pools: tuple[Pool, ...] = ()
    set_aside: str | None = None


class Journal(Protocol):
    """What survives the process.

    Plain blocking calls, made by the storage worker only.

    * A change is one transaction; after it returned, a crash of the process loses nothing of it.
    * It need not survive a power loss, because the kubelet's own file is the durable record and is adopted from;
      except a ``durable`` addition, which is on disk before the call returns.
    * It can tell whether it would record a change now, without writing to the disk as long as the last change was
      recorded.
    * A file that is damaged, foreign or of a newer major version is set aside, never a reason not to start.
    """

    def open(self) -> Recovered:
        """Open or make the journal and return what it holds.

        Raises:
            JournalUnusable: not even an empty journal can be made.
        """
        ...

    def add(self, allocations: Iterable[Allocation], *, durable: bool = False) -> None:
        """Record allocations, all or none.

        Raises:
            JournalUnusable: nothing was recorded.
        """
        ...

    def own(self, name: AllocationId, owner: Owner) -> None:
        """Record who owns an allocation."""
        ...

    def stand(self, names: Iterable[AllocationId], standing: Standing) -> None:
        """Record how allocations stand."""
        ...

    def drop(self, names: Iterable[AllocationId]) -> None:
        """Forget allocations; unknown ones are ignored."""
        ...

    def use(self, pools: Iterable[Pool]) -> None:
        """Record pools as they are used now."""
        ...

    def check(self) -> None:
        """Make sure that a change could be recorded now.

        Raises:
            JournalUnusable: it could not; the message says what to do.
        """
        ...

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        ...
