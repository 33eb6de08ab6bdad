"""Reconcile: look at the node, let the resync rules decide, do what they say."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, assert_never

from app.use_cases.adopt import Adopt
from app.use_cases.gather import Gather, Gathered
from app.use_cases.own import Own
from app.use_cases.release import Release
from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain import resync
from domain.allocation import Directory
from domain.claims import Fault
from domain.evidence import CheckpointView, DirectoryView, Evidence, RuntimeView, Unknown
from domain.identity import AllocationId
from domain.ledger import Ledger, Standing
from domain.overview import LastReconcile
from domain.pool import DirectoryRules
from domain.ports.clock import Clock
from domain.ports.kubelet import DeviceLists, KubeletUnavailable, PodResources
from domain.ports.measures import Measures
from domain.ports.reports import Reports
from domain.ports.worker import Worker
from domain.resource import ResourceName
from domain.resync import Effect, Policy

_KEEPING: Final = (resync.Adopt, resync.Own, resync.Repair)
"""Effects for what lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What one reconcile saw and decided."""

    runtime: RuntimeView | Unknown
    checkpoint: CheckpointView | Unknown
    effects: tuple[Effect, ...]


class Reconcile:
    """Runs the resync rules once.  Never twice at a time: whoever calls it sees to that."""

    def __init__(
        self,
        *,
        state: State,
        storage: Storage,
        worker: Worker,
        gather: Gather,
        adopt: Adopt,
        own: Own,
        release: Release,
        pod_resources: PodResources,
        lists: DeviceLists,
        clock: Clock,
        reports: Reports,
        measures: Measures,
        interval: float,
        grace: float,
    ) -> None:
        self._state = state
        self._storage = storage
        self._worker = worker
        self._gather = gather
        self._adopt = adopt
        self._own = own
        self._release = release
        self._pod_resources = pod_resources
        self._lists = lists
        self._clock = clock
        self._reports = reports
        self._measures = measures
        self._interval = interval
        self._grace = grace
        self._told: str | None = None
        self._rejected: dict[str, set[Fault]] = {}

    async def __call__(self, *, dry_run: bool = False) -> Reconciled:
        """Gather, decide and, unless it is a dry run, do."""
        if dry_run:
            return await self._run(dry_run=True)
        began = self._clock.monotonic()
        try:
            done = await self._run(dry_run=False)
        except Exception as error:
            self._state.reconciled = LastReconcile(
                ended=self._clock.now(), error=f"{type(error).__name__}: {error}".removesuffix(": ")
            )
            self._measures.reconciled(ok=False, seconds=self._clock.monotonic() - began)
            raise
        self._state.reconciled = LastReconcile(ended=self._clock.now())
        self._measures.reconciled(ok=True, seconds=self._clock.monotonic() - began)
        return done

    async def _run(self, *, dry_run: bool) -> Reconciled:
        gathered = await self._gather()
        ledger, evidence = self._state.ledger, gathered.evidence
        policy = Policy(grace=self._grace, may_ask=gathered.listed or self._state.may_list(self._interval))
        effects = resync.plan(ledger, evidence, self._state.known_pools, policy, now=self._clock.now())
        if not dry_run:
            await self._act(effects, ledger, gathered)
        return Reconciled(runtime=evidence.runtime, checkpoint=evidence.checkpoint, effects=effects)

    async def _act(self, effects: Sequence[Effect], ledger: Ledger, gathered: Gathered) -> None:
        """Carry the effects out, and go on with earlier removals.

        What lives comes first.  Earlier removals come before new ones, so that each directory has one pass in one
        reconcile: what a tenant left may take long, or resist.
        """
        for effect in effects:
            if isinstance(effect, _KEEPING):
                await self._do(effect, ledger, listed=gathered.listed)
        left = await self._resume(gathered.evidence.directories)
        due = await self._due(effects, ledger, left)
        for effect in effects:
            postponed = isinstance(effect, resync.Release) and effect.id not in due
            if not isinstance(effect, _KEEPING) and not postponed:
                await self._do(effect, ledger, listed=gathered.listed)
        await self._compare(gathered.evidence.directories)
        self._tell_rejections(gathered.evidence)

    async def _due(
        self, effects: Sequence[Effect], ledger: Ledger, left: frozenset[AllocationId]
    ) -> frozenset[AllocationId]:
        """Return what is released in this reconcile: nothing that had its pass, and nothing if it cannot be recorded.

        Args:
            effects: everything that was decided.
            ledger: by which it was decided.
            left: of whose directories something was left by the pass for earlier removals.
        """
        releasing = (each.id for each in effects if isinstance(each, resync.Release))
        due = frozenset(
            name for name in releasing if name not in left or ledger.records[name].standing is not Standing.RELEASING
        )
        return due if due and await self._release.possible() else frozenset()

    async def _do(self, effect: Effect, ledger: Ledger, *, listed: bool) -> None:
        """Carry one effect out; the ledger is the one that it was decided by."""
        match effect:
            case resync.Adopt():
                await self._adopt((effect.adoption,), reason=effect.reason)
            case resync.Own():
                await self._own((effect,))
            case resync.Repair():
                await self._repair(effect)
            case resync.Release():
                await self._release(ledger.records[effect.id], reason=effect.reason)
            case resync.Sweep():
                await self._sweep(effect)
            case resync.Ask():
                await self._ask(effect, listed=listed)
            case resync.Wait():
                pass
            case _:
                assert_never(effect)

    def _tell_rejections(self, evidence: Evidence) -> None:
        """Count each claim that is ignored by its faults, and say it once an object, as long as the object exists."""
        if isinstance(evidence.runtime, Unknown):
            return
        found = resync.rejections(self._state.ledger, evidence, self._state.known_pools, now=self._clock.now())
        for each in found:
            faults = self._rejected.setdefault(each.object_id, set())
            if each.fault in faults:
                continue
            self._measures.claim_rejected(each.fault)
            if not faults:
                self._reports.warn(
                    "a memif claim of a container is ignored; its author, or its image's, may be up to something",
                    container=each.object_id,
                    fault=each.fault.value,
                    socket=each.socket,
                )
            faults.add(each.fault)
        exist = {each.id for each in evidence.runtime.objects}
        self._rejected = {name: faults for name, faults in self._rejected.items() if name in exist}

    async def _repair(self, effect: resync.Repair) -> None:
        record = self._state.ledger.get(effect.id)
        if record is None or record.standing is not Standing.LIVE:  # an operator may have forced it out meanwhile
            return
        inodes, troubles = await self._worker.run(
            "repairing a directory", lambda: self._storage.ensure((record.allocation,))
        )
        self._state.ledger = self._state.ledger.made(inodes)
        for trouble in troubles:
            self._reports.warn(
                "the directory of a living allocation cannot be had", allocation=trouble.id, reason=str(trouble.error)
            )

    async def _sweep(self, effect: resync.Sweep) -> None:
        if effect.id in self._state.ledger:
            return
        orphan = Directory(host_dir=effect.host_dir, id=AllocationId(effect.id), rules=DirectoryRules())
        leftover = await self._worker.run("sweeping a directory", lambda: self._storage.clear(orphan))
        if leftover.obstacle is None:
            self._reports.warn("an orphaned directory was removed", directory=orphan.path, reason=effect.reason)
            for resource in self._resources(effect.host_dir)[:1]:
                self._measures.orphan_removed(resource)

    def _resources(self, host_dir: str) -> tuple[ResourceName, ...]:
        """Return the resources that have, or had, a base directory; it was looked into because one has."""
        pools = ((pool.host_dir, pool.resource) for pool in self._state.known_pools)
        records = ((each.allocation.host_dir, each.allocation.resource) for each in self._state.ledger)
        return tuple(resource for path, resource in (*pools, *records) if path == host_dir)

    async def _ask(self, effect: resync.Ask, *, listed: bool) -> None:
        """Have the kubelet forget: it drops dead pods when listed, and writes its file at the next device list."""
        if not listed:
            if not self._state.may_list(self._interval):
                return
            self._state.listing()
            try:
                await self._pod_resources.pods()
            except KubeletUnavailable as error:
                self._reports.warn("the kubelet cannot be asked to forget dead pods", reason=str(error))
                return
        self._lists.publish()
        if effect.reason != self._told:  # it may last, and be asked for in every interval
            self._told = effect.reason
            self._reports.note("the kubelet was asked to forget dead pods", reason=effect.reason)

    async def _resume(self, directories: Iterable[DirectoryView]) -> frozenset[AllocationId]:
        """Go on deleting what earlier passes left; return whose directories something is still left of.

        A pass for each base directory is a job of its own, so that a call of the kubelet can come in between.
        """
        left: frozenset[AllocationId] = frozenset()
        for view in directories:
            left |= await self._worker.run("deleting leftovers", partial(self._storage.resume, (view.host_dir,)))
        return left

    async def _compare(self, directories: Iterable[DirectoryView]) -> None:
        """Have what is different about our directories reported; others than ours were made ours above."""
        inodes = {name: inode for view in directories for name, inode in view.inodes.items()}
        ours = [
            record.allocation
            for record in self._state.ledger
            if record.standing is Standing.LIVE
            and record.inode is not None
            and record.inode == inodes.get(record.allocation.id)
        ]
        await self._worker.run("comparing directories", lambda: self._storage.compare(ours))
