"""The NUMA nodes that the machine has.

Where a kubelet aligns what a pod is given, a device that names a node which is not there keeps every pod out that asks
for it; a device without a node constrains nobody.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from domain.pool import Device

ONLINE: Final = Path("/sys/devices/system/node/online")
"""Where the kernel lists them, as in ``0-1,4``."""


def online() -> frozenset[int] | None:
    """Return the machine's nodes, ``None`` where the kernel does not tell."""
    try:
        parts = [part.partition("-") for part in ONLINE.read_text(encoding="ascii").strip().split(",")]
        return frozenset(number for first, _, last in parts for number in range(int(first), int(last or first) + 1))
    except (OSError, ValueError):
        return None


def missing(devices: Iterable[Device], nodes: Collection[int]) -> tuple[int, ...]:
    """Return the nodes that devices name and the machine does not have."""
    return tuple(sorted({each.numa_node for each in devices if each.numa_node is not None}.difference(nodes)))


def without(missing: Collection[int], devices: Iterable[Device]) -> tuple[Device, ...]:
    """Return the devices, those on one of the missing nodes without any."""
    return tuple(replace(each, numa_node=None) if each.numa_node in missing else each for each in devices)
