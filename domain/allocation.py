"""An allocation: one container request granted."""

from dataclasses import dataclass, field, replace
from datetime import datetime

from domain.identity import AllocationId, DeviceId, PodUid
from domain.pool import DirectoryRules, SecretDelivery
from domain.resource import ResourceName
from domain.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who holds an allocation, as far as it is known.  For display and look-up only: no rule of life depends on it.

    Uid and container come from the kubelet's checkpoint, namespace and name from the runtime's objects of that uid.
    What is known once never changes.
    """

    uid: PodUid | None = None
    container: str | None = None
    namespace: str | None = None
    name: str | None = None

    @property
    def complete(self) -> bool:
        """Whether everything is known, which makes the allocation *bound*."""
        return None not in (self.uid, self.container, self.namespace, self.name)

    def completed_by(self, other: "Owner") -> "Owner":
        """Return this owner with its gaps filled from another; what is known here stays."""
        return Owner(
            uid=self.uid if self.uid is not None else other.uid,
            container=self.container if self.container is not None else other.container,
            namespace=self.namespace if self.namespace is not None else other.namespace,
            name=self.name if self.name is not None else other.name,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that we keep in an allocation's directory; the content may hold a secret and is never shown."""

    name: str
    content: str = field(repr=False)
    mode: int = 0o440


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """An allocation's directory as it must be on disk: ``<host_dir>/<id>``."""

    host_dir: str
    id: AllocationId
    rules: DirectoryRules
    files: tuple[File, ...] = ()

    @property
    def path(self) -> str:
        """The directory's path in the configured spelling."""
        return f"{self.host_dir}/{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What one container request was granted.

    Path and secret never change while the allocation lives: the kubelet replays its answer at every restart of the
    container and after a reboot, and peers reconnect only where they were.  The places and rules are those of the
    pool at the time of the grant, whatever the configuration says later.

    Attributes:
        devices: the ids in index order; the k-th is memif interface k.
        granted: wall-clock time in UTC, for people; rules use monotonic time.
        files: what we put into the directory beside the dataplane's socket.
    """

    id: AllocationId
    resource: ResourceName
    devices: tuple[DeviceId, ...]
    host_dir: str
    container_dir: str
    socket_name: str
    rules: DirectoryRules
    secret: Secret
    granted: datetime
    secret_delivery: SecretDelivery = SecretDelivery.ENV
    files: tuple[File, ...] = ()
    owner: Owner = field(default_factory=Owner)

    @property
    def directory(self) -> Directory:
        """The directory that must exist as long as the allocation lives."""
        return Directory(host_dir=self.host_dir, id=self.id, rules=self.rules, files=self.files)

    @property
    def host_socket(self) -> str:
        """The socket's path on the node."""
        return f"{self.host_dir}/{self.id}/{self.socket_name}"

    @property
    def container_socket(self) -> str:
        """The socket's path in the container."""
        return f"{self.container_dir}/{self.socket_name}"

    def owned_by(self, owner: Owner) -> "Allocation":
        """Return the allocation with the gaps of its owner filled."""
        return replace(self, owner=self.owner.completed_by(owner))
