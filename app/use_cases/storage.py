"""Storage jobs: what is done to journal and directories, as plain calls that run in the worker.

Each method is one job or part of one.  What it takes are values; the ledger stays with the event loop.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from domain.allocation import Allocation, Directory
from domain.errors import MemifError
from domain.evidence import CheckpointView, DirectoryView, Unknown
from domain.identity import AllocationId
from domain.ledger import Standing
from domain.pool import SecretDelivery
from domain.ports.checkpoint import Checkpoint
from domain.ports.device_info import DeviceInfoFiles
from domain.ports.journal import Journal, JournalUnusable
from domain.ports.reports import Reports
from domain.ports.sockets import DirectoryUnusable, Ensured, Leftover, NoRoom, SocketDirectories

SEVERAL: Final = 3
"""The pass from which on it is reported that a removal is not done: what a tenant left may well need two."""

_SHOWN: Final = 20
"""Foreign names that get into one report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An allocation whose directory cannot be had."""

    id: AllocationId
    error: MemifError


class Storage:
    """Journal, directories and checkpoint as the worker uses them."""

    def __init__(
        self,
        *,
        journal: Journal,
        sockets: SocketDirectories,
        checkpoint: Checkpoint,
        device_info: DeviceInfoFiles,
        reports: Reports,
    ) -> None:
        self.journal = journal
        self.sockets = sockets
        self.checkpoint = checkpoint
        self.device_info = device_info
        self._reports = reports
        self._strangers: dict[str, frozenset[str]] = {}
        self._passes: dict[str, Counter[AllocationId]] = {}
        self._odd: frozenset[AllocationId] = frozenset()

    def keep(
        self, allocations: Sequence[Allocation], device_info: Mapping[str, Mapping[str, str]] | None = None
    ) -> dict[AllocationId, int]:
        """Store new allocations, all or none, and return the inodes of their directories.

        Args:
            allocations: new ones.
            device_info: files that tell of their devices, content by name by directory.

        The journal comes first: a directory without a record would outlive a crash unnoticed for a grace period, a
        record without a directory is repaired.
        """
        self.record(allocations)
        inodes: dict[AllocationId, int] = {}
        try:
            for each in allocations:
                inodes[each.id] = self.sockets.make(each.directory)
            for directory, files in (device_info or {}).items():
                self.device_info.write(directory, files)
        except Exception:
            self._take_back(allocations, made=[each for each in allocations if each.id in inodes])
            raise
        return inodes

    def record(self, allocations: Sequence[Allocation]) -> None:
        """Write allocations into the journal, down to the disk where a loss of power would lose a secret otherwise.

        One that is delivered in a file is in no answer, so the kubelet does not have it, and the file is in memory.

        Raises:
            JournalUnusable: none was recorded.
        """
        self.journal.add(allocations, durable=any(each.secret_delivery is SecretDelivery.FILE for each in allocations))

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
        passes = self._passes.setdefault(directory.host_dir, Counter())
        if directory.id in leftover.left:
            passes[directory.id] += 1
        else:
            del passes[directory.id]
        self._tell_of_leftover(directory.host_dir, leftover)
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

    def resume(self, host_dirs: Iterable[str]) -> frozenset[AllocationId]:
        """Go on deleting what earlier passes or processes left; return whose directories something is still left of."""
        left: frozenset[AllocationId] = frozenset()
        for host_dir in host_dirs:
            leftover = self.sockets.resume(host_dir)
            before = self._passes.get(host_dir, Counter())
            self._passes[host_dir] = Counter({name: before[name] + 1 for name in leftover.left})
            self._tell_of_leftover(host_dir, leftover)
            left |= leftover.left
        return left

    def compare(self, allocations: Iterable[Allocation]) -> None:
        """Report each directory whose owner, group, mode or label is wrong, once, until it was mended or is gone.

        It is mended when a container is about to start in it, and when the daemon starts: whoever changed it, most
        likely its tenant, works with it as it is.
        """
        odd = {each.id: changed for each in allocations if (changed := self._differences(each.directory))}
        for name in sorted(odd.keys() - self._odd):
            self._reports.warn(
                "a directory is not as it must be any more and is left so until a container starts with it",
                allocation=name,
                differences=list(odd[name]),
            )
        self._odd = frozenset(odd)

    def close(self) -> None:
        """Close journal and directories."""
        self.sockets.close()
        self.journal.close()

    def read_checkpoint(self) -> CheckpointView | Unknown:
        """Return what the kubelet can still mount."""
        return self.checkpoint.read()

    def _differences(self, directory: Directory) -> tuple[str, ...]:
        try:
            return self.sockets.differences(directory)
        except (DirectoryUnusable, NoRoom) as error:
            self._reports.warn("a directory cannot be examined", reason=str(error))
            return ()

    def _tell_of_leftover(self, host_dir: str, leftover: Leftover) -> None:
        """Report what stands in the way of a removal, and what takes long; it is gone on with in any case.

        The same trouble has the same words at each pass, which the log holds back.
        """
        if leftover.obstacle is not None:
            self._reports.warn("a directory cannot be removed completely", reason=leftover.obstacle)
        if leftover.more:
            passes = self._passes[host_dir]
            for name in sorted(each for each in leftover.left if passes[each] >= SEVERAL):
                self._reports.warn(
                    "a removed directory is not deleted completely yet, after several passes",
                    host_dir=host_dir,
                    allocation=name,
                )

    def _tell_of_strangers(self, view: DirectoryView) -> None:
        """Report each thing that is no allocation's directory once; it is never touched."""
        new = view.strangers - self._strangers.get(view.host_dir, frozenset())
        self._strangers[view.host_dir] = view.strangers
        more = len(new) - _SHOWN
        if new:
            self._reports.warn(
                "something that is no allocation's directory lies in a base directory and is left alone",
                host_dir=view.host_dir,
                names=[*sorted(new)[:_SHOWN], *((f"and {more} more",) if more > 0 else ())],
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
