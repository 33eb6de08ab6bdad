"""One pool as the operator describes it."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, Field

from app.settings.faults import shown
from app.settings.sections import SECTION
from app.settings.values import (
    AbsolutePath,
    DirectoryMode,
    FileName,
    Group,
    ListInterval,
    MountedPath,
    SelinuxLabel,
)
from domain.pool import DirectoryRules, Pool, SecretDelivery
from domain.resource import InvalidResourceName, ResourceName, resource_name
from domain.secret import LONGEST_SECRET, SHORTEST_SECRET

_SHARED_PLACES: Final = frozenset({"/", "/run", "/var/run", "/var/lib", "/tmp"})  # noqa: S108 - refused, not used
_ENV_SUFFIX: Final = re.compile(r"[A-Za-z0-9_]*", re.ASCII)
_LONGEST_ANNOTATION: Final = ".socket.container"
_LONGEST_KEY_NAME: Final = 63
_LONGEST_KEY_PREFIX: Final = 253
_KEY_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_KEY_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LARGEST_NUMA_NODE: Final = 1023
_BILLION: Final = 10**9


def _resource(value: str) -> str:
    try:
        return resource_name(value)
    except InvalidResourceName as error:
        raise ValueError(f"{shown(value)} is no extended resource name: {error.reason}") from error


def _capacity(value: int) -> int:
    if value < 1:
        raise ValueError(f"must be at least 1, not {shown(value)}")
    if value > _BILLION:
        raise ValueError(f"is far more than a device list can hold: {shown(value)}")
    return value


def _device_id(value: str) -> str:
    if "{index}" not in value:
        raise ValueError(f"must contain {{index}}, or all devices would have one id, not {shown(value)}")
    rest = value.replace("{resource}", "").replace("{index}", "")
    if "{" in rest or "}" in rest:
        raise ValueError(f"must have no braces but those of {{resource}} and {{index}}, not {shown(value)}")
    if any(not "!" <= c <= "~" or c == "," for c in rest):
        raise ValueError(f"must be printable ASCII without spaces and commas, not {shown(value)}")
    return value


def _host_dir(value: str) -> str:
    if value in _SHARED_PLACES:
        raise ValueError(f"must be a directory of its own, not {value}, which others share")
    return value


def _container_dir(value: str) -> str:
    if value == "/":
        raise ValueError("must not be /, which is the container's root")
    return value


def _env_suffix(value: str) -> str:
    if _ENV_SUFFIX.fullmatch(value) is None:
        raise ValueError(f"must be letters, digits and underscores, not {shown(value)}")
    return value


def _annotation_prefix(value: str) -> str:
    """Check that the longest annotation is a legal key that the kubelet does not overwrite with one of its own."""
    prefix, slash, name = (value + _LONGEST_ANNOTATION).rpartition("/")
    if len(name) > _LONGEST_KEY_NAME:
        raise ValueError(
            f"is too long: the annotation's name {name[:80]} has {len(name)} characters, at most "
            f"{_LONGEST_KEY_NAME} are allowed"
        )
    if _KEY_NAME.fullmatch(name) is None:
        raise ValueError(f"must make annotation keys of letters, digits, '-', '_' and '.', not {shown(value)}")
    if slash and (len(prefix) > _LONGEST_KEY_PREFIX or _KEY_PREFIX.fullmatch(prefix) is None):
        raise ValueError(f"must have a domain before the slash, as in example.com/memif, not {shown(value)}")
    if f".{prefix}".endswith(".kubernetes.io") or (not slash and name.startswith("io.kubernetes.")):
        raise ValueError(f"must not be one of Kubernetes' own, which the kubelet overwrites, not {shown(value)}")
    return value


def _secret_length(value: int) -> int:
    if not SHORTEST_SECRET <= value <= LONGEST_SECRET:
        raise ValueError(f"must be from {SHORTEST_SECRET} to {LONGEST_SECRET}, not {shown(value)}")
    return value


def _numa_node(value: int) -> int:
    if value < 0:
        raise ValueError(f"must be 0 or more, not {shown(value)}; leave it out for devices without a node")
    if value > _LARGEST_NUMA_NODE:
        raise ValueError(f"must be at most {_LARGEST_NUMA_NODE}, not {shown(value)}")
    return value


class PoolSettings(BaseModel):
    """One resource; see :class:`domain.pool.Pool` for what the keys do.

    Attributes:
        device_info_dir: where the network plumbing group's device-info files go; ``None`` = they are not written.
        list_interval: seconds; 0 = the list is sent on change only.
    """

    model_config = SECTION

    resource: Annotated[str, AfterValidator(_resource)] = "contivpp.io/memif"
    capacity: Annotated[int, AfterValidator(_capacity)] = 100
    device_id: Annotated[str, AfterValidator(_device_id)] = "{resource}/{index}"
    host_dir: Annotated[MountedPath, AfterValidator(_host_dir)] = "/var/run/contiv/memif"
    container_dir: Annotated[MountedPath, AfterValidator(_container_dir)] = "/run/vpp"
    socket_name: FileName = "memif.sock"
    env_suffix: Annotated[str, AfterValidator(_env_suffix)] = ""
    annotation_prefix: Annotated[str, AfterValidator(_annotation_prefix)] = "io.contivpp.memif"
    directory_mode: DirectoryMode = 0o2770
    directory_group: Group = None
    selinux_label: SelinuxLabel = "auto"
    secret_length: Annotated[int, AfterValidator(_secret_length)] = 20
    secret_delivery: Annotated[SecretDelivery, Field(strict=False)] = SecretDelivery.ENV
    pod_file: bool = False
    pod_env_extra: bool = False
    device_info_dir: AbsolutePath | None = None
    read_only_mount: bool = False
    numa_node: Annotated[int, AfterValidator(_numa_node)] | None = None
    list_interval: ListInterval = 0.0

    def to_domain(self) -> Pool:
        """Return the pool that the domain works with."""
        return self._pool(self.capacity, self.device_id)

    def sample(self, device_id: str | None = None) -> Pool:
        """Return the same pool with a single device, which costs nothing to reckon with.

        Args:
            device_id: another template for that device's id.
        """
        return self._pool(1, self.device_id if device_id is None else device_id)

    def _pool(self, capacity: int, device_id: str) -> Pool:
        return Pool(
            resource=ResourceName(self.resource),
            capacity=capacity,
            device_id=device_id,
            host_dir=self.host_dir,
            container_dir=self.container_dir,
            socket_name=self.socket_name,
            env_suffix=self.env_suffix,
            annotation_prefix=self.annotation_prefix,
            directory=DirectoryRules(
                mode=self.directory_mode,
                group=self.directory_group,
                selinux_label=self.selinux_label,
            ),
            secret_length=self.secret_length,
            secret_delivery=self.secret_delivery,
            pod_file=self.pod_file,
            pod_env_extra=self.pod_env_extra,
            device_info_dir=self.device_info_dir,
            read_only_mount=self.read_only_mount,
            numa_node=self.numa_node,
            list_interval=self.list_interval,
        )
