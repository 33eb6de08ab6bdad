"""What the resync rules are asked about, and a hand that does what they say."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, assert_never

from domain.adoption import Adoption
from domain.allocation import Allocation
from domain.evidence import CheckpointEntry, DirectoryView, Evidence, RuntimeObject, Unknown
from domain.identity import AllocationId
from domain.ledger import Ledger, Record, Standing
from domain.pool import Pool
from domain.resync import Adopt, Ask, Effect, Own, Policy, Release, Repair, Sweep, Wait, plan
from tests.unit.domain_values import NOW, a_checkpoint, a_pool, a_runtime, a_secret

POOL: Final = a_pool()
BASE: Final = POOL.host_dir
RESOLVED: Final = "/run/contiv/memif"
"""The base directory with the symlinks of its parents resolved."""

GRACE: Final = 30.0
POLICY: Final = Policy(grace=GRACE)
LATE: Final = 1000.0
"""When readings begin that do not say another time: long after everything."""

BLIND: Final = Unknown("connection refused")
"""A view that cannot be had."""

NOBODY: Final = "neither the runtime nor the kubelet names it"


def ledger(*allocations: Allocation, touched: float = 0.0, standing: Standing = Standing.LIVE) -> Ledger:
    """Return a ledger in which the k-th allocation's directory has inode k, from 1."""
    records = {
        each.id: Record(allocation=each, standing=standing, touched=touched, inode=number)
        for number, each in enumerate(allocations, start=1)
    }
    return Ledger(MappingProxyType(records))


def evidence(
    runtime: Sequence[RuntimeObject] | Unknown = (),
    checkpoint: Sequence[CheckpointEntry] | Unknown = (),
    *,
    runtime_began: float = LATE,
    checkpoint_began: float = LATE,
    directories: Sequence[DirectoryView] = (),
    doubted: bool = False,
    first_seen: Mapping[str, float] | None = None,
) -> Evidence:
    """Return what is seen of a node; nothing, unless something is given."""
    return Evidence(
        runtime=runtime if isinstance(runtime, Unknown) else a_runtime(*runtime, began=runtime_began),
        checkpoint=checkpoint if isinstance(checkpoint, Unknown) else a_checkpoint(*checkpoint, began=checkpoint_began),
        directories=tuple(directories),
        empty_runtime_doubted=doubted,
        first_seen=first_seen or {},
    )


def effects(
    known: Ledger, seen: Evidence, pools: Sequence[Pool] = (POOL,), policy: Policy = POLICY
) -> tuple[Effect, ...]:
    """Return what follows."""
    return plan(known, seen, pools, policy, now=NOW)


def deeds(known: Ledger, seen: Evidence, pools: Sequence[Pool] = (POOL,), policy: Policy = POLICY) -> list[Effect]:
    """Return what is to be done now; nobody waits here."""
    return [effect for effect in effects(known, seen, pools, policy) if not isinstance(effect, Wait)]


@dataclass(frozen=True)
class State:
    """Everything that effects change."""

    ledger: Ledger
    evidence: Evidence
    policy: Policy = field(default=POLICY)

    def after(self, planned: Iterable[Effect], *, at: float) -> "State":
        """Return the state after the use case did all that it was told, at a monotonic time.

        Views of the runtime and of the checkpoint stay what they are; what lies in the base directories does not.
        """
        state = self
        for effect in planned:
            state = state._after(effect, at)
        return state

    def _after(  # noqa: PLR0911  # one line a kind of effect
        self, effect: Effect, at: float
    ) -> "State":
        match effect:
            case Adopt():
                return self._adopted(effect.adoption, at)
            case Own():
                return replace(self, ledger=self.ledger.owned(effect.id, effect.owner))
            case Repair():
                return self._ensured(self.ledger.records[effect.id].allocation)
            case Release():
                gone = self.ledger.records[effect.id].allocation
                return replace(self, ledger=self.ledger.without((gone.id,)))._removed(gone.host_dir, gone.id)
            case Sweep():
                return self._removed(effect.host_dir, effect.id)
            case Ask():
                return replace(self, policy=replace(self.policy, may_ask=False))
            case Wait():
                return self
            case _:
                assert_never(effect)

    def _adopted(self, found: Adoption, at: float) -> "State":
        allocation = found.with_secret(a_secret(0)) if found.sealed else found.allocation
        return replace(self, ledger=self.ledger.with_live((allocation,), at=at))._ensured(allocation)

    def _ensured(self, allocation: Allocation) -> "State":
        """Make the directory if it is missing, and remember its inode."""
        inodes = self._inodes(allocation.host_dir)
        if inodes is None:
            return self
        inode = inodes.get(allocation.id, 1 + max(inodes.values(), default=0))
        made = replace(self, ledger=self.ledger.made({allocation.id: inode}))
        return made._with(allocation.host_dir, {**inodes, allocation.id: inode})

    def _removed(self, host_dir: str, name: AllocationId) -> "State":
        inodes = self._inodes(host_dir) or {}
        return self._with(host_dir, {each: inode for each, inode in inodes.items() if each != name})

    def _inodes(self, host_dir: str) -> Mapping[AllocationId, int] | None:
        return next((view.inodes for view in self.evidence.directories if view.host_dir == host_dir), None)

    def _with(self, host_dir: str, inodes: Mapping[AllocationId, int]) -> "State":
        views = tuple(
            replace(view, inodes=inodes) if view.host_dir == host_dir else view for view in self.evidence.directories
        )
        return replace(self, evidence=replace(self.evidence, directories=views))
