"""Whether containers have what they were given."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from domain.answer import Mount
from domain.diagnosis.findings import Finding, doubtful, fine, wrong
from domain.evidence import (
    Absent,
    CheckpointEntry,
    CheckpointView,
    DirectoryView,
    Evidence,
    ObjectKind,
    ObjectState,
    RuntimeObject,
    RuntimeView,
    Unknown,
)
from domain.identity import AllocationId, is_allocation_id
from domain.ledger import Ledger
from domain.pool import Pool
from domain.sights import Sights

CHECKPOINT: Final = "kubelet's record"
RECORDED: Final = "recorded containers"
SHADOWED: Final = "mounts of containers"

_LONGEST: Final = 120
"""Characters of a tenant's text that are shown."""

_SHOWN: Final = 5
"""Of many containers, how many a finding names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFacts:
    """What was seen of containers.

    Attributes:
        runtime: what exists.
        checkpoint: what the kubelet recorded.
        pools: as configured.
        directories: what lies in the base directories.
    """

    runtime: RuntimeView | Unknown
    checkpoint: CheckpointView | Unknown
    pools: tuple[Pool, ...]
    directories: tuple[DirectoryView, ...]


def judge(facts: ContainerFacts) -> Iterator[Finding]:
    """Yield what the facts say of containers."""
    yield _checkpoint(facts)
    runtime, checkpoint = facts.runtime, facts.checkpoint
    if isinstance(runtime, Unknown) or isinstance(checkpoint, Unknown):
        which = "the container runtime" if isinstance(runtime, Unknown) else "the kubelet's record"
        for check in (RECORDED, SHADOWED):
            yield doubtful(check, f"cannot be told without {which}", "mend what else is found here")
        return
    evidence = Evidence(runtime=runtime, checkpoint=checkpoint, directories=facts.directories)
    sights = Sights(Ledger(), evidence, facts.pools)
    yield _recorded(runtime, sights)
    yield _shadowed(runtime, sights)


def _checkpoint(facts: ContainerFacts) -> Finding:
    checkpoint = facts.checkpoint
    if isinstance(checkpoint, CheckpointView):
        return fine(CHECKPOINT, f"read and understood (entries: {len(checkpoint.entries)})")
    if not isinstance(checkpoint, Absent):
        return wrong(
            CHECKPOINT,
            checkpoint.reason,
            "nothing is released meanwhile; run as root, or restart the kubelet, which writes the file anew",
        )
    return doubtful(CHECKPOINT, checkpoint.reason, "start the daemon and the kubelet; until then nothing is released")


def _recorded(runtime: RuntimeView, sights: Sights) -> Finding:
    """Find containers that have, or say that they have, a directory of ours of which the kubelet knows nothing."""
    containers = {f"container:{each.id}": each for each in runtime.objects if _is_current(each)}
    forgotten = [
        f"{_named(containers[holder])} with {name}"
        for name, holders in sights.mounted.items()
        for holder in holders
        if holder in containers and name not in sights.stored
    ]
    if forgotten:
        return wrong(
            RECORDED,
            f"containers that ask for memif are not in the kubelet's record: {_some(forgotten)}",
            "delete these pods, so that they are admitted anew: at its next start the container would have no memif",
        )
    return fine(RECORDED, "the kubelet's record has every container that uses memif")


def _shadowed(runtime: RuntimeView, sights: Sights) -> Finding:
    """Find containers in which something else lies where the directory should be, or inside of it."""
    current = {(each.uid, each.container): each for each in runtime.objects if _is_current(each)}
    hidden = [
        f"{_named(each)}: {trouble}"
        for entry in sights.entries
        if (each := current.get((entry.uid, entry.container))) is not None
        for mount in _ours(entry, sights)
        for trouble in _troubles(each, mount)
    ]
    if hidden:
        return wrong(
            SHADOWED,
            f"a volume of the pod hides what the plugin mounts: {_some(hidden)}",
            "give the volume another mountPath, or the pool another container_dir, and make the pod anew",
        )
    return fine(SHADOWED, "every container sees the directory that it was given")


def _ours(entry: CheckpointEntry, sights: Sights) -> Iterator[Mount]:
    for mount in entry.answer.mounts:
        name = mount.host_path.rpartition("/")[2]
        if is_allocation_id(name) and sights.stored.get(AllocationId(name)) is entry:
            yield mount


def _troubles(each: RuntimeObject, mount: Mount) -> Iterator[str]:
    """Say what stands in a mount's way; a runtime that shows no mounts at all says nothing."""
    inside, name = mount.container_path, mount.host_path.rpartition("/")[2]
    found = each.mounts.get(inside)
    if each.mounts and found is None:
        yield f"{inside} is not mounted"
    elif found is not None and found.rpartition("/")[2] != name:
        yield f"{inside} is {_cut(found)}"
    below = f"{inside}/"
    yield from (f"{_cut(path)} is {_cut(source)}" for path, source in each.mounts.items() if path.startswith(below))


def _cut(path: str) -> str:
    """Return a path that a pod's author chose, at a length that a line can bear."""
    return path if len(path) <= _LONGEST else f"{path[:_LONGEST]}…"


def _is_current(each: RuntimeObject) -> bool:
    return each.kind is ObjectKind.CONTAINER and each.state is not ObjectState.EXITED


def _named(each: RuntimeObject) -> str:
    if each.name is None:
        return f"container {each.id[:12]}"
    return f"{each.namespace}/{each.name}/{each.container}"


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return "; ".join((*texts[:_SHOWN], *((f"and {more} more",) if more > 0 else ())))
