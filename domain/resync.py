"""The resync rules: what follows from the ledger and the evidence.

One pure function, :func:`plan`.  It says what to own, adopt, repair, release, sweep and ask for, and why everything
else waits; it never raises and never acts.  Carrying out its effects and planning again with the same evidence at the
same time gives nothing but :class:`Wait`.

The rules of life, in short:

* An allocation is *in use* while the runtime or the kubelet's checkpoint names it.  Neither view alone is enough: a
  container exists some time before and after the kubelet's record of it.
* Only an allocation that both views, both known, have not named for the grace period is released.  A view that is
  unknown releases nothing; nor does a newer grant of the same id, or absence from the kubelet's listings, which leave
  out plain init containers and are empty or partial after a kubelet start.
* What a container carries can keep an allocation and nothing else, because tenants can write some of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil

from domain.adoption import Adoption, adoption
from domain.allocation import Owner
from domain.claims import Judgement, Rejection, judge
from domain.evidence import CheckpointView, DirectoryView, Evidence, RuntimeView, Unknown
from domain.identity import AllocationId
from domain.ledger import Ledger, Record, Standing
from domain.pool import Pool
from domain.sights import Sights


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Let an allocation go: its directory and its record."""

    id: AllocationId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Write down what became known of an owner."""

    id: AllocationId
    owner: Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """Take over what the kubelet will mount."""

    adoption: Adoption
    reason: str

    @property
    def id(self) -> AllocationId:
        """The adopted allocation's id."""
        return self.adoption.allocation.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """Make an allocation's directory what it must be."""

    id: AllocationId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Remove a directory that belongs to nobody."""

    host_dir: str
    id: AllocationId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Have the kubelet forget dead pods: one listing, then the same device list again."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Do nothing yet with an allocation, directory or view, and why."""

    id: AllocationId | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What keeps one allocation from being released.

    Attributes:
        holders: who names it: ``container:<id>`` for each, ``checkpoint``.
        blind: why it cannot be told whether somebody does, ``None`` if it can.
        grace: seconds until it may be released if nobody names it then, ``None`` if they are over.
    """

    holders: tuple[str, ...] = ()
    blind: str | None = None
    grace: float | None = None

    @property
    def free(self) -> bool:
        """Whether nothing keeps it."""
        return not self.holders and self.blind is None and self.grace is None

    def reasons(self) -> tuple[str, ...]:
        """Return everything that keeps it, in words."""
        blind = () if self.blind is None else (self.blind,)
        grace = () if self.grace is None else (f"grace {ceil(self.grace)}s",)
        return (*self.holders, *blind, *grace)


Effect = Release | Own | Adopt | Repair | Sweep | Ask | Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the operator and the process allow.

    Attributes:
        grace: seconds for which both views must not have named an allocation.
        may_ask: the kubelet may be listed now: not asked within the interval, no Allocate of ours in flight or just
            answered (a listing then feeds a race in the kubelet that gives one device twice).
    """

    grace: float
    may_ask: bool = True


def plan(
    ledger: Ledger, evidence: Evidence, pools: Sequence[Pool], policy: Policy, *, now: datetime
) -> tuple[Effect, ...]:
    """Return what follows from the ledger and the evidence.

    Args:
        ledger: what we know.
        evidence: what is seen.
        pools: every pool, as it is and as it was; see :func:`domain.adoption.adoption`.
        policy: grace, and whether the kubelet may be asked now.
        now: wall-clock time in UTC, for adopted allocations.
    """
    sights = Sights(ledger, evidence, pools)
    stored = tuple(_adopt(ledger, sights, pools, now))
    return (
        *stored,
        *_reclaim(ledger, sights, pools, stored, now),
        *_own(ledger, sights),
        *_repair(ledger, evidence.directories),
        *_release(ledger, sights, policy),
        *_sweep(ledger, sights, policy),
        *_ask(sights, policy),
    )


def rejections(ledger: Ledger, evidence: Evidence, pools: Sequence[Pool], *, now: datetime) -> tuple[Rejection, ...]:
    """Return the claims of containers and sandboxes from which nothing follows, each to be told once.

    Args:
        ledger: what we know after the effects of :func:`plan`.
        evidence: what is seen.
        pools: every pool, as it is and as it was.
        now: wall-clock time in UTC.
    """
    return _judged(ledger, evidence, pools, now).rejections


def owners(
    ledger: Ledger, runtime: RuntimeView | Unknown, checkpoint: CheckpointView | Unknown, pools: Sequence[Pool]
) -> tuple[Own, ...]:
    """Return what the views tell of owners that are not completely known yet; a part of :func:`plan`."""
    return tuple(_own(ledger, Sights(ledger, Evidence(runtime=runtime, checkpoint=checkpoint), pools)))


def holds(
    ledger: Ledger, evidence: Evidence, pools: Sequence[Pool], *, grace: float, now: float
) -> Mapping[AllocationId, Hold]:
    """Return what keeps each record, of any standing; nothing does where the Release rule lets it go.

    Args:
        ledger: what we know.
        evidence: what is seen, begun before now.
        pools: every pool, as it is and as it was.
        grace: seconds; see :class:`Policy`.
        now: monotonic time.
    """
    sights = Sights(ledger, evidence, pools)
    return {record.allocation.id: _hold(record, sights, grace, now) for record in ledger}


def _adopt(ledger: Ledger, sights: Sights, pools: Sequence[Pool], now: datetime) -> Iterator[Adopt]:
    taken: set[AllocationId] = set()
    for entry in sights.unfamiliar:
        found = adoption(entry, pools, now=now)
        if found is None or found.allocation.id in ledger or found.allocation.id in taken:
            continue
        taken.add(found.allocation.id)
        if (pod := sights.pod(entry.uid)) is not None:
            found = replace(found, allocation=found.allocation.owned_by(pod))
        yield Adopt(adoption=found, reason="the kubelet's checkpoint names it")


def _reclaim(
    ledger: Ledger, sights: Sights, pools: Sequence[Pool], stored: Iterable[Adopt], now: datetime
) -> Iterator[Adopt]:
    """Last of all, bring back what even the kubelet has forgotten while its container runs."""
    known = ledger.with_live((each.adoption.allocation for each in stored), at=0.0)
    for found in _judged(known, sights.evidence, pools, now).adoptions:
        if found.allocation.id not in sights.stored:
            yield Adopt(adoption=found, reason="a container that runs mounts it and carries its annotations")


def _judged(ledger: Ledger, evidence: Evidence, pools: Sequence[Pool], now: datetime) -> Judgement:
    """Judge the claims, while both views are known: with half of the evidence none can be judged."""
    if isinstance(evidence.runtime, Unknown) or isinstance(evidence.checkpoint, Unknown):
        return Judgement(adoptions=(), rejections=())
    spellings = {view.host_dir: view.spellings for view in evidence.directories}
    return judge(evidence.runtime.objects, ledger, pools, spellings, now=now)


def _own(ledger: Ledger, sights: Sights) -> Iterator[Own]:
    for record in ledger:
        known = record.allocation.owner
        if record.standing is not Standing.LIVE or known.complete:
            continue
        entry = sights.stored.get(record.allocation.id)
        owner = known if entry is None else known.completed_by(Owner(uid=entry.uid, container=entry.container))
        if (pod := sights.pod(owner.uid)) is not None:
            owner = owner.completed_by(pod)
        if owner != known:
            yield Own(id=record.allocation.id, owner=owner)


def _repair(ledger: Ledger, directories: tuple[DirectoryView, ...]) -> Iterator[Effect]:
    views = {view.host_dir: view for view in directories}
    for record in ledger:
        view = views.get(record.allocation.host_dir)
        if view is None or record.standing is not Standing.LIVE:
            continue
        inode = view.inodes.get(record.allocation.id)
        if inode is None:
            yield Repair(id=record.allocation.id, reason="its directory is missing")
        elif inode != record.inode:
            yield Repair(id=record.allocation.id, reason="its directory is another than we made or mended")


def _release(ledger: Ledger, sights: Sights, policy: Policy) -> Iterator[Effect]:
    for record in ledger:
        name = record.allocation.id
        # A release that was interrupted was decided by what was known then; only a holder seen now stops it.
        interrupted = record.standing is Standing.RELEASING
        held_by = sights.holder(name) if interrupted else _held_by(record, sights, policy)
        if held_by is not None:
            yield Wait(id=name, reason=held_by)
        elif interrupted:
            yield Release(id=name, reason="its release was interrupted")
        else:
            yield Release(id=name, reason="neither the runtime nor the kubelet names it")


def _hold(record: Record, sights: Sights, grace: float, now: float) -> Hold:
    until = record.touched + grace
    young = until > now or (sights.blind is None and sights.older_than(until))
    return Hold(
        holders=sights.holders(record.allocation.id), blind=sights.blind, grace=max(0.0, until - now) if young else None
    )


def _held_by(record: Record, sights: Sights, policy: Policy) -> str | None:
    """Say what keeps an allocation, ``None`` if it may be released."""
    holder = sights.holder(record.allocation.id)
    if holder is not None:
        return holder
    if sights.blind is not None:
        return sights.blind
    if sights.older_than(record.touched + policy.grace):
        return f"grace {policy.grace:g}s"
    return None


def _sweep(ledger: Ledger, sights: Sights, policy: Policy) -> Iterator[Effect]:
    for view in sights.evidence.directories:
        for name in view.inodes:
            if name in ledger or sights.holder(name) is not None:
                continue
            seen = sights.evidence.first_seen.get(f"{view.host_dir}/{name}")
            if sights.blind is not None:
                yield Wait(id=name, reason=sights.blind)
            elif seen is None or sights.older_than(seen + policy.grace):
                yield Wait(id=name, reason=f"unknown directory, grace {policy.grace:g}s")
            else:
                yield Sweep(host_dir=view.host_dir, id=name, reason="nobody knows this directory")


def _ask(sights: Sights, policy: Policy) -> Iterator[Effect]:
    if isinstance(sights.evidence.checkpoint, Unknown):
        reason = f"the checkpoint is unknown: {sights.evidence.checkpoint.reason}"
    elif sights.uids is not None and any(entry.uid not in sights.uids for entry in sights.entries):
        reason = "the checkpoint names a pod of which nothing exists"
    else:
        return
    yield (Ask(reason=reason) if policy.may_ask else Wait(id=None, reason=f"may not ask the kubelet yet: {reason}"))
