"""A node in which pods come and go, with a kubelet and a runtime.

Each part does what the real one does, as far as it matters for who may mount what:

* The kubelet forgets dead pods lazily: from its memory when it allocates or is listed, from its file when it stores an
  answer or is sent a device list.  What is in memory or file can be mounted, and is replayed without an Allocate.  It
  gives one device to several containers.  A restarted kubelet knows what its file says.
* A container appears some seconds after the PreStartContainer that announced it, whatever happens to its pod meanwhile.
  After a kubelet start there may be no announcement, and the runtime makes a missing directory itself.
* Tenants may write claims of memif onto what is theirs, and may mount what they like: see
  :mod:`tests.unit.resync_forgers`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from domain.allocation import Allocation, Owner
from domain.answer import answer
from domain.evidence import CheckpointEntry, ObjectKind, ObjectState, RuntimeObject
from domain.identity import AllocationId, PodUid
from tests.unit.domain_values import a_pool, a_sandbox, an_id

POOL: Final = a_pool(capacity=3)
SOON: Final = 10.0
"""Seconds within which an announced container appears; less than the grace period, as on a node that works."""

NAMESPACE: Final = "telco"

Place = tuple[PodUid, str]
"""A container of a pod."""

USING = {ObjectState.CREATED, ObjectState.RUNNING, ObjectState.PAUSED}


def name_of(uid: PodUid) -> str:
    """Return the name of a pod."""
    return f"name-of-{uid}"


@dataclass
class Node:
    """The truth: kubelet, runtime, directories, time."""

    now: float = 1000.0
    granted: dict[AllocationId, Allocation] = field(default_factory=dict)
    """What the plugin granted, and to whom."""
    due: dict[AllocationId, Allocation] = field(default_factory=dict)
    """What may stand in the ledger: what was granted, unless nobody could know that any more."""
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
    forged: set[str] = field(default_factory=set)
    """Objects whose mounts and claims are a tenant's."""
    appeared: int = 0

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
        owner = Owner(uid=uid, container=container, namespace=NAMESPACE, name=name_of(uid))
        self.granted[granted.id] = self.due[granted.id] = granted.owned_by(owner)

    def store(self) -> None:
        """Store what was answered, and write the file."""
        if self.answered:
            self.memory.update(self.answered)
            self.answered.clear()
            self.write()

    # ---------------------------------------------------------------------------------------------------- runtime

    def sandbox(self, uid: PodUid) -> None:
        """Make a pod's sandbox unless it has one."""
        sandbox = a_sandbox(Owner(uid=uid, namespace=NAMESPACE, name=name_of(uid)), id=f"sandbox-of-{uid}")
        self.objects.setdefault(sandbox.id, sandbox)

    def create(self, entry: CheckpointEntry, *, announced: bool) -> None:
        """Create a container; the runtime makes a missing mount source, but nothing announced may be missing."""
        (name,) = entry.named()

        assert not announced or name in self.directories, f"{name} is gone when its container appears"
        self.make(name)
        self.show(
            uid=entry.uid,
            container=entry.container,
            mounts={POOL.container_dir: self.path(name)},
            claimed=entry.answer.annotations,
        )

    def show(
        self,
        *,
        uid: PodUid | None,
        container: str | None,
        mounts: Mapping[str, str],
        claimed: Mapping[str, str],
        state: ObjectState = ObjectState.RUNNING,
    ) -> str:
        """Let an object be in the runtime, a sandbox if it has no container's name, and return its id."""
        self.appeared += 1
        name = f"{container or 'sandbox'}-{self.appeared}"
        self.objects[name] = RuntimeObject(
            id=name,
            kind=ObjectKind.SANDBOX if container is None else ObjectKind.CONTAINER,
            state=state,
            uid=uid,
            namespace=None if uid is None else NAMESPACE,
            name=None if uid is None else name_of(uid),
            container=container,
            mounts=mounts,
            claimed=claimed,
        )
        return name

    def appear(self) -> None:
        """Let every announced container appear."""
        for entry in self.starting:
            self.create(entry, announced=True)
        self.starting.clear()

    def tidy(self, uid: PodUid | None) -> None:
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


def orphan(node: Node) -> None:
    """Leave a directory of a grant that was never recorded."""
    node.make(an_id(900 + node.made))
