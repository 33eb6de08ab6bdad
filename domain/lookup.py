"""The look-up rule: which memif sockets belong to a pod of this name.

The kubelet says which containers of the pod hold which ids now, but no uid and no plain init container; its
checkpoint says whose each of our answers is, but no name; the runtime knows name and uid together, but only once a
sandbox exists.  The rule joins them, and says "cannot tell" rather than guess: an agent that configures the wrong
socket connects two tenants.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from domain.allocation import Allocation
from domain.errors import MemifError
from domain.evidence import CheckpointEntry, CheckpointView, PodDevices, RuntimeView, Unknown
from domain.identity import DeviceId, PodUid
from domain.ledger import Ledger
from domain.resource import ResourceName

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class NoPod(MemifError):
    """The kubelet does not know the pod, and nothing of it is left."""

    reason = "NO_POD"

    def __init__(self, namespace: str, name: str, uid: str | None = None) -> None:
        super().__init__(f"no pod {namespace}/{name}{f' with uid {uid}' if uid else ''} on this node")


class NoMemif(MemifError):
    """The pod is there and holds no memif."""

    reason = "NO_MEMIF"

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(f"pod {namespace}/{name} holds no memif")


class UnknownNow(MemifError):
    """Nothing certain can be said at the moment; ask again."""

    reason = "UNKNOWN_NOW"

    def __init__(self, namespace: str, name: str, why: str) -> None:
        super().__init__(f"cannot tell now what pod {namespace}/{name} holds: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerMemif:
    """What one container of a pod was given."""

    name: str | None
    allocation: Allocation

    @property
    def bound(self) -> bool:
        """Whether the owner is completely known."""
        return self.allocation.owner.complete


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMemif:
    """What a pod was given: one entry a container and resource, init containers included, in the order of grant.

    Attributes:
        stale: the kubelet could not confirm that it is so now.
    """

    namespace: str
    name: str
    uid: PodUid | None
    stale: bool
    containers: tuple[ContainerMemif, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Whose memif is asked for."""

    namespace: str
    name: str
    uid: PodUid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read to answer.

    Attributes:
        kubelet: the pod's devices, ``None`` if the kubelet does not know the pod.
        checkpoint: read after the kubelet had answered.
        runtime: the last reading, of any age; it only joins names and uids, which never change.
        disturbed: an Allocate was in flight, or answered, so shortly before or during the reading that the kubelet
            may not have told all.
    """

    kubelet: PodDevices | Unknown | None
    checkpoint: CheckpointView | Unknown
    runtime: RuntimeView | Unknown
    disturbed: bool


def look_up(question: Question, reading: Reading, ledger: Ledger, resources: Iterable[ResourceName]) -> PodMemif:
    """Return what the pod's newest incarnation, or the one that was asked for, holds.

    The ledger must have adopted what the checkpoint names, so that each entry's allocation is in it.

    Raises:
        NoPod, NoMemif: certain answers.
        UnknownNow: no certain answer; the caller reads once more before it passes this on.
    """
    scene = _Scene(question, reading, ledger, frozenset(resources))
    match reading.kubelet:
        case Unknown(reason):
            return scene.without_kubelet(reason)
        case None:
            return scene.unknown_to_kubelet()
        case PodDevices():
            return scene.known_to_kubelet(reading.kubelet)


@dataclass(frozen=True, slots=True)
class _Slot:
    """One container and resource of a pod."""

    container: str
    resource: ResourceName


class _Scene:
    def __init__(
        self, question: Question, reading: Reading, ledger: Ledger, resources: frozenset[ResourceName]
    ) -> None:
        self._question = question
        self._reading = reading
        self._live = ledger.live()
        self._resources = resources
        self._own = (question.namespace, question.name)
        self._stored = _stored(reading.checkpoint, resources)
        self._names = _names(reading.runtime, self._live)

    def known_to_kubelet(self, pod: PodDevices) -> PodMemif:
        listed = {
            _Slot(container, resource): devices
            for container, held in pod.containers.items()
            for resource, devices in held.items()
            if devices and resource in self._resources
        }
        if isinstance(self._reading.checkpoint, Unknown):
            return self._without_checkpoint(listed, self._reading.checkpoint.reason)
        if self._question.uid is not None and self._question.uid in self._stored:
            return self._found(self._question.uid, stale=not self._matches(self._question.uid, listed))
        matching = [uid for uid in self._candidates() if self._matches(uid, listed)]
        if not listed:
            matching = [uid for uid in matching if uid in self._names]
        if self._question.uid is not None:
            return self._of_absent_uid(superseded=bool(matching))
        if matching:
            return self._found(self._newest(matching), stale=False)
        if listed:
            raise self._unknown("the kubelet's record does not show its devices yet")
        if self._anonymous(pod):
            raise self._unknown("a pod whose name is not known yet holds a device that may be its init container's")
        raise self._nothing()

    def _of_absent_uid(self, *, superseded: bool) -> PodMemif:
        """Answer for a uid that the checkpoint does not name, while the kubelet knows a pod of that name."""
        held = self._held_by_name()
        if held:
            return self._found(self._newest(held), stale=True)
        if superseded:
            raise NoPod(self._question.namespace, self._question.name, self._question.uid)
        raise self._nothing()

    def _nothing(self) -> MemifError:
        if self._reading.disturbed:
            return self._unknown("an allocation was made meanwhile")
        return NoMemif(self._question.namespace, self._question.name)

    def unknown_to_kubelet(self) -> PodMemif:
        """A pod that ended may still have containers, and after a kubelet start its pods come back one by one."""
        held = self._held_by_name()
        if held:
            return self._found(self._newest(held), stale=True)
        raise NoPod(self._question.namespace, self._question.name, self._question.uid)

    def without_kubelet(self, reason: str) -> PodMemif:
        held = self._held_by_name()
        if len(held) == 1:
            return self._found(next(iter(held)), stale=True)
        if held:
            raise self._unknown(f"the name has {len(held)} uids, and the kubelet cannot be asked: {reason}")
        raise self._unknown(f"the kubelet cannot be asked: {reason}")

    def _without_checkpoint(self, listed: Mapping[_Slot, frozenset[DeviceId]], reason: str) -> PodMemif:
        """Go by the ledger alone: by the name if it is known, else by ids that nobody else holds."""
        held = self._held_by_name()
        if len(held) == 1:
            ((uid, allocations),) = held.items()
            if all(self._covered(slot, devices, allocations) for slot, devices in listed.items()):
                return self._answer(uid, allocations, stale=False)
        if listed and not held:
            found = [self._only_holder(devices, listed) for devices in listed.values()]
            certain = [each for each in found if each is not None]
            if len(certain) == len(listed):
                return self._answer(None, certain, stale=False)
        raise self._unknown(f"the kubelet's checkpoint cannot be used: {reason}")

    def _covered(self, slot: _Slot, devices: frozenset[DeviceId], allocations: Iterable[Allocation]) -> bool:
        return any(
            each.owner.container == slot.container and frozenset(each.devices) == devices for each in allocations
        )

    def _only_holder(
        self, devices: frozenset[DeviceId], listed: Mapping[_Slot, frozenset[DeviceId]]
    ) -> Allocation | None:
        holders = [each for each in self._live if not devices.isdisjoint(each.devices)]
        alone = len(holders) == 1 and frozenset(holders[0].devices) == devices and not holders[0].owner.name
        return holders[0] if alone and list(listed.values()).count(devices) == 1 else None

    def _candidates(self) -> list[PodUid]:
        return [uid for uid in self._stored if self._names.get(uid, self._own) == self._own]

    def _matches(self, uid: PodUid, listed: Mapping[_Slot, frozenset[DeviceId]]) -> bool:
        stored = {_Slot(entry.container, entry.resource): frozenset(entry.devices) for entry in self._stored[uid]}
        return all(stored.get(slot) == devices for slot, devices in listed.items())

    def _anonymous(self, pod: PodDevices) -> bool:
        """Whether a pod without a known name holds only what this pod's unlisted init containers could hold."""
        return any(
            uid not in self._names and all(entry.container not in pod.containers for entry in entries)
            for uid, entries in self._stored.items()
        )

    def _held_by_name(self) -> dict[PodUid, list[Allocation]]:
        held: dict[PodUid, list[Allocation]] = {}
        for each in self._live:
            uid = each.owner.uid
            if uid is not None and self._names.get(uid) == self._own and self._question.uid in {None, uid}:
                held.setdefault(uid, []).append(each)
        return held

    def _newest(self, uids: Iterable[PodUid]) -> PodUid:
        """Return the incarnation that was granted something last; of equals, the one whose name is known."""
        ranked = sorted(((self._granted(uid), uid in self._names, uid) for uid in uids), reverse=True)
        if len(ranked) > 1 and ranked[0][:2] == ranked[1][:2]:
            raise self._unknown(f"{ranked[0][2]} and {ranked[1][2]} may both be its uid")
        return ranked[0][2]

    def _granted(self, uid: PodUid) -> datetime:
        return max((each.granted for each in self._holdings(uid)), default=_LONG_AGO)

    def _holdings(self, uid: PodUid) -> list[Allocation]:
        """Return what a uid holds: by the checkpoint, or by the ledger if the checkpoint does not name the uid."""
        entries = self._stored.get(uid, ())
        names = {name for entry in entries for name in entry.named()}
        return [each for each in self._live if (each.id in names if entries else each.owner.uid == uid)]

    def _found(self, uid: PodUid, *, stale: bool) -> PodMemif:
        if self._names.get(uid, self._own) != self._own:
            raise NoPod(self._question.namespace, self._question.name, uid)
        return self._answer(uid, self._holdings(uid), stale=stale)

    def _answer(self, uid: PodUid | None, allocations: Iterable[Allocation], *, stale: bool) -> PodMemif:
        containers = tuple(ContainerMemif(name=each.owner.container, allocation=each) for each in allocations)
        if not containers:
            raise self._nothing()
        return PodMemif(
            namespace=self._question.namespace,
            name=self._question.name,
            uid=uid,
            stale=stale,
            containers=containers,
        )

    def _unknown(self, why: str) -> UnknownNow:
        return UnknownNow(self._question.namespace, self._question.name, why)


def _stored(view: CheckpointView | Unknown, resources: frozenset[ResourceName]) -> dict[PodUid, list[CheckpointEntry]]:
    stored: dict[PodUid, list[CheckpointEntry]] = {}
    for entry in view.entries if isinstance(view, CheckpointView) else ():
        if entry.resource in resources:
            stored.setdefault(entry.uid, []).append(entry)
    return stored


def _names(view: RuntimeView | Unknown, live: Iterable[Allocation]) -> dict[PodUid, tuple[str, str]]:
    known = {
        owner.uid: (owner.namespace, owner.name)
        for owner in (each.owner for each in live)
        if owner.uid is not None and owner.namespace is not None and owner.name is not None
    }
    for each in view.objects if isinstance(view, RuntimeView) else ():
        if each.uid is not None and each.namespace is not None and each.name is not None:
            known.setdefault(each.uid, (each.namespace, each.name))
    return known
