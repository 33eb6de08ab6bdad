"""What evidence says about each allocation and pod, found once for all the resync rules."""

from collections.abc import Iterable, Iterator, Sequence

from domain.allocation import Owner
from domain.evidence import (
    CheckpointEntry,
    CheckpointView,
    Evidence,
    ObjectKind,
    RuntimeObject,
    RuntimeView,
    Unknown,
    uids_seen,
)
from domain.identity import ALLOCATION_ID_LENGTH, AllocationId, PodUid, is_allocation_id
from domain.ledger import Ledger
from domain.pool import Pool


class Sights:
    """Evidence, indexed once so that every rule is linear.

    Attributes:
        evidence: what was seen.
        entries: those of the kubelet's record that are ours.
        unfamiliar: those that name an allocation which the ledger has not: few, and only they can be adopted.
        mounted: the containers that name an allocation, by the allocation's id.
        stored: the entry that names an allocation, by the allocation's id.
        uids: of which the runtime shows anything, ``None`` while it is unknown.
        blind: why it cannot be told that nobody uses an allocation, ``None`` if it can.
    """

    def __init__(self, ledger: Ledger, evidence: Evidence, pools: Sequence[Pool]) -> None:
        self.evidence = evidence
        # An allocation keeps the base directory that it was made with, whatever the pools say and can be read now.
        bases = {pool.host_dir for pool in pools}.union(record.allocation.host_dir for record in ledger)
        self._prefixes = tuple(f"{base}/" for base in bases.union(*(view.spellings for view in evidence.directories)))
        runtime, checkpoint = evidence.runtime, evidence.checkpoint
        objects = runtime.objects if isinstance(runtime, RuntimeView) else ()
        entries = checkpoint.entries if isinstance(checkpoint, CheckpointView) else ()
        # What mounts a directory of ours is ours, also if its resource is no pool's any more.
        resources = {pool.resource for pool in pools}
        named = [(entry, tuple(self._ids_of(entry))) for entry in entries]
        self.entries = tuple(entry for entry, names in named if names or entry.resource in resources)
        self.unfamiliar = tuple(entry for entry, names in named if any(name not in ledger for name in names))
        self.stored = {name: entry for entry, names in named for name in names}
        self.mounted: dict[AllocationId, dict[str, None]] = {}
        for each in objects:
            for name in self._kept_by(each) if each.kind is ObjectKind.CONTAINER else ():
                self.mounted.setdefault(name, {})[f"container:{each.id}"] = None
        self._shown = {each.uid: each for each in objects if each.namespace is not None and each.name is not None}
        self.uids = uids_seen(runtime) if isinstance(runtime, RuntimeView) else None
        self.blind = self._blindness()

    def pod(self, uid: PodUid | None) -> Owner | None:
        """Return what the runtime tells of the pod of a uid."""
        shown = None if uid is None else self._shown.get(uid)
        return None if shown is None else Owner(uid=uid, namespace=shown.namespace, name=shown.name)

    def holders(self, name: AllocationId) -> tuple[str, ...]:
        """Say who names an allocation."""
        return (*self.mounted.get(name, ()), *(("checkpoint",) if name in self.stored else ()))

    def holder(self, name: AllocationId) -> str | None:
        """Say who names an allocation first."""
        return next(iter(self.mounted.get(name, ())), "checkpoint" if name in self.stored else None)

    def older_than(self, moment: float) -> bool:
        """Whether a reading began before a moment; only to be asked when nothing is blind."""
        return any(
            isinstance(view, RuntimeView | CheckpointView) and view.began < moment
            for view in (self.evidence.runtime, self.evidence.checkpoint)
        )

    def _blindness(self) -> str | None:
        for label, view in (("runtime", self.evidence.runtime), ("checkpoint", self.evidence.checkpoint)):
            if isinstance(view, Unknown):
                return f"{label} view unknown: {view.reason}"
        if self.evidence.empty_runtime_doubted:
            return "the runtime shows no pod and the kubelet does not confirm it"
        return None

    def _ids_of(self, entry: CheckpointEntry) -> Iterator[AllocationId]:
        return self._ids_in(mount.host_path for mount in entry.answer.mounts)

    def _kept_by(self, each: RuntimeObject) -> Iterator[AllocationId]:
        return self._ids_in((*each.mounts.values(), *each.claimed.values()))

    def _ids_in(self, paths: Iterable[str]) -> Iterator[AllocationId]:
        """Find the allocations whose directories are at or above some paths, in any spelling of the base.

        Looks at no more of a path than the id that may follow a base: a tenant's annotation may have any length.
        """
        for path in paths:
            if not path.startswith(self._prefixes):
                continue
            for prefix in self._prefixes:
                if path.startswith(prefix):
                    name, _, _ = path[len(prefix) : len(prefix) + ALLOCATION_ID_LENGTH + 1].partition("/")
                    if is_allocation_id(name):
                        yield AllocationId(name)
