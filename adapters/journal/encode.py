"""Values to rows and back; see :mod:`adapters.journal.schema` for the columns and their order."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeAlias, TypeVar

from adapters.journal.faults import Flawed
from domain.allocation import Allocation, File, Owner
from domain.identity import AllocationId, DeviceId, PodUid, is_allocation_id
from domain.ledger import Standing
from domain.pool import DirectoryRules, Pool, SecretDelivery
from domain.resource import ResourceName
from domain.secret import Secret

Value: TypeAlias = str | int | float | None
Row: TypeAlias = tuple[Value, ...]

_T = TypeVar("_T")


def allocation_row(allocation: Allocation, standing: Standing) -> Row:
    """Return an allocation as a row of ``allocation``."""
    owner = allocation.owner
    return (
        allocation.id,
        allocation.resource,
        json.dumps(allocation.devices),
        allocation.host_dir,
        allocation.container_dir,
        allocation.socket_name,
        allocation.rules.mode,
        allocation.rules.group,
        allocation.rules.selinux_label,
        allocation.secret.reveal(),
        allocation.secret_delivery.value,
        allocation.granted.astimezone(UTC).isoformat(timespec="microseconds"),
        json.dumps([{"name": each.name, "content": each.content, "mode": each.mode} for each in allocation.files]),
        standing.value,
        owner.uid,
        owner.container,
        owner.namespace,
        owner.name,
    )


def pool_row(pool: Pool) -> Row:
    """Return a pool as a row of ``pool``."""
    return (
        pool.resource,
        pool.capacity,
        pool.device_id,
        pool.host_dir,
        pool.container_dir,
        pool.socket_name,
        pool.env_suffix,
        pool.annotation_prefix,
        pool.directory.mode,
        pool.directory.group,
        pool.directory.selinux_label,
        pool.secret_length,
        pool.secret_delivery.value,
        int(pool.pod_file),
        int(pool.pod_env_extra),
        pool.device_info_dir,
        int(pool.read_only_mount),
        pool.numa_node,
        pool.list_interval,
        json.dumps(pool.retired),
        int(pool.drained),
    )


def allocation_of(row: Sequence[object]) -> tuple[Allocation, Standing]:
    """Read an allocation back.

    Raises:
        Flawed: a value is not what we would have written; which one is said, its content is not.
    """
    try:
        return _allocation(row)
    except (ValueError, TypeError, KeyError) as error:
        # Not chained: what the parsers say may quote a file's content, and so a secret.
        raise Flawed(f"it is damaged: an allocation cannot be read back ({type(error).__name__})") from None


def pool_of(row: Sequence[object]) -> Pool:
    """Read a pool back.

    Raises:
        Flawed: a value is not what we would have written.
    """
    try:
        return _pool(row)
    except (ValueError, TypeError) as error:
        raise Flawed(f"it is damaged: a pool cannot be read back ({type(error).__name__})") from error


def _allocation(row: Sequence[object]) -> tuple[Allocation, Standing]:
    (
        name, resource, devices, host_dir, container_dir, socket_name, mode, group, label,
        secret, delivery, granted, files, standing, uid, container, namespace, pod,
    ) = row  # fmt: skip
    # The id becomes part of a path that is removed one day.
    if not is_allocation_id(_a(str, name)):
        raise ValueError
    allocation = Allocation(
        id=AllocationId(_a(str, name)),
        resource=ResourceName(_a(str, resource)),
        devices=_devices(devices),
        host_dir=_a(str, host_dir),
        container_dir=_a(str, container_dir),
        socket_name=_a(str, socket_name),
        rules=_rules(mode, group, label),
        secret=Secret(_a(str, secret)),
        secret_delivery=SecretDelivery(_a(str, delivery)),
        granted=datetime.fromisoformat(_a(str, granted)).astimezone(UTC),
        files=tuple(
            File(name=_a(str, each["name"]), content=_a(str, each["content"]), mode=_a(int, each["mode"]))
            for each in _a(list, json.loads(_a(str, files)))
        ),
        owner=Owner(
            uid=None if uid is None else PodUid(_a(str, uid)),
            container=_text_or_none(container),
            namespace=_text_or_none(namespace),
            name=_text_or_none(pod),
        ),
    )
    return allocation, Standing(_a(str, standing))


def _pool(row: Sequence[object]) -> Pool:
    (
        resource, capacity, device_id, host_dir, container_dir, socket_name, env_suffix, annotation_prefix,
        mode, group, label, secret_length, delivery, pod_file, pod_env_extra, device_info_dir, read_only_mount,
        numa_node, interval, retired, drained,
    ) = row  # fmt: skip
    return Pool(
        resource=ResourceName(_a(str, resource)),
        capacity=_a(int, capacity),
        device_id=_a(str, device_id),
        host_dir=_a(str, host_dir),
        container_dir=_a(str, container_dir),
        socket_name=_a(str, socket_name),
        env_suffix=_a(str, env_suffix),
        annotation_prefix=_a(str, annotation_prefix),
        directory=_rules(mode, group, label),
        secret_length=_a(int, secret_length),
        secret_delivery=SecretDelivery(_a(str, delivery)),
        pod_file=bool(_a(int, pod_file)),
        pod_env_extra=bool(_a(int, pod_env_extra)),
        device_info_dir=_text_or_none(device_info_dir),
        read_only_mount=bool(_a(int, read_only_mount)),
        numa_node=None if numa_node is None else _a(int, numa_node),
        list_interval=_a(float, interval),
        retired=_devices(retired),
        drained=bool(_a(int, drained)),
    )


def _devices(value: object) -> tuple[DeviceId, ...]:
    return tuple(DeviceId(_a(str, each)) for each in _a(list, json.loads(_a(str, value))))


def _rules(mode: object, group: object, label: object) -> DirectoryRules:
    if not (group is None or isinstance(group, str | int)):
        raise TypeError
    return DirectoryRules(mode=_a(int, mode), group=group, selinux_label=_a(str, label))


def _text_or_none(value: object) -> str | None:
    return None if value is None else _a(str, value)


def _a(kind: type[_T], value: object) -> _T:
    """Return the value if it is of this type."""
    if not isinstance(value, kind):
        raise TypeError
    return value
