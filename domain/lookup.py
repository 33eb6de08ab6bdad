"""The look-up rule: which memif sockets belong to a pod of this name.

The kubelet says which containers of the pod hold which ids now, but no uid and no plain init container; its
checkpoint says whose each of our answers is, but no name; the runtime knows name and uid together, but only once a
sandbox exists.  The rule joins them, and says "cannot tell" rather than guess: an agent that configures the wrong
socket connects two tenants.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from domain.allocation import Allocation
from domain.errors import MemifError
from domain.evidence import CheckpointView, PodDevices, RuntimeView, Unknown
from domain.holdings import NEVER, Holding, Holdings, Slot
from domain.identity import DeviceId, PodUid
from domain.ledger import Ledger
from domain.resource import ResourceName


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
    scene.refuse_another_name()
    match reading.kubelet:
        case Unknown(reason):
            return scene.without_kubelet(reason)
        case None:
            return scene.unknown_to_kubelet()
        case pod:
            return scene.known_to_kubelet(pod)


class _Scene:
    def __init__(
        self, question: Question, reading: Reading, ledger: Ledger, resources: frozenset[ResourceName]
    ) -> None:
        self._question = question
        self._reading = reading
        self._resources = resources
        self._own = (question.namespace, question.name)
        self._holdings = Holdings(ledger.live(), reading.checkpoint, reading.runtime, resources)
        self._names = self._holdings.names

    def refuse_another_name(self) -> None:
        """Refuse a uid that is known to belong to a pod of another name; names of uids never change."""
        uid = self._question.uid
        if uid is not None and self._names.get(uid, self._own) != self._own:
            raise NoPod(self._question.namespace, self._question.name, uid)

    def known_to_kubelet(self, pod: PodDevices) -> PodMemif:
        listed = {
            Slot(container, resource): devices
            for container, held in pod.containers.items()
            for resource, devices in held.items()
            if devices and resource in self._resources
        }
        if isinstance(self._reading.checkpoint, Unknown):
            return self._without_checkpoint(pod, listed, self._reading.checkpoint.reason)
        contenders = self._contenders(pod, listed)
        current = self._current(contenders, pod, listed)
        if self._question.uid is not None:
            return self._of_uid(self._question.uid, current, listed)
        if current is not None:
            return self._found(current, stale=False)
        raise self._undecided(contenders, listed)

    def _contenders(self, pod: PodDevices, listed: Holding) -> list[PodUid]:
        """Return the uids that may be the pod's newest incarnation, as names, containers, ids and times tell.

        Of incarnations that agree with the kubelet the newest counts.  A uid that agrees and whose name is not known
        yet may be a newer one, or another pod to which the kubelet gave the same ids, which it does in a race.  What
        was allocated while the kubelet was asked may be missing in its answer.
        """
        possible = [
            uid
            for uid in self._holdings.stored
            if self._names.get(uid, self._own) == self._own and listed.items() <= self._holdings.recorded(uid).items()
        ]
        agreeing = [uid for uid in possible if _agrees(self._holdings.recorded(uid), pod, listed)]
        newest = max((self._holdings.turn(uid) for uid in agreeing if uid in self._names), default=NEVER)
        candidates = possible if self._reading.disturbed else agreeing
        return [uid for uid in candidates if self._holdings.turn(uid) >= newest]

    def _current(self, contenders: list[PodUid], pod: PodDevices, listed: Holding) -> PodUid | None:
        """Return the pod's newest incarnation if it is certain.

        Containers and ids tell whose a uid is; where the kubelet lists no ids its name must be known.
        """
        match contenders:
            case [uid] if listed or (uid in self._names and _agrees(self._holdings.recorded(uid), pod, listed)):
                return None if self._surpassed(uid, listed) else uid
            case _:
                return None

    def _surpassed(self, uid: PodUid, listed: Holding) -> bool:
        """Whether something was granted since, for what the kubelet lists, that may be the pod's as well.

        The kubelet writes its record a moment after it stores an answer; until then an earlier holder of the same
        ids stands there.
        """
        wanted = {(slot.resource, devices) for slot, devices in listed.items()}
        return any(
            self._anybodys(each) and (not wanted or (each.resource, frozenset(each.devices)) in wanted)
            for each in self._holdings.unrecorded_since(self._holdings.turn(uid))
        )

    def _anybodys(self, allocation: Allocation) -> bool:
        """Whether an allocation that the record does not show may belong to any pod.

        The record showed it before if its uid is known: it is gone from there, unless there is none to be had.
        """
        uid = allocation.owner.uid
        return uid is None or (isinstance(self._reading.checkpoint, Unknown) and uid not in self._names)

    def _of_uid(self, uid: PodUid, current: PodUid | None, listed: Holding) -> PodMemif:
        """Answer for the uid that was asked for, while the kubelet knows a pod of that name."""
        if uid == current or (uid in self._names and self._holdings.of(uid)):
            return self._found(uid, stale=uid != current)
        if uid in self._holdings.stored:
            raise self._unknown(f"it is not certain yet that {uid} is its uid")
        if current is not None and listed:
            raise NoPod(self._question.namespace, self._question.name, uid)
        raise self._undecided([], listed)

    def _undecided(self, contenders: list[PodUid], listed: Holding) -> MemifError:
        if len(contenders) > 1:
            return self._unknown(f"{contenders[0]} and {contenders[1]} may both be its uid")
        if listed or (contenders and contenders[0] in self._names):
            return self._unknown("the kubelet's record does not show its devices yet")
        if contenders:
            return self._unknown("a pod whose name is not known yet holds what its init containers may hold")
        return self._nothing()

    def _nothing(self) -> MemifError:
        if self._reading.disturbed:
            return self._unknown("an allocation was made meanwhile")
        return NoMemif(self._question.namespace, self._question.name)

    def unknown_to_kubelet(self) -> PodMemif:
        """A pod that ended may still have containers, and after a kubelet start its pods come back one by one."""
        uids = self._asked(self._uids_by_name())
        if uids:
            return self._found(self._newest(uids), stale=True)
        raise NoPod(self._question.namespace, self._question.name, self._question.uid)

    def without_kubelet(self, reason: str) -> PodMemif:
        uids = self._asked(self._uids_by_name())
        if len(uids) == 1:
            return self._found(uids[0], stale=True)
        if uids:
            raise self._unknown(f"the name has {len(uids)} uids, and the kubelet cannot be asked: {reason}")
        raise self._unknown(f"the kubelet cannot be asked: {reason}")

    def _without_checkpoint(self, pod: PodDevices, listed: Holding, reason: str) -> PodMemif:
        """Go by the ledger alone: by the name if it is known, else by ids that nobody else holds.

        What unlisted init containers hold is known in the first case only.
        """
        named = self._uids_by_name()
        uids = self._asked(named)
        if len(uids) == 1:
            held = self._holdings.of(uids[0])
            slots = {Slot(each.owner.container, each.resource): frozenset(each.devices) for each in held}
            if _agrees(slots, pod, listed) and not self._surpassed(uids[0], listed):
                return self._answer(uids[0], held, stale=len(named) > 1)
        if listed:
            holders = [self._only_holder(slot, devices) for slot, devices in listed.items()]
            owners = {each.owner.uid for each in holders if each is not None} - {None}
            uid = next(iter(owners), None)
            if None not in holders and len(owners) <= 1 and self._question.uid in {None, uid}:
                return self._answer(uid, (each for each in self._holdings.live if each in holders), stale=False)
        raise self._unknown(f"the kubelet's checkpoint cannot be used: {reason}")

    def _only_holder(self, slot: Slot, devices: frozenset[DeviceId]) -> Allocation | None:
        """Return the allocation that a container holds, if the ids and what is known of its owner leave no other."""
        holders = [
            each
            for each in self._holdings.live
            if each.resource == slot.resource and not devices.isdisjoint(each.devices)
        ]
        if len(holders) != 1 or frozenset(holders[0].devices) != devices:
            return None
        owner = holders[0].owner
        return holders[0] if owner.name is None and owner.container in {None, slot.container} else None

    def _uids_by_name(self) -> list[PodUid]:
        """Return the uids of the name that hold something by the ledger, in the order of their first grant."""
        uids = dict.fromkeys(each.owner.uid for each in self._holdings.live)
        return [uid for uid in uids if uid is not None and self._names.get(uid) == self._own]

    def _asked(self, uids: list[PodUid]) -> list[PodUid]:
        return [uid for uid in uids if self._question.uid in {None, uid}]

    def _newest(self, uids: Iterable[PodUid]) -> PodUid:
        """Return the incarnation that was granted something last."""
        ranked = sorted(((self._holdings.turn(uid), uid) for uid in uids), reverse=True)
        if len(ranked) > 1 and ranked[0][0] == ranked[1][0]:
            raise self._unknown(f"{ranked[0][1]} and {ranked[1][1]} may both be its uid")
        return ranked[0][1]

    def _found(self, uid: PodUid, *, stale: bool) -> PodMemif:
        return self._answer(uid, self._holdings.of(uid), stale=stale)

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


def _agrees(holding: Holding, pod: PodDevices, listed: Holding) -> bool:
    """Whether a pod that holds this may be the one that the kubelet lists: unlisted init containers hold anything."""
    return {slot: ids for slot, ids in holding.items() if ids and slot.container in pod.containers} == listed
