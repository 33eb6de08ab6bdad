"""Reconcile: look at the node, let the resync rules decide, do what they say."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from app.use_cases.adopt import Adopt
from app.use_cases.gather import Gather
from app.use_cases.own import Own
from app.use_cases.release import Release
from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain import resync
from domain.allocation import Directory
from domain.evidence import CheckpointView, RuntimeView, Unknown
from domain.identity import AllocationId
from domain.ledger import Ledger, Standing
from domain.overview import LastReconcile
from domain.pool import DirectoryRules
from domain.ports.clock import Clock
from domain.ports.kubelet import DeviceLists, KubeletUnavailable, PodResources
from domain.ports.reports import Reports
from domain.ports.worker import Worker
from domain.resync import Effect, Policy


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
        self._interval = interval
        self._grace = grace
        self._told: str | None = None

    async def __call__(self, *, dry_run: bool = False) -> Reconciled:
        """Gather, decide and, unless it is a dry run, do."""
        if dry_run:
            return await self._run(dry_run=True)
        try:
            done = await self._run(dry_run=False)
        except Exception as error:
            self._state.reconciled = LastReconcile(
                ended=self._clock.now(), error=f"{type(error).__name__}: {error}".removesuffix(": ")
            )
            raise
        self._state.reconciled = LastReconcile(ended=self._clock.now())
        return done

    async def _run(self, *, dry_run: bool) -> Reconciled:
        gathered = await self._gather()
        ledger, evidence = self._state.ledger, gathered.evidence
        policy = Policy(grace=self._grace, may_ask=gathered.listed or self._state.may_list(self._interval))
        effects = resync.plan(ledger, evidence, self._state.known_pools, policy, now=self._clock.now())
        if not dry_run:
            for effect in effects:
                await self._do(effect, ledger, listed=gathered.listed)
            await self._resume(view.host_dir for view in evidence.directories)
        return Reconciled(runtime=evidence.runtime, checkpoint=evidence.checkpoint, effects=effects)

    async def _do(self, effect: Effect, ledger: Ledger, *, listed: bool) -> None:
        """Carry one effect out; the ledger is the one that it was decided by."""
        match effect:
            case resync.Adopt():
                await self._adopt((effect.adoption,))
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
        await self._worker.run("sweeping a directory", lambda: self._storage.clear(orphan))
        self._reports.warn("an orphaned directory was removed", directory=orphan.path, reason=effect.reason)

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

    async def _resume(self, host_dirs: Iterable[str]) -> None:
        """Go on deleting what earlier passes left."""
        paths = tuple(host_dirs)
        await self._worker.run("deleting leftovers", lambda: self._storage.resume(paths))
