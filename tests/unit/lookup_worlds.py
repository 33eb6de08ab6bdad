"""Random small nodes, played event by event, and one moment of them seen through views that show more or less.

The kubelet of such a node reuses ids, gives one to two pods, keeps entries of dead pods in its file, and writes that
file a moment after it stored an answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Final, TypeVar

from domain.allocation import Allocation, Owner
from domain.evidence import CheckpointEntry, CheckpointView, PodDevices, RuntimeView, Unknown
from domain.identity import AllocationId, DeviceId, PodUid
from domain.ledger import Ledger
from domain.lookup import PodMemif, Question, Reading, look_up
from domain.pool import Pool
from domain.resource import ResourceName
from tests.unit.domain_values import NOW, a_pool, a_sandbox, an_entry, device_ids, numbered

NAMESPACE: Final = "telco"
INIT: Final = "init"
"""A plain init container, which the kubelet never lists."""

_NAMES = ("one", "two")
_LISTED = ("app", "side")
_View = TypeVar("_View")
_POOLS = tuple(
    a_pool(resource=ResourceName(f"example.com/{name}"), capacity=3, device_id="memif-{index}")
    for name in ("slow", "fast")
)


@dataclass(eq=False)
class Pod:
    """One incarnation, and what it was granted, in order."""

    uid: PodUid
    name: str
    granted: list[tuple[str, Allocation]] = field(default_factory=list)

    @property
    def ids(self) -> frozenset[AllocationId]:
        """Everything that it was granted."""
        return frozenset(allocation.id for _, allocation in self.granted)

    @property
    def only_init(self) -> bool:
        """Whether the kubelet lists nothing of what it holds."""
        return all(container == INIT for container, _ in self.granted)


@dataclass(frozen=True)
class Moment:
    """The kubelet right after something happened.

    Attributes:
        pods: those that it knows, by name.
        stored: what it stored, which is also what it writes to its file then.
        grants: how many there were.
    """

    pods: Mapping[str, Pod]
    stored: tuple[CheckpointEntry, ...]
    grants: int

    def listing(self, name: str) -> PodDevices | None:
        """Return what the kubelet lists of a pod."""
        pod = self.pods.get(name)
        if pod is None:
            return None
        containers: dict[str, dict[ResourceName, frozenset[DeviceId]]] = {container: {} for container in _LISTED}
        for entry in self.stored:
            if entry.uid == pod.uid and entry.container in containers:
                containers[entry.container][entry.resource] = frozenset(entry.devices)
        return PodDevices(namespace=NAMESPACE, name=name, containers=containers)

    def named(self, uid: PodUid) -> frozenset[AllocationId]:
        """Return the allocations that are stored for a uid."""
        return frozenset(name for entry in self.stored if entry.uid == uid for name in entry.named())


class _Node:
    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._set_back = 0
        self.pods: list[Pod] = []
        self.grants: list[tuple[PodUid, str, Allocation]] = []
        self.moments = [Moment(pods={}, stored=(), grants=0)]

    def delete(self, name: str) -> None:
        """A pod goes; its entries stay in the file until something makes the kubelet write it."""
        now = self.moments[-1]
        self.moments.append(replace(now, pods={key: pod for key, pod in now.pods.items() if key != name}))

    def admit(self, name: str) -> None:
        """A pod comes, in the place of an earlier one of its name if there is one."""
        self.delete(name)
        pod = Pod(uid=PodUid(f"uid-{len(self.pods)}"), name=name)
        self.pods.append(pod)
        now = self.moments[-1]
        self.moments.append(replace(now, pods={**now.pods, name: pod}))
        alive = {each.uid for each in self.moments[-1].pods.values()}
        forgets = self._chance.random() < 0.5  # the kubelet forgets the dead now, unless it is not ready to
        stored = tuple(entry for entry in now.stored if entry.uid in alive or not forgets)
        wanting = self._chance.choice((0.1, 0.5))
        for container in (INIT, *_LISTED):
            for pool in _POOLS:
                if self._chance.random() < wanting:
                    stored = (*stored, self._grant(pod, container, pool))
                    self.moments.append(Moment(pods=self.moments[-1].pods, stored=stored, grants=len(self.grants)))

    def _grant(self, pod: Pod, container: str, pool: Pool) -> CheckpointEntry:
        """Give any ids: the init container's, another pod's in a race, those of one deleted by force, free ones.

        Now and then the node's clock is set back before.
        """
        self._set_back += self._chance.choice((0, 0, 0, 0, 1))
        ids = sorted(self._chance.sample(range(pool.capacity), self._chance.choice((1, 1, 2))))
        number = len(self.grants)
        granted = NOW + timedelta(seconds=number, hours=-self._set_back)
        allocation = numbered(number, pool=pool, devices=device_ids(*ids, pool=pool), granted=granted)
        self.grants.append((pod.uid, container, allocation))
        pod.granted.append((container, allocation))
        return an_entry(allocation, pod.uid, container, pool)


@dataclass(frozen=True)
class Seen:
    """One look-up, and the truth to compare its answer with.

    Attributes:
        asked: when the kubelet was asked.
        file: when its file was read.
        present: the incarnations that the name had meanwhile; ``None`` if none at a moment.
        pods: everybody who ever was, by uid.
    """

    question: Question
    reading: Reading
    ledger: Ledger
    asked: Moment
    file: Moment
    present: tuple[Pod | None, ...]
    pods: Mapping[PodUid, Pod]

    def answer(self) -> PodMemif:
        """Look up."""
        return look_up(self.question, self.reading, self.ledger, [pool.resource for pool in _POOLS])


def look(seed: int, *, clear: bool = False) -> Seen:
    """Return one of very many look-ups; a clear one sees everything, in one moment and with all names."""
    chance = Random(seed)
    node = _Node(chance)
    for _ in range(chance.randint(1, 4)):
        happens = node.delete if chance.random() < 0.2 else node.admit
        happens(chance.choice(_NAMES))

    # The kubelet is asked, then its file is read, which is behind what the kubelet said by one answer at most.
    last = len(node.moments) - 1
    asked = last if clear else last - min(last, chance.choice((0, 0, 1, 2, 3)))
    read = last if clear else chance.randint(max(0, asked - 1), last)
    earlier, later = min(asked, read), max(asked, read)
    question = Question(
        namespace=NAMESPACE,
        name=chance.choice([pod.name for pod in node.pods] or _NAMES),
        uid=chance.choice([None, None, None, *(pod.uid for pod in node.pods)]),
    )
    sandboxes = [
        a_sandbox(Owner(uid=each.uid, namespace=NAMESPACE, name=each.name))
        for each in node.pods
        if clear or chance.random() < 0.5
    ]

    def unless_lost(view: _View) -> _View | Unknown:
        return Unknown("it is not to be had") if not clear and chance.random() < 0.2 else view

    reading = Reading(
        kubelet=unless_lost(node.moments[asked].listing(question.name)),
        checkpoint=unless_lost(CheckpointView(began=0.0, entries=node.moments[read].stored)),
        runtime=unless_lost(RuntimeView(began=0.0, objects=tuple(sandboxes))),
        disturbed=node.moments[earlier].grants < len(node.grants) or (not clear and chance.random() < 0.3),
    )
    return Seen(
        question=question,
        reading=reading,
        ledger=_ledger(chance, node, reading, read, clear=clear),
        asked=node.moments[asked],
        file=node.moments[read],
        present=tuple(moment.pods.get(question.name) for moment in node.moments[earlier : later + 1]),
        pods={pod.uid: pod for pod in node.pods},
    )


def _ledger(chance: Random, node: _Node, reading: Reading, read: int, *, clear: bool) -> Ledger:
    """Return what we remember of the grants, in their order, as far as a node's life lets us.

    Uid and container are known of what the file shows, and perhaps of what it showed before; a name perhaps, from an
    earlier look at the runtime.  What is gone from everywhere may have been released.  After a lost journal the
    earliest were adopted, all in one moment.
    """

    def stored_in(moments: list[Moment]) -> set[AllocationId]:
        return {name for moment in moments for entry in moment.stored for name in entry.named()}

    shown = set() if isinstance(reading.checkpoint, Unknown) else stored_in([node.moments[read]])
    before, needed = stored_in(node.moments[:read]), stored_in(node.moments[max(0, read - 3) :])
    names = {pod.uid: pod.name for pod in node.pods if clear or chance.random() < 0.5}
    adopted = 0 if clear else max(0, chance.randint(-len(node.grants), len(node.grants)))
    kept = []
    for number, (uid, container, granted) in enumerate(node.grants):
        if granted.id not in needed and chance.random() < 0.5:
            continue
        allocation = replace(granted, granted=node.grants[adopted - 1][2].granted) if number < adopted else granted
        if granted.id in shown or (granted.id in before and (clear or chance.random() < 0.5)):
            known = Owner(uid=uid, container=container)
            if uid in names:
                known = replace(known, namespace=NAMESPACE, name=names[uid])
            allocation = allocation.owned_by(known)
        kept.append(allocation)
    return Ledger().with_live(kept, at=0.0)
