"""A pool: one extended resource, its fixed set of devices, and what a container that asks for them gets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from domain.identity import ALLOCATION_ID_LENGTH, AllocationId, DeviceId
from domain.resource import ResourceName

LONGEST_SOCKET_PATH: Final = 100
"""Bytes.  The kernel takes 107, current VPP 106; the rest is kept for tools that prepend something."""

LARGEST_LIST: Final = 4 * 1024 * 1024
"""Bytes.  The kubelet receives device lists with gRPC's default limit; a larger one kills the stream."""


class SecretDelivery(StrEnum):
    """How the secret reaches the container."""

    ENV = "env"
    FILE = "file"
    BOTH = "both"

    @property
    def in_answer(self) -> bool:
        """Whether environment and annotations carry the secret."""
        return self is not SecretDelivery.FILE

    @property
    def in_directory(self) -> bool:
        """Whether the mounted directory holds a file ``secret``."""
        return self is not SecretDelivery.ENV


class Health(StrEnum):
    """A device's health in the kubelet's words; anything but ``Healthy`` counts as unhealthy there."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One entry of a device list.

    ``numa_node`` is left out by default: a memif socket is memory of the pod, and ids without topology never
    constrain the topology manager.
    """

    id: DeviceId
    health: Health = Health.HEALTHY
    numa_node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryRules:
    """How an allocation's directory is made and kept.

    Attributes:
        mode: permission bits; the set-group-id bit makes a dataplane's socket inherit the group.
        group: name or number of the owning group, ``None`` for root's.
        selinux_label: ``auto``, ``none`` or a full label; the kubelet does not relabel what a device plugin mounts.
    """

    mode: int = 0o2770
    group: str | int | None = None
    selinux_label: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One resource and how its devices are handed out.

    The device ids are fixed by ``device_id`` and ``capacity``: the same after every restart and never fewer while
    running, because taking away an id whose Allocate is in flight crashes the kubelet.

    Attributes:
        resource: the extended resource that pods ask for.
        capacity: number of devices.
        device_id: template of an id with ``{index}`` and, if wanted, ``{resource}``.
        host_dir: absolute directory on the node that holds one directory an allocation.
        container_dir: absolute directory in the container on which an allocation's directory is mounted.
        socket_name: base name of the control socket, which the dataplane creates.
        env_suffix: appended to every environment name, to keep two pools of one container apart.
        annotation_prefix: prefix of the container annotations, for the same reason.
        secret_length: characters of a new secret.
        device_info_dir: absolute directory for device information files, ``None`` = none are written.
        list_interval: seconds after which an unchanged list is sent again; 0 = only on change.
        retired: ids beyond the capacity that were listed before it was lowered and may still be held or in flight;
            listed as unhealthy.
        drained: the pool is no longer configured, and served only because allocations of it live; every device is
            unhealthy.
    """

    resource: ResourceName
    capacity: int = 100
    device_id: str = "{resource}/{index}"
    host_dir: str = "/var/run/contiv/memif"
    container_dir: str = "/run/vpp"
    socket_name: str = "memif.sock"
    env_suffix: str = ""
    annotation_prefix: str = "io.contivpp.memif"
    directory: DirectoryRules = field(default_factory=DirectoryRules)
    secret_length: int = 20
    secret_delivery: SecretDelivery = SecretDelivery.ENV
    pod_file: bool = False
    pod_env_extra: bool = False
    device_info_dir: str | None = None
    read_only_mount: bool = False
    numa_node: int | None = None
    list_interval: float = 0.0
    retired: tuple[DeviceId, ...] = ()
    drained: bool = False
    indexes: Mapping[DeviceId, int] = field(init=False, repr=False, compare=False)
    """The fixed set of ids, in index order, each with its index."""

    def __post_init__(self) -> None:
        ids = {self.device(index): index for index in range(self.capacity)}
        for name in self.retired:
            ids.setdefault(name, len(ids))
        object.__setattr__(self, "indexes", MappingProxyType(ids))

    def device(self, index: int) -> DeviceId:
        """Return the id of the device with this index."""
        return DeviceId(self.device_id.replace("{resource}", self.resource).replace("{index}", str(index)))

    def devices(self, *, healthy: bool = True) -> tuple[Device, ...]:
        """Return the whole list in index order, as the kubelet wants it: every message replaces the one before.

        Args:
            healthy: whether the pool can be served; if not, no device of it is healthy.
        """
        unhealthy = frozenset(self.retired) if healthy and not self.drained else self.indexes.keys()
        return tuple(
            Device(
                id=name,
                health=Health.UNHEALTHY if name in unhealthy else Health.HEALTHY,
                numa_node=self.numa_node,
            )
            for name in self.indexes
        )

    def host_socket(self, allocation: AllocationId) -> str:
        """Return where the dataplane finds or makes the socket of an allocation."""
        return f"{self.host_dir}/{allocation}/{self.socket_name}"

    @property
    def container_socket(self) -> str:
        """Where the container sees its socket."""
        return f"{self.container_dir}/{self.socket_name}"

    @property
    def longest_host_socket(self) -> int:
        """Bytes of every host socket's path in this pool."""
        return len(self.host_socket(AllocationId("x" * ALLOCATION_ID_LENGTH)).encode())


def list_size(pool: Pool) -> int:
    """Return the bytes of the pool's device list on the wire when every device is unhealthy, its largest form.

    Reckoned from the protobuf encoding of the device-plugin API (a tag and a length before each string and each
    message), so that an impossible capacity is refused before the kubelet drops the stream for it.
    """
    topology = 0
    if pool.numa_node is not None:
        node = _field(_varint(pool.numa_node) + 1 if pool.numa_node else 0)
        topology = _field(node)
    health = _field(len(Health.UNHEALTHY.value))
    return sum(_field(_field(len(name.encode())) + health + topology) for name in pool.indexes)


def _field(length: int) -> int:
    """Bytes of a length-delimited field: tag, length, content."""
    return 1 + _varint(length) + length


def _varint(value: int) -> int:
    """Bytes of an unsigned number in protobuf's variable-length encoding."""
    return max(1, -(-value.bit_length() // 7))
