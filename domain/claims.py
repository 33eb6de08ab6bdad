"""What containers claim about themselves, and how little follows from it.

A container carries the annotations of its answer, from which Contiv-VPP rebuilt its state.  Some of what a runtime
shows there was written by tenants: a pod's annotations end up on its sandbox, an image's labels on Docker's
containers.  So a claim never binds, changes or removes anything.  It can do one thing: bring back an allocation that
the ledger lost and the kubelet has forgotten while its container still runs, and only if everything else agrees.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from domain.adoption import Adoption, adopted
from domain.allocation import Allocation, Owner
from domain.answer import Claim, written
from domain.evidence import ObjectKind, ObjectState, RuntimeObject
from domain.identity import AllocationId, PodUid
from domain.ledger import Ledger
from domain.pool import Pool


class Fault(StrEnum):
    """Why a claim is ignored; these few values label a metric."""

    SANDBOX = "sandbox"
    """It stands on a sandbox, which shows whatever the pod's author wrote."""
    MALFORMED = "malformed"
    """It is incomplete, contradicts itself, or lies outside the pool's base directory."""
    NOT_MOUNTED = "not_mounted"
    """The container does not mount what it claims on the pool's container directory."""
    DIFFERENT = "different"
    """The allocation is known, with another socket or secret."""
    NO_UID = "no_uid"
    STOPPED = "stopped"
    """Only what is created or running can bring something back."""
    SHARED = "shared"
    """Another pod has the same directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A claim that is ignored.

    Attributes:
        object_id: the runtime's id of the object that carries it.
        socket: the host socket that it claims, escaped and cut; never the secret.
    """

    object_id: str
    fault: Fault
    socket: str


_SHOWN = 120
"""Characters of a tenant's text that are ever shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What follows from all claims of a reading."""

    adoptions: tuple[Adoption, ...]
    rejections: tuple[Rejection, ...]


def judge(
    objects: Iterable[RuntimeObject],
    ledger: Ledger,
    pools: Sequence[Pool],
    spellings: Mapping[str, frozenset[str]],
    *,
    now: datetime,
) -> Judgement:
    """Return which allocations are brought back, and which claims are ignored.

    Args:
        objects: everything that the runtime shows.
        ledger: what is known, of any standing, with what the checkpoint names; a claim for it is only compared.
        pools: every pool, as it is and as it was.
        spellings: of each base directory, the paths by which evidence may name it.
        now: wall-clock time in UTC.
    """
    everything = tuple(objects)
    bench = _Bench(ledger, spellings, _uids_by_path(everything), now)
    by_prefix = _by_prefix(pools)
    adoptions: dict[AllocationId, Adoption] = {}
    rejections: list[Rejection] = []
    for each in everything:
        for pool in _claimed_pools(each, by_prefix):
            verdict = bench.verdict(each, pool)
            if isinstance(verdict, Fault):
                rejections.append(_rejection(each, pool, verdict))
            elif verdict is not None:
                adoptions.setdefault(verdict.allocation.id, verdict)
    return Judgement(adoptions=tuple(adoptions.values()), rejections=tuple(rejections))


def _by_prefix(pools: Iterable[Pool]) -> dict[str, Pool]:
    """Return pools by what their annotations begin with, the present form of a pool before its earlier ones."""
    found: dict[str, Pool] = {}
    for pool in pools:
        found.setdefault(f"{pool.annotation_prefix}.", pool)
    return found


def _claimed_pools(each: RuntimeObject, by_prefix: Mapping[str, Pool]) -> Iterator[Pool]:
    """Yield the pools whose annotations an object carries."""
    if each.claimed:
        for prefix, pool in by_prefix.items():
            if any(key.startswith(prefix) for key in each.claimed):
                yield pool


@dataclass(frozen=True, slots=True)
class _Bench:
    """What claims are judged by."""

    ledger: Ledger
    spellings: Mapping[str, frozenset[str]]
    uids: Mapping[str, frozenset[PodUid | None]]
    now: datetime

    def verdict(self, each: RuntimeObject, pool: Pool) -> Adoption | Fault | None:
        """Return what to adopt, why not, or nothing for a claim that says what is known."""
        bases = self.spellings.get(pool.host_dir, frozenset({pool.host_dir}))
        found = written(pool, each.claimed)
        if each.kind is ObjectKind.SANDBOX:
            return Fault.SANDBOX
        if found is None or found.host_dir not in bases or found.socket_name != pool.socket_name:
            return Fault.MALFORMED
        base, _, name = each.mounts.get(pool.container_dir, "").rpartition("/")
        if found.container_dir != pool.container_dir or name != found.id or base not in bases:
            return Fault.NOT_MOUNTED
        record = self.ledger.get(found.id)
        if record is not None:
            return None if _same(found, record.allocation) else Fault.DIFFERENT
        return self._unfit(each, [f"{base}/{found.id}" for base in bases]) or self._adopted(each, pool, found)

    def _unfit(self, each: RuntimeObject, directories: Iterable[str]) -> Fault | None:
        """Say why a sound claim for an unknown allocation brings nothing back all the same."""
        if each.uid is None:
            return Fault.NO_UID
        if each.state not in {ObjectState.CREATED, ObjectState.RUNNING}:
            return Fault.STOPPED
        holders = frozenset(uid for path in directories for uid in self.uids.get(path, ()))
        return None if holders == {each.uid} else Fault.SHARED

    def _adopted(self, each: RuntimeObject, pool: Pool, found: Claim) -> Adoption:
        owner = Owner(uid=each.uid, container=each.container, namespace=each.namespace, name=each.name)
        return adopted(pool, found, (), owner, now=self.now)


def _same(found: Claim, known: Allocation) -> bool:
    """Whether a claim says what we know; its base directory is one of the right spellings already."""
    return (found.socket_name, found.container_dir) == (known.socket_name, known.container_dir) and found.secret in {
        None,
        known.secret,
    }


def _uids_by_path(objects: Iterable[RuntimeObject]) -> dict[str, frozenset[PodUid | None]]:
    """Return whose containers mount a host path; the claims of others do not count, or they could prevent one."""
    found: dict[str, set[PodUid | None]] = {}
    for each in objects:
        if each.kind is ObjectKind.CONTAINER:
            for path in each.mounts.values():
                found.setdefault(path, set()).add(each.uid)
    return {path: frozenset(uids) for path, uids in found.items()}


def _rejection(each: RuntimeObject, pool: Pool, fault: Fault) -> Rejection:
    socket = each.claimed.get(f"{pool.annotation_prefix}.socket.host", "")
    shown = ascii(socket[:_SHOWN])[1:-1]
    return Rejection(object_id=each.id, fault=fault, socket=shown[:_SHOWN])
