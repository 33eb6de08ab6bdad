"""What is seen of the node: three views, each of which may be unknown.

A reading carries the monotonic time at which it *began*, because nothing that happened later can be concluded from
it.  A view that cannot be had is :class:`Unknown` with the reason, never an empty view.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from domain.answer import Answer
from domain.identity import AllocationId, DeviceId, PodUid, is_allocation_id
from domain.resource import ResourceName


@dataclass(frozen=True, slots=True)
class Unknown:
    """A view that could not be had, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Absent(Unknown):
    """A view that could not be had because what it is read from is not there at all."""


class ObjectKind(StrEnum):
    """What a runtime's object is."""

    SANDBOX = "sandbox"
    CONTAINER = "container"


class ObjectState(StrEnum):
    """The state of something that still exists.  What the runtime calls dead or removing does not, and is left out."""

    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    RESTARTING = "restarting"
    EXITED = "exited"
    UNKNOWN = "unknown"

    @property
    def may_run(self) -> bool:
        """Whether processes of it may run now; before its start and after its end a container has none."""
        return self not in (ObjectState.CREATED, ObjectState.EXITED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeObject:
    """A sandbox or container that still exists, in any state.

    Attributes:
        id: the runtime's own id.
        uid: of its pod; old sandboxes of cri-dockerd show none.
        container: name of the container in the pod, ``None`` for a sandbox.
        mounts: host path by container path, as the runtime has them; empty while they cannot be had, which ``claimed``
            makes up for where it is about keeping.
        claimed: its annotations (labels, on Docker) that begin with a pool's prefix.  Tenants can write some of
            them, on a sandbox all of them, so they can keep an allocation and never bind, change or remove one; those
            of a sandbox do not even keep, and are shown to be counted only.
    """

    id: str
    kind: ObjectKind
    state: ObjectState
    uid: PodUid | None = None
    namespace: str | None = None
    name: str | None = None
    container: str | None = None
    mounts: Mapping[str, str] = field(default_factory=dict)
    claimed: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeView:
    """Every sandbox and container that exists, as one reading."""

    began: float
    objects: tuple[RuntimeObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """What the kubelet stored for one container and resource: everything that it can still mount is among these."""

    uid: PodUid
    container: str
    resource: ResourceName
    devices: tuple[DeviceId, ...]
    answer: Answer

    def named(self) -> frozenset[AllocationId]:
        """Return the allocations whose directories the answer mounts."""
        bases = (mount.host_path.rpartition("/")[2] for mount in self.answer.mounts)
        return frozenset(AllocationId(base) for base in bases if is_allocation_id(base))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointView:
    """The kubelet's checkpoint file, as one reading."""

    began: float
    entries: tuple[CheckpointEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryView:
    """What lies in one pool's base directory.

    Attributes:
        spellings: paths by which evidence may name the base directory: as configured, and with the symlinks of its
            parents resolved.
        inodes: inode by well-formed directory name.
        strangers: names of anything else; it is left alone.
    """

    began: float
    host_dir: str
    spellings: frozenset[str]
    inodes: Mapping[AllocationId, int]
    strangers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDevices:
    """What the kubelet says one pod's listed containers hold now.

    Plain init containers are never listed, and a container whose Allocate is in flight is listed without devices.
    """

    namespace: str
    name: str
    containers: Mapping[str, Mapping[ResourceName, frozenset[DeviceId]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that is known of the node in one reconcile.

    Attributes:
        runtime: what exists.
        empty_runtime_doubted: the runtime named no pod at all, and the kubelet, asked for that reason, could not
            confirm it.  Release and sweep then treat the runtime as unknown; asking goes by the raw reading.
        checkpoint: what the kubelet can still mount.
        directories: one reading a base directory; those that cannot be read are missing here.
        first_seen: monotonic time at which this process first saw a directory, by path.
    """

    runtime: RuntimeView | Unknown
    checkpoint: CheckpointView | Unknown
    directories: tuple[DirectoryView, ...] = ()
    empty_runtime_doubted: bool = False
    first_seen: Mapping[str, float] = field(default_factory=dict)


def uids_seen(view: RuntimeView) -> frozenset[PodUid]:
    """Return the uids that a runtime reading names; none makes an empty or doubtful node."""
    return frozenset(each.uid for each in view.objects if each.uid is not None)
