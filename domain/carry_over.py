"""What a changed configuration may not take away.

Ids that the kubelet may have handed out, or may be handing out, must stay listed: to withdraw one whose Allocate is
in flight crashes the kubelet.  So a lower capacity retires the higher ids instead of dropping them, and a pool that
was taken out of the configuration goes on without healthy devices until nothing of it lives.

A start may let go of what nobody holds, because no Allocate is in flight then; a running process lets go of nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from domain.allocation import Allocation
from domain.errors import MemifError
from domain.evidence import CheckpointView, Unknown
from domain.identity import DeviceId
from domain.pool import LARGEST_LIST, Pool, list_size
from domain.resource import ResourceName


class DeviceIdsChanged(MemifError):
    """The configuration gives the devices of a pool other ids while allocations of it live."""

    def __init__(self, resource: ResourceName, before: str, after: str, living: int) -> None:
        super().__init__(
            f"device_id of {resource} cannot change from {before!r} to {after!r} while {living} of its allocations "
            "live; change it back, or delete the pods that hold them first"
        )
        self.resource = resource


class ListTooLarge(MemifError):
    """The ids of before and those of now do not fit into one device list."""

    def __init__(self, resource: ResourceName, size: int) -> None:
        super().__init__(
            f"the ids that {resource} had stay listed until the daemon is started anew, and with the new ones its list "
            f"has {size} bytes, of which the kubelet takes {LARGEST_LIST}; restart the daemon instead"
        )
        self.resource = resource


def carry_over(
    configured: Sequence[Pool],
    earlier: Sequence[Pool],
    living: Iterable[Allocation],
    checkpoint: CheckpointView | Unknown,
) -> tuple[Pool, ...]:
    """Return the pools to serve: those configured, in their order, then those that are only drained.

    Args:
        configured: what the operator wants.
        earlier: every pool as it was last used.
        living: every living allocation, the adopted ones included.
        checkpoint: what the kubelet can still mount; while it is unknown every id that was listed stays.

    Raises:
        DeviceIdsChanged: a pool with living allocations would get other ids.
    """
    allocations = tuple(living)
    before = {pool.resource: pool for pool in earlier}
    wanted = {pool.resource for pool in configured}
    kept = [_kept(pool, before, allocations, checkpoint) for pool in configured]
    drained = [
        replace(pool, drained=True)
        for pool in earlier
        if pool.resource not in wanted and any(each.resource == pool.resource for each in allocations)
    ]
    return (*kept, *drained)


def carry_on(configured: Sequence[Pool], served: Sequence[Pool], living: Iterable[Allocation]) -> tuple[Pool, ...]:
    """Return the pools that a running process serves from now on: those configured, then those that are only drained.

    Args:
        configured: what the operator wants now.
        served: every pool as it is served; one that is not configured any more is drained, whether something of it
            lives or not.
        living: every living allocation.

    Raises:
        DeviceIdsChanged: a pool with living allocations would get other ids.
        ListTooLarge: the ids that must stay leave no room for the new ones.
    """
    allocations = tuple(living)
    before = {pool.resource: pool for pool in served}
    wanted = {pool.resource for pool in configured}
    renewed = [_renewed(pool, before.get(pool.resource), allocations) for pool in configured]
    return (*renewed, *(replace(pool, drained=True) for pool in served if pool.resource not in wanted))


def _renewed(pool: Pool, was: Pool | None, allocations: Iterable[Allocation]) -> Pool:
    if was is None:
        return pool
    _same_ids(pool, was, [each for each in allocations if each.resource == pool.resource])
    renewed = replace(pool, retired=tuple(name for name in was.indexes if name not in pool.indexes))
    if renewed.retired and (size := list_size(renewed)) > LARGEST_LIST:
        raise ListTooLarge(pool.resource, size)
    return renewed


def _same_ids(pool: Pool, was: Pool, own: Sequence[Allocation]) -> None:
    if was.device_id != pool.device_id and own:
        raise DeviceIdsChanged(pool.resource, was.device_id, pool.device_id, len(own))


def _kept(
    pool: Pool,
    before: Mapping[ResourceName, Pool],
    allocations: Iterable[Allocation],
    checkpoint: CheckpointView | Unknown,
) -> Pool:
    was = before.get(pool.resource)
    if was is None:
        return pool
    own = [each for each in allocations if each.resource == pool.resource]
    _same_ids(pool, was, own)
    if was.device_id != pool.device_id:
        return pool
    listed = [name for name in was.indexes if name not in pool.indexes]
    held = _held(pool.resource, own, checkpoint)
    return replace(pool, retired=tuple(name for name in listed if held is None or name in held))


def _held(
    resource: ResourceName, allocations: Iterable[Allocation], checkpoint: CheckpointView | Unknown
) -> frozenset[DeviceId] | None:
    """Return the ids that somebody holds, ``None`` if that cannot be told."""
    if isinstance(checkpoint, Unknown):
        return None
    stored = (entry.devices for entry in checkpoint.entries if entry.resource == resource)
    return frozenset(name for ids in (*stored, *(each.devices for each in allocations)) for name in ids)
