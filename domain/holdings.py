"""What each pod holds and when it was granted it, found once for the look-up rule."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from domain.allocation import Allocation
from domain.evidence import CheckpointEntry, CheckpointView, RuntimeView, Unknown
from domain.identity import AllocationId, DeviceId, PodUid
from domain.resource import ResourceName

NEVER: Final = -1
"""The turn before every grant."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One container and resource of a pod."""

    container: str | None
    resource: ResourceName


Holding: TypeAlias = Mapping[Slot, frozenset[DeviceId]]
"""What a pod holds, or is said to hold."""


class Holdings:
    """What there is of every pod, by its uid.

    Args:
        live: the living allocations, in the order of their grant.
        checkpoint: the kubelet's record.
        runtime: a reading of any age.
        resources: ours; entries of others do not count.

    Attributes:
        live: as given.
        stored: what the kubelet's record has of a uid.
        names: namespace and name of a uid, as far as they are known.
    """

    def __init__(
        self,
        live: Sequence[Allocation],
        checkpoint: CheckpointView | Unknown,
        runtime: RuntimeView | Unknown,
        resources: frozenset[ResourceName],
    ) -> None:
        self.live = live
        self.stored = _stored(checkpoint, resources)
        self.names = _names(runtime, live)
        self._places = {each.id: place for place, each in enumerate(live)}
        self._turns = _turns(live)
        self._recorded = {name for entries in self.stored.values() for entry in entries for name in entry.named()}

    def recorded(self, uid: PodUid) -> Holding:
        """Return what the kubelet's record, which has the uid, says that it holds."""
        return {Slot(each.container, each.resource): frozenset(each.devices) for each in self.stored[uid]}

    def of(self, uid: PodUid) -> list[Allocation]:
        """Return what a uid holds: by the checkpoint, or by the ledger if the checkpoint does not name the uid.

        By the ledger a container may have been granted twice: a static pod that was away for a while comes back with
        the same uid.  The later grant is what it mounts.
        """
        if uid in self.stored:
            places = {self._places.get(name) for entry in self.stored[uid] for name in entry.named()}
            return [self.live[place] for place in sorted(place for place in places if place is not None)]
        owned = [each for each in self.live if each.owner.uid == uid]
        latest = {(each.owner.container, each.resource): each.id for each in owned}
        return [each for each in owned if each.id == latest[each.owner.container, each.resource]]

    def turn(self, uid: PodUid) -> int:
        """Return the turn at which a uid was granted something last."""
        return max((self._turns[each.id] for each in self.of(uid)), default=NEVER)

    def unrecorded_since(self, turn: int) -> Iterator[Allocation]:
        """Yield what was granted in a turn or later and is not in the kubelet's record."""
        for each in self.live:
            if self._turns[each.id] >= turn and each.id not in self._recorded:
                yield each


def _turns(live: Sequence[Allocation]) -> dict[AllocationId, int]:
    """Return when each allocation had its turn, as a number that only grows.

    That is its place in the ledger, because a clock may be set back.  What has exactly the same time had the same
    turn: an Allocate for several containers, and whatever was adopted together, of which nobody knows the order.
    """
    first: dict[datetime, int] = {}
    return {each.id: first.setdefault(each.granted, place) for place, each in enumerate(live)}


def _stored(view: CheckpointView | Unknown, resources: frozenset[ResourceName]) -> dict[PodUid, list[CheckpointEntry]]:
    stored: dict[PodUid, list[CheckpointEntry]] = {}
    for entry in view.entries if isinstance(view, CheckpointView) else ():
        if entry.resource in resources:
            stored.setdefault(entry.uid, []).append(entry)
    return stored


def _names(view: RuntimeView | Unknown, live: Sequence[Allocation]) -> dict[PodUid, tuple[str, str]]:
    known = {
        owner.uid: (owner.namespace, owner.name)
        for owner in (each.owner for each in live)
        if owner.uid is not None and owner.namespace is not None and owner.name is not None
    }
    for each in view.objects if isinstance(view, RuntimeView) else ():
        if each.uid is not None and each.namespace is not None and each.name is not None:
            known.setdefault(each.uid, (each.namespace, each.name))
    return known
