"""The rule for PreStartContainer: which directories a starting container may be about to mount.

It is the one call that the kubelet repeats before every start of a container, also after a reboot, when the
directories' file system is empty and Allocate is not called again.  It names device ids, not a pod, and an id may be
held by several containers at once; so everything that may be meant is made sure of, and only the trouble of what is
surely meant stops the start.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.errors import MemifError
from domain.evidence import CheckpointView, Unknown
from domain.identity import AllocationId, DeviceId
from domain.ledger import Ledger, Record
from domain.resource import ResourceName


class NothingKnown(MemifError):
    """A container is about to start with an id that neither the ledger nor the kubelet's checkpoint names."""

    def __init__(self, devices: Sequence[str]) -> None:
        super().__init__(
            f"no memif allocation is known for {', '.join(devices)}: neither this plugin's journal nor the "
            "kubelet's checkpoint names it. If it does not pass within a minute, delete the pod so that it is "
            "admitted anew"
        )
        self.devices = tuple(devices)


class NotServing(MemifError):
    """The plugin is stopping, or another process of it is the active one."""

    def __init__(self, what: str = "the call") -> None:
        super().__init__(f"{what} was not begun: the memif device plugin is stopping; try again in a moment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a start is about.

    Attributes:
        candidates: everything that holds one of the ids; each must have its directory.
        meant: what the container will mount, as far as it can be told; trouble with another's directory is reported
            and stops nobody.
    """

    candidates: tuple[Record, ...]
    meant: frozenset[AllocationId]


def plan(resource: ResourceName, devices: Sequence[str], ledger: Ledger, checkpoint: CheckpointView | Unknown) -> Start:
    """Return whose directories a container with these ids of a resource needs.

    The ledger must have adopted what the checkpoint names.

    Raises:
        NothingKnown: nobody holds one of the ids.
    """
    ids = frozenset(map(DeviceId, devices))
    candidates = ledger.holding(resource, ids)
    unknown = ids.difference(*(record.allocation.devices for record in candidates))
    if unknown:
        raise NothingKnown(sorted(unknown))
    exact = [record.allocation.id for record in candidates if frozenset(record.allocation.devices) == ids]
    named = _named(resource, ids, checkpoint).intersection(record.allocation.id for record in candidates)
    return Start(candidates=candidates, meant=named or frozenset(exact[-1:]))


def _named(
    resource: ResourceName, ids: frozenset[DeviceId], checkpoint: CheckpointView | Unknown
) -> frozenset[AllocationId]:
    entries = checkpoint.entries if isinstance(checkpoint, CheckpointView) else ()
    exact = (entry for entry in entries if entry.resource == resource and frozenset(entry.devices) == ids)
    return frozenset(name for entry in exact for name in entry.named())
