"""The plugin on the node of :mod:`tests.unit.resync_world`: the use cases' part, without ports.

It reads the kubelet's file, some time later the runtime, and plans some time after that.  What it does to directories
is checked against the truth: see :meth:`~tests.unit.resync_world.Node.remove`.  So is what it takes over, and that
planning again after everything was done gives nothing more to do.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from domain import grant, start
from domain.adoption import Adoption, adoption
from domain.allocation import Allocation
from domain.evidence import CheckpointView, Evidence, ObjectState, RuntimeView, Unknown, uids_seen
from domain.identity import AllocationId, DeviceId
from domain.ledger import Ledger, Standing
from domain.resync import Adopt, Ask, Own, Policy, Release, Repair, Sweep, Wait, holds, plan, rejections
from tests.unit.domain_values import NOW, a_base, a_draw
from tests.unit.resync_world import POOL, Node

GRACE: Final = 30.0
INTERVAL: Final = 30.0

_ABLE: Final = {ObjectState.CREATED, ObjectState.RUNNING}
"""States in which a container can bring something back."""


class Plugin:
    """The use cases' part, without ports: it looks, plans, does."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._journal: dict[AllocationId, tuple[Allocation, Standing]] = {}
        self.ledger = Ledger()
        self._begin()

    def _begin(self) -> None:
        self._checkpoint: CheckpointView | Unknown = Unknown("not read yet")
        self._runtime: RuntimeView | Unknown = Unknown("not read yet")
        self._doubted = self._asked = False
        self._first_seen: dict[str, float] = {}
        self._listed: float | None = None
        self.phase = "idle"

    def restart(self, *, journal_lost: bool = False, record_lost: bool = False) -> None:
        """Start again: journal, adoption, repair, all before registering."""
        self._begin()
        if journal_lost:
            self._journal.clear()
        node = self._node
        self.ledger = Ledger().with_live((allocation for allocation, _ in self._journal.values()), at=node.now)
        for allocation, standing in self._journal.values():
            self.ledger = self.ledger.standing(allocation.id, standing)
        self._adopt_all(self._record(lost=record_lost))
        self._ensure(self.ledger.live())

    def allocate(self, devices: list[DeviceId], *, overtaken: bool) -> Allocation:
        """Grant one container request; a reconcile may come between the directory and the ledger."""
        node = self._node
        (granted,) = grant.plan(POOL, [devices], self.ledger, [a_draw(len(node.granted))], now=NOW).allocations
        node.granted[granted.id] = node.due[granted.id] = granted
        self._journal[granted.id] = (granted, Standing.LIVE)
        inode = node.make(granted.id)
        if overtaken and self.phase == "all read":
            self.reconcile()
            assert granted.id in node.directories, f"{granted.id} is gone before it is answered"
        self.ledger = self.ledger.with_live((granted,), at=node.now).made({granted.id: inode})
        return granted

    def pre_start(self, devices: tuple[DeviceId, ...]) -> bool:
        """Make sure of everything that a starting container may mount; tell whether it may start."""
        record = self._record(lost=False)
        self._adopt_all(record)
        try:
            found = start.plan(POOL.resource, devices, self.ledger, record)
        except start.NothingKnown:
            return False
        self.ledger = self.ledger.touched((each.allocation.id for each in found.candidates), at=self._node.now)
        for each in found.candidates:
            self._journal[each.allocation.id] = (each.allocation, Standing.LIVE)
        self._ensure(each.allocation for each in found.candidates)
        return True

    def read_checkpoint(self, *, lost: bool = False) -> None:
        """Begin a look at the node: the kubelet's file comes first."""
        self._checkpoint = self._record(lost=lost)
        self.phase = "record read"

    def read_runtime(self, *, lost: bool = False, blank: bool = False) -> None:
        """Go on with it; a runtime that shows no pod is doubted if the kubelet, listed for that, has one."""
        node = self._node
        shown = () if blank else tuple(node.objects.values())
        self._runtime = Unknown("it does not answer") if lost else RuntimeView(began=node.now, objects=shown)
        empty = isinstance(self._runtime, RuntimeView) and not uids_seen(self._runtime)
        self._asked = empty and self._may_list()
        if self._asked:
            self._list()
        self._doubted = empty and (not self._asked or bool(node.pods))
        self.phase = "all read"

    def reconcile(self, *, dies_releasing: bool = False) -> None:
        """Plan by what was read, however long ago, and do it."""
        node = self._node
        self.phase = "idle"
        base = a_base(host_dir=POOL.host_dir, inodes=dict(node.directories))
        self._first_seen = {
            node.path(name): self._first_seen.get(node.path(name), node.now)
            for name in base.inodes
            if name not in self.ledger
        }
        evidence = Evidence(
            runtime=self._runtime,
            checkpoint=self._checkpoint,
            directories=(base,),
            empty_runtime_doubted=self._doubted,
            first_seen=self._first_seen,
        )
        policy = Policy(grace=GRACE, may_ask=self._asked or self._may_list())
        effects = plan(self.ledger, evidence, (POOL,), policy, now=NOW)
        for effect in effects:
            if isinstance(effect, Release) and dies_releasing:
                self._journal[effect.id] = (self.ledger.records[effect.id].allocation, Standing.RELEASING)
                self.restart()
                return
            self._do(effect)
        if any(isinstance(effect, Ask) for effect in effects):
            policy = replace(policy, may_ask=False)
        self._have_done_all(evidence, policy)

    def _have_done_all(self, evidence: Evidence, policy: Policy) -> None:
        """Planning again by the same evidence leaves nothing but to wait; telling of it never fails either."""
        seen = replace(evidence, directories=(a_base(host_dir=POOL.host_dir, inodes=dict(self._node.directories)),))
        more = [each for each in plan(self.ledger, seen, (POOL,), policy, now=NOW) if not isinstance(each, Wait)]

        assert not more
        assert holds(self.ledger, seen, (POOL,), grace=GRACE, now=self._node.now).keys() == self.ledger.records.keys()
        assert {each.object_id for each in rejections(self.ledger, seen, (POOL,), now=NOW)} <= self._claimants()

    def _claimants(self) -> set[str]:
        view = self._runtime
        return {each.id for each in view.objects if each.claimed} if isinstance(view, RuntimeView) else set()

    def _do(self, effect: object) -> None:
        match effect:
            case Adopt():
                self._take_over(effect.adoption)
            case Own():
                self.ledger = self.ledger.owned(effect.id, effect.owner)
                self._journal[effect.id] = (self.ledger.records[effect.id].allocation, Standing.LIVE)
            case Repair():
                self._ensure((self.ledger.records[effect.id].allocation,))
            case Release():
                self._node.remove(effect.id)
                self.ledger = self.ledger.without((effect.id,))
                del self._journal[effect.id]
            case Sweep():
                self._node.remove(effect.id)
            case Ask():
                if not self._asked:
                    self._list()
                self._node.write()
            case _:
                assert isinstance(effect, Wait)

    def _record(self, *, lost: bool) -> CheckpointView | Unknown:
        node = self._node
        if node.file is None or lost:
            return Unknown("it cannot be read")
        return CheckpointView(began=node.now, entries=tuple(node.file.values()))

    def _adopt_all(self, record: CheckpointView | Unknown) -> None:
        for entry in record.entries if isinstance(record, CheckpointView) else ():
            found = adoption(entry, (POOL,), now=NOW)
            if found is not None:
                self._adopt(found)

    def _take_over(self, found: Adoption) -> None:
        """Adopt what the kubelet's record names, or else what a container claims, which it must also hold."""
        assert isinstance(self._checkpoint, CheckpointView)
        if not any(found.allocation.id in entry.named() for entry in self._checkpoint.entries):
            self._believe(found)
        self._adopt(found)

    def _believe(self, found: Adoption) -> None:
        """Check that a claim is that of the only pod that has its directory.

        If nothing that the runtime shows is the owner's, or a container of the owner's own pod says something else,
        then nobody can know better.
        """
        assert isinstance(self._runtime, RuntimeView)
        name, owner = found.allocation.id, found.allocation.owner
        path = self._node.path(name)
        having = [each for each in self._runtime.objects if path in each.mounts.values()]
        in_place = (each for each in having if each.mounts.get(POOL.container_dir) == path)
        claiming = {each.container for each in in_place if each.claimed and each.state in _ABLE}

        assert name not in self.ledger
        assert {each.uid for each in having} == {owner.uid}
        assert owner.uid is not None
        assert owner.container in claiming
        if any(each.id in self._node.forged for each in having):
            self._node.due[name] = found.allocation

    def _adopt(self, found: Adoption) -> None:
        allocation = found.allocation
        if allocation.id not in self.ledger:
            self.ledger = self.ledger.with_live((allocation,), at=self._node.now)
            self._journal[allocation.id] = (allocation, Standing.LIVE)
            self._ensure((allocation,))

    def _ensure(self, allocations: Iterable[Allocation]) -> None:
        self.ledger = self.ledger.made({each.id: self._node.make(each.id) for each in allocations})

    def _may_list(self) -> bool:
        return self._listed is None or self._node.now - self._listed >= INTERVAL

    def _list(self) -> None:
        assert self._may_list()
        self._listed = self._node.now
        self._node.forget()

    @property
    def letting_go(self) -> set[AllocationId]:
        """What a release has begun for and not finished."""
        return {record.allocation.id for record in self.ledger if record.standing is Standing.RELEASING}

    @property
    def remembered(self) -> set[AllocationId]:
        """What the journal holds."""
        return set(self._journal)
