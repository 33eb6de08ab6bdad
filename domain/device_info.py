"""Device information files: what the network plumbing group's programs, Multus for one, are told of each device.

Device Information Specification 1.1, section 3.1.6 (the fields of a memif) and section 4.1 (the name of the file).  A
device can be granted again while an earlier grant lives; its one file then tells of the last grant.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from domain.allocation import Allocation
from domain.identity import DeviceId
from domain.pool import Pool
from domain.resource import ResourceName

VERSION: Final = "1.1.0"
"""Of the specification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """The files of one directory.

    Attributes:
        directory: absolute; other device plugins may keep theirs in it too.
        files: content by name, as it must be.
        ours: every name that a device of ours has, or had; whatever has another name is somebody else's.
    """

    directory: str
    files: Mapping[str, str]
    ours: frozenset[str]


def file_name(resource: ResourceName, device: DeviceId) -> str:
    """Return the name of a device's file, in which no slash is left."""
    return f"{resource}-{device}-device.json".replace("/", "-")


def content(allocation: Allocation) -> str:
    """Return what the file of each of an allocation's devices says: the pod's view, and never a secret.

    A ``slave`` is who connects to a socket that the host's side makes: the pod.
    """
    memif = {"role": "slave", "path": allocation.container_socket, "mode": "ethernet"}
    return json.dumps({"type": "memif", "version": VERSION, "memif": memif}) + "\n"


def files(pool: Pool, allocations: Iterable[Allocation]) -> dict[str, str]:
    """Return the files of allocations of one pool by name; none unless configured."""
    if pool.device_info_dir is None:
        return {}
    return {file_name(each.resource, device): content(each) for each in allocations for device in each.devices}


def wanted(served: Iterable[Pool], earlier: Iterable[Pool], living: Iterable[Allocation]) -> tuple[DeviceInfo, ...]:
    """Return how every directory must look that has, or had, files of ours.

    Args:
        served: the pools as they are now; they decide where a file belongs.
        earlier: the pools as they were; what is left of them elsewhere goes.
        living: in the order of their grant.
    """
    now, allocations = tuple(served), tuple(living)
    found: dict[str, dict[str, str]] = {}
    ours: dict[str, set[str]] = {}
    for pool in (*now, *earlier):
        if pool.device_info_dir is not None:
            found.setdefault(pool.device_info_dir, {})
            names = (file_name(pool.resource, device) for device in pool.indexes)
            ours.setdefault(pool.device_info_dir, set()).update(names)
    for pool in now:
        if pool.device_info_dir is not None:
            made = files(pool, (each for each in allocations if each.resource == pool.resource))
            found[pool.device_info_dir].update(made)
    return tuple(
        DeviceInfo(directory=directory, files=made, ours=frozenset(ours[directory] | made.keys()))
        for directory, made in found.items()
    )
