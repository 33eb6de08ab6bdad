"""What a changed configuration may not take away.

Ids that the kubelet may have handed out, or may be handing out, must stay listed: to withdraw one whose Allocate is
in flight crashes the kubelet.  So a lower capacity retires the higher ids instead of dropping them, and a pool that
was taken out of the configuration goes on without healthy devices until nothing of it lives.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from domain.allocation import Allocation
from domain.errors import MemifError
from domain.evidence import CheckpointView, Unknown
from domain.identity import DeviceId
from domain.pool import Pool
from domain.resource import ResourceName


class DeviceIdsChanged(MemifError):
    """The configuration gives the devices of a pool other ids while allocations of it live."""

    def __init__(self, resource: ResourceName, before: str, after: str, living: int) -> None:
        super().__init__(
            f"device_id of {resource} cannot change from {before!r} to {after!r} while {living} of its allocations "
            "live; change it back, or delete the pods that hold them first"
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
    if was.device_id != pool.device_id:
        if own:
            raise DeviceIdsChanged(pool.resource, was.device_id, pool.device_id, len(own))
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
