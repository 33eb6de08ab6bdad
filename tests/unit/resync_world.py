"""A node in which pods come and go, with a kubelet, a runtime and a plugin that follows the resync rules.

Each part does what the real one does, as far as it matters for who may mount what:

* The kubelet forgets dead pods lazily: from its memory when it allocates or is listed, from its file when it stores an
  answer or is sent a device list.  What is in memory or file can be mounted, and is replayed without an Allocate.  It
  gives one device to several containers.  A restarted kubelet knows what its file says.
* A container appears some seconds after the PreStartContainer that announced it, whatever happens to its pod meanwhile.
  After a kubelet start there may be no announcement, and the runtime makes a missing directory itself.
* The plugin reads the kubelet's file, some time later the runtime, and plans some time after that.  What it does to
  directories is checked against the truth: see :meth:`Node.remove`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from domain import grant, start
from domain.adoption import Adoption, adoption
from domain.allocation import Allocation, Owner
from domain.answer import answer
from domain.evidence import (
    CheckpointEntry,
    CheckpointView,
    ObjectKind,
    ObjectState,
    RuntimeObject,
    RuntimeView,
    Unknown,
)
from domain.identity import AllocationId, DeviceId, PodUid
from domain.ledger import Ledger, Standing
from domain.resync import (
    Adopt,
    Ask,
    Evidence,
    Own,
    Policy,
    Release,
    Repair,
    Sweep,
    Wait,
    plan,
    uids_seen,
)
from tests.unit.domain_values import NOW, a_base, a_draw, a_pool, a_sandbox, an_id

POOL: Final = a_pool(capacity=3)
GRACE: Final = 30.0
INTERVAL: Final = 30.0
SOON: Final = 10.0
"""Seconds within which an announced container appears; less than the grace period, as on a node that works."""

Place = tuple[PodUid, str]
"""A container of a pod."""

USING = {ObjectState.CREATED, ObjectState.RUNNING, ObjectState.PAUSED}


@dataclass
class Node:
    """The truth: kubelet, runtime, directories, time."""

    now: float = 1000.0
    granted: dict[AllocationId, Allocation] = field(default_factory=dict)
    directories: dict[AllocationId, int] = field(default_factory=dict)
    made: int = 0

    pods: dict[PodUid, frozenset[str]] = field(default_factory=dict)
    """Containers of the pods that the kubelet is told to run."""
    answered: dict[Place, CheckpointEntry] = field(default_factory=dict)
    """What the plugin answered and the kubelet has not stored yet."""
    memory: dict[Place, CheckpointEntry] = field(default_factory=dict)
    file: dict[Place, CheckpointEntry] | None = field(default_factory=dict)
    """``None``: somebody deleted it."""

    objects: dict[str, RuntimeObject] = field(default_factory=dict)
    starting: list[CheckpointEntry] = field(default_factory=list)

    # ------------------------------------------------------------------------------------------------ directories

    def make(self, name: AllocationId) -> int:
        """Make a directory unless it is there, and return its inode."""
        if name not in self.directories:
            self.made += 1
            self.directories[name] = self.made
        return self.directories[name]

    def remove(self, name: AllocationId) -> None:
        """Remove a directory, which nobody may use or be able to use ever after."""
        path = self.path(name)
        mounting = [key for key, each in self.objects.items() if each.state in USING and path in each.mounts.values()]
        kept = [
            place
            for where in (self.answered, self.memory, self.file or {})
            for place in where
            if name in where[place].named()
        ]
        announced = [entry.uid for entry in self.starting if name in entry.named()]

        assert not mounting, f"{name} is mounted by {mounting}"
        assert not kept, f"the kubelet can mount {name} for {kept}"
        assert not announced, f"{name} is about to be mounted by {announced}"
        self.directories.pop(name, None)

    @staticmethod
    def path(name: AllocationId) -> str:
        return f"{POOL.host_dir}/{name}"

    # ---------------------------------------------------------------------------------------------------- kubelet

    def forget(self) -> None:
        """Drop dead pods from memory."""
        self.memory = {place: entry for place, entry in self.memory.items() if place[0] in self.pods}

    def write(self) -> None:
        """Write the file."""
        self.file = dict(self.memory)

    def restart_kubelet(self) -> None:
        """Start again from the file; an answer that was not stored yet is lost."""
        self.answered.clear()
        self.memory = dict(self.file or {})

    def answer(self, uid: PodUid, container: str, granted: Allocation) -> None:
        """Hear the plugin's answer."""
        given = answer(POOL, granted)
        entry = CheckpointEntry(
            uid=uid, container=container, resource=POOL.resource, devices=granted.devices, answer=given
        )
        self.answered[uid, container] = entry

    def store(self) -> None:
        """Store what was answered, and write the file."""
        if self.answered:
            self.memory.update(self.answered)
            self.answered.clear()
            self.write()

    # ---------------------------------------------------------------------------------------------------- runtime

    def sandbox(self, uid: PodUid) -> None:
        """Make a pod's sandbox unless it has one."""
        sandbox = a_sandbox(Owner(uid=uid, namespace="telco", name=f"name-of-{uid}"), id=f"sandbox-of-{uid}")
        self.objects.setdefault(sandbox.id, sandbox)

    def create(self, entry: CheckpointEntry, *, announced: bool) -> None:
        """Create a container; the runtime makes a missing mount source, but nothing announced may be missing."""
        (name,) = entry.named()

        assert not announced or name in self.directories, f"{name} is gone when its container appears"
        self.make(name)
        number = f"container-{len(self.objects)}-{self.now}"
        self.objects[number] = RuntimeObject(
            id=number,
            kind=ObjectKind.CONTAINER,
            state=ObjectState.RUNNING,
            uid=entry.uid,
            namespace="telco",
            name=f"name-of-{entry.uid}",
            container=entry.container,
            mounts={POOL.container_dir: self.path(name)},
            claimed=entry.answer.annotations,
        )

    def appear(self) -> None:
        """Let every announced container appear."""
        for entry in self.starting:
            self.create(entry, announced=True)
        self.starting.clear()

    def tidy(self, uid: PodUid) -> None:
        """Remove all that exists of a pod."""
        self.objects = {key: each for key, each in self.objects.items() if each.uid != uid}
        self.starting = [entry for entry in self.starting if entry.uid != uid]

    # ------------------------------------------------------------------------------------------------------- time

    def advance(self, seconds: float) -> None:
        """Let time pass; what is under way is over soon."""
        if seconds >= SOON:
            self.store()
            self.appear()
        self.now += seconds

    def reboot(self, *, objects_survive: bool) -> None:
        """Lose what is in memory: processes and directories."""
        self.directories.clear()
        self.starting.clear()
        self.answered.clear()
        kept = self.objects if objects_survive else {}
        self.objects = {key: replace(each, state=ObjectState.EXITED) for key, each in kept.items()}
        self.restart_kubelet()


class Plugin:
    """The use cases' part, without ports: it looks, plans, does."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._journal: dict[AllocationId, tuple[Allocation, Standing]] = {}
        self.ledger = Ledger()
        self._begin()

    def _begin(self) -> None:
        self._checkpoint: CheckpointView | Unknown = Unknown("not read yet")
        self._runtime: RuntimeView | Unknown = Unknown("not read yet")
        self._doubted = self._asked = False
        self._first_seen: dict[str, float] = {}
        self._listed: float | None = None
        self.phase = "idle"

    def restart(self, *, journal_lost: bool = False, record_lost: bool = False) -> None:
        """Start again: journal, adoption, repair, all before registering."""
        self._begin()
        if journal_lost:
            self._journal.clear()
        node = self._node
        self.ledger = Ledger().with_live((allocation for allocation, _ in self._journal.values()), at=node.now)
        for allocation, standing in self._journal.values():
            self.ledger = self.ledger.standing(allocation.id, standing)
        self._adopt_all(self._record(lost=record_lost))
        self._ensure(self.ledger.live())

    def allocate(self, devices: list[DeviceId], *, overtaken: bool) -> Allocation:
        """Grant one container request; a reconcile may come between the directory and the ledger."""
        node = self._node
        (granted,) = grant.plan(POOL, [devices], self.ledger, [a_draw(len(node.granted))], now=NOW).allocations
        node.granted[granted.id] = granted
        self._journal[granted.id] = (granted, Standing.LIVE)
        inode = node.make(granted.id)
        if overtaken and self.phase == "all read":
            self.reconcile()
            assert granted.id in node.directories, f"{granted.id} is gone before it is answered"
        self.ledger = self.ledger.with_live((granted,), at=node.now).made({granted.id: inode})
        return granted

    def pre_start(self, devices: tuple[DeviceId, ...]) -> bool:
        """Make sure of everything that a starting container may mount; tell whether it may start."""
        record = self._record(lost=False)
        self._adopt_all(record)
        try:
            found = start.plan(devices, self.ledger, record)
        except start.NothingKnown:
            return False
        self.ledger = self.ledger.touched((each.allocation.id for each in found.candidates), at=self._node.now)
        for each in found.candidates:
            self._journal[each.allocation.id] = (each.allocation, Standing.LIVE)
        self._ensure(each.allocation for each in found.candidates)
        return True

    def read_checkpoint(self, *, lost: bool = False) -> None:
        """Begin a look at the node: the kubelet's file comes first."""
        self._checkpoint = self._record(lost=lost)
        self.phase = "record read"

    def read_runtime(self, *, lost: bool = False, blank: bool = False) -> None:
        """Go on with it; a runtime that shows no pod is doubted if the kubelet, listed for that, has one."""
        node = self._node
        shown = () if blank else tuple(node.objects.values())
        self._runtime = Unknown("it does not answer") if lost else RuntimeView(began=node.now, objects=shown)
        empty = isinstance(self._runtime, RuntimeView) and not uids_seen(self._runtime)
        self._asked = empty and self._may_list()
        if self._asked:
            self._list()
        self._doubted = empty and (not self._asked or bool(node.pods))
        self.phase = "all read"

    def reconcile(self, *, dies_releasing: bool = False) -> None:
        """Plan by what was read, however long ago, and do it."""
        node = self._node
        self.phase = "idle"
        base = a_base(host_dir=POOL.host_dir, inodes=dict(node.directories))
        self._first_seen = {
            node.path(name): self._first_seen.get(node.path(name), node.now)
            for name in base.inodes
            if name not in self.ledger
        }
        evidence = Evidence(
            runtime=self._runtime,
            checkpoint=self._checkpoint,
            directories=(base,),
            empty_runtime_doubted=self._doubted,
            first_seen=self._first_seen,
        )
        policy = Policy(grace=GRACE, may_ask=self._asked or self._may_list())
        for effect in plan(self.ledger, evidence, (POOL,), policy, now=NOW):
            if isinstance(effect, Release) and dies_releasing:
                self._journal[effect.id] = (self.ledger.records[effect.id].allocation, Standing.RELEASING)
                self.restart()
                return
            self._do(effect)

    def _do(self, effect: object) -> None:
        match effect:
            case Adopt():
                self._adopt(effect.adoption)
            case Own():
                self.ledger = self.ledger.owned(effect.id, effect.owner)
                self._journal[effect.id] = (self.ledger.records[effect.id].allocation, Standing.LIVE)
            case Repair():
                self._ensure((self.ledger.records[effect.id].allocation,))
            case Release():
                self._node.remove(effect.id)
                self.ledger = self.ledger.without((effect.id,))
                del self._journal[effect.id]
            case Sweep():
                self._node.remove(effect.id)
            case Ask():
                if not self._asked:
                    self._list()
                self._node.write()
            case _:
                assert isinstance(effect, Wait)

    def _record(self, *, lost: bool) -> CheckpointView | Unknown:
        node = self._node
        if node.file is None or lost:
            return Unknown("it cannot be read")
        return CheckpointView(began=node.now, entries=tuple(node.file.values()))

    def _adopt_all(self, record: CheckpointView | Unknown) -> None:
        for entry in record.entries if isinstance(record, CheckpointView) else ():
            found = adoption(entry, (POOL,), now=NOW)
            if found is not None:
                self._adopt(found)

    def _adopt(self, found: Adoption) -> None:
        allocation = found.allocation
        if allocation.id not in self.ledger:
            self.ledger = self.ledger.with_live((allocation,), at=self._node.now)
            self._journal[allocation.id] = (allocation, Standing.LIVE)
            self._ensure((allocation,))

    def _ensure(self, allocations: Iterable[Allocation]) -> None:
        self.ledger = self.ledger.made({each.id: self._node.make(each.id) for each in allocations})

    def _may_list(self) -> bool:
        return self._listed is None or self._node.now - self._listed >= INTERVAL

    def _list(self) -> None:
        assert self._may_list()
        self._listed = self._node.now
        self._node.forget()

    @property
    def remembered(self) -> set[AllocationId]:
        """What the journal holds."""
        return set(self._journal)


def orphan(node: Node) -> None:
    """Leave a directory of a grant that was never recorded."""
    node.make(an_id(900 + node.made))
