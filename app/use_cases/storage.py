"""Storage jobs: what is done to journal and directories, as plain calls that run in the worker.

Each method is one job or part of one.  What it takes are values; the ledger stays with the event loop.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from domain.allocation import Allocation, Directory
from domain.errors import MemifError
from domain.evidence import CheckpointView, DirectoryView, Unknown
from domain.identity import AllocationId
from domain.ledger import Standing
from domain.pool import SecretDelivery
from domain.ports.checkpoint import Checkpoint
from domain.ports.journal import Journal, JournalUnusable
from domain.ports.reports import Reports
from domain.ports.sockets import DirectoryUnusable, Ensured, Leftover, NoRoom, SocketDirectories


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An allocation whose directory cannot be had."""

    id: AllocationId
    error: MemifError


class Storage:
    """Journal, directories and checkpoint as the worker uses them."""

    def __init__(
        self, *, journal: Journal, sockets: SocketDirectories, checkpoint: Checkpoint, reports: Reports
    ) -> None:
        self.journal = journal
        self.sockets = sockets
        self.checkpoint = checkpoint
        self._reports = reports
        self._strangers: dict[str, frozenset[str]] = {}

    def keep(self, allocations: Sequence[Allocation]) -> dict[AllocationId, int]:
        """Store new allocations, all or none, and return the inodes of their directories.

        The journal comes first: a directory without a record would outlive a crash unnoticed for a grace period, a
        record without a directory is repaired.
        """
        self.journal.add(allocations, durable=any(each.secret_delivery is SecretDelivery.FILE for each in allocations))
        inodes: dict[AllocationId, int] = {}
        try:
            for each in allocations:
                inodes[each.id] = self.sockets.make(each.directory)
        except Exception:
            self._take_back(allocations, made=[each for each in allocations if each.id in inodes])
            raise
        return inodes

    def discard(self, allocations: Iterable[Allocation]) -> None:
        """Take back allocations that nobody was told of.

        What cannot be taken back is reported and left to the resync rules, which release and sweep it.
        """
        everything = tuple(allocations)
        self._take_back(everything, made=everything)

    def _take_back(self, everything: Iterable[Allocation], *, made: Iterable[Allocation]) -> None:
        """Take allocations back; where none was made, whatever lies in the place of its directory is not ours."""
        for each in made:
            self.clear(each.directory)
        try:
            self.journal.drop(each.id for each in everything)
        except JournalUnusable as error:
            self._reports.warn("an aborted allocation stays in the journal until the next start", reason=str(error))

    def clear(self, directory: Directory) -> Leftover:
        """Remove a directory as far as one pass goes."""
        leftover = self.sockets.remove(directory)
        if leftover.obstacle is not None:
            self._reports.warn("a directory cannot be removed completely", reason=leftover.obstacle)
        return leftover

    def ensure(self, allocations: Iterable[Allocation]) -> tuple[dict[AllocationId, int], tuple[Trouble, ...]]:
        """Make sure of the directories of living allocations, each for itself; return inodes and what went wrong."""
        inodes: dict[AllocationId, int] = {}
        troubles: list[Trouble] = []
        for each in allocations:
            try:
                ensured = self.sockets.ensure(each.directory)
            except MemifError as error:
                troubles.append(Trouble(id=each.id, error=error))
                continue
            inodes[each.id] = ensured.inode
            self._tell(each, ensured)
        return inodes, tuple(troubles)

    def revive(self, names: Iterable[AllocationId]) -> None:
        """Record that allocations which were on their way out live again; the ledger is right without it."""
        try:
            self.journal.stand(names, Standing.LIVE)
        except JournalUnusable as error:
            self._reports.warn("the journal does not know that an allocation lives again", reason=str(error))

    def look(self, host_dirs: Iterable[str]) -> tuple[DirectoryView, ...]:
        """Return what lies in base directories; one that cannot be read is reported and left out."""
        views = []
        for host_dir in host_dirs:
            try:
                view = self.sockets.look(host_dir)
            except (DirectoryUnusable, NoRoom) as error:
                self._reports.warn("a base directory cannot be read", reason=str(error))
                continue
            views.append(view)
            self._tell_of_strangers(view)
        return tuple(views)

    def resume(self, host_dirs: Iterable[str]) -> None:
        """Go on deleting what earlier passes or processes left."""
        for host_dir in host_dirs:
            leftover = self.sockets.resume(host_dir)
            if leftover.obstacle is not None:
                self._reports.warn("a removed directory cannot be deleted completely", reason=leftover.obstacle)

    def read_checkpoint(self) -> CheckpointView | Unknown:
        """Return what the kubelet can still mount."""
        return self.checkpoint.read()

    def _tell_of_strangers(self, view: DirectoryView) -> None:
        """Report each thing that is no allocation's directory once; it is never touched."""
        new = view.strangers - self._strangers.get(view.host_dir, frozenset())
        self._strangers[view.host_dir] = view.strangers
        if new:
            self._reports.warn(
                "something that is no allocation's directory lies in a base directory and is left alone",
                host_dir=view.host_dir,
                names=sorted(new),
            )

    def _tell(self, allocation: Allocation, ensured: Ensured) -> None:
        if ensured.made:
            self._reports.note("a missing directory was made again", allocation=allocation.id)
        elif ensured.mended:
            self._reports.warn(
                "a directory was not as it must be and was mended in place; a container runtime makes missing ones "
                "itself, as root with mode 0755",
                allocation=allocation.id,
                mended=list(ensured.mended),
            )
