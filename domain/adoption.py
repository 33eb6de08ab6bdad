"""Adoption: what the kubelet will mount and the ledger does not know becomes ours again.

The kubelet's checkpoint holds our own answers, so a lost journal, an earlier Contiv agent, or another process of ours
costs nothing: the entry is taken over with its id, path, secret, device ids, uid and container.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from domain.allocation import Allocation, Owner
from domain.answer import Claim, claim, files
from domain.evidence import CheckpointEntry
from domain.identity import DeviceId
from domain.pool import Pool
from domain.secret import Secret

_PENDING_SECRET = Secret("x")
"""Stands in until the secret has been read from the directory; never handed out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """An allocation to take over.

    Attributes:
        allocation: as the kubelet's record has it.
        pool: whose answer it was.
        sealed: the answer carries no secret, because the pool delivers it by file: it must be read from the file
            ``secret`` of the directory, or drawn anew and reported if that is gone too.
    """

    allocation: Allocation
    pool: Pool
    sealed: bool = False

    def with_secret(self, secret: Secret) -> Allocation:
        """Return the allocation with the secret that was found or drawn."""
        return _allocation(self.allocation, self.pool, secret)


def adoption(entry: CheckpointEntry, pools: Sequence[Pool], *, now: datetime) -> Adoption | None:
    """Return what there is to adopt in an entry of the checkpoint, ``None`` if it is no answer of one of the pools.

    Args:
        entry: one container's stored answer.
        pools: every pool that may have given it; a resource may appear twice, as it is and as it was before.
        now: wall-clock time in UTC; the time of the grant itself is not recorded anywhere.
    """
    for pool in pools:
        if pool.resource != entry.resource:
            continue
        found = claim(pool, entry.answer)
        if found is not None and found.host_dir == pool.host_dir:
            owner = Owner(uid=entry.uid, container=entry.container)
            return adopted(pool, found, entry.devices, owner, now=now)
    return None


def adopted(pool: Pool, found: Claim, devices: Iterable[DeviceId], owner: Owner, *, now: datetime) -> Adoption:
    """Return the adoption of an allocation that an answer of a pool describes."""
    sealed = found.secret is None
    allocation = Allocation(
        id=found.id,
        resource=pool.resource,
        devices=in_index_order(pool, devices),
        host_dir=pool.host_dir,
        container_dir=found.container_dir,
        socket_name=found.socket_name,
        rules=pool.directory,
        secret=_PENDING_SECRET,
        granted=now,
        secret_delivery=pool.secret_delivery,
        owner=owner,
    )
    return Adoption(
        allocation=allocation if found.secret is None else _allocation(allocation, pool, found.secret),
        pool=pool,
        sealed=sealed,
    )


def _allocation(bare: Allocation, pool: Pool, secret: Secret) -> Allocation:
    return replace(bare, secret=secret, files=files(pool, bare.devices, secret))


def in_index_order(pool: Pool, devices: Iterable[DeviceId]) -> tuple[DeviceId, ...]:
    """Return ids by their index; ids that the pool no longer lists come last, by name."""
    beyond = len(pool.indexes)
    return tuple(sorted(devices, key=lambda device: (pool.indexes.get(device, beyond), device)))
