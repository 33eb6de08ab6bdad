"""Gathering the evidence for a reconcile."""

from contextlib import suppress
from dataclasses import dataclass

from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain.evidence import DirectoryView, Evidence, RuntimeView, Unknown, uids_seen
from domain.ports.clock import Clock
from domain.ports.kubelet import KubeletUnavailable, PodResources
from domain.ports.runtime import ContainerRuntime, RuntimeUnavailable
from domain.ports.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The evidence, and whether the kubelet was listed for it, which counts as asking it to forget."""

    evidence: Evidence
    listed: bool


class Gather:
    """Reads the node."""

    def __init__(
        self,
        *,
        state: State,
        storage: Storage,
        worker: Worker,
        runtime: ContainerRuntime,
        pod_resources: PodResources,
        clock: Clock,
        interval: float,
    ) -> None:
        self._state = state
        self._storage = storage
        self._worker = worker
        self._runtime = runtime
        self._pod_resources = pod_resources
        self._clock = clock
        self._interval = interval

    async def __call__(self) -> Gathered:
        """Read the kubelet's record before the runtime.

        What the record no longer names cannot be mounted any more, so a container that the later reading does not
        show will not come.  The other way round, one could appear and be forgotten between the two.
        """
        checkpoint = await self._worker.run("reading the checkpoint", self._storage.read_checkpoint)
        self._state.checkpoint = checkpoint
        runtime = await self._read_runtime()
        self._state.runtime = runtime
        doubted, listed = await self._doubted(runtime)
        host_dirs = self._host_dirs()
        directories = await self._worker.run("reading the base directories", lambda: self._storage.look(host_dirs))
        evidence = Evidence(
            runtime=runtime,
            checkpoint=checkpoint,
            directories=directories,
            empty_runtime_doubted=doubted,
            first_seen=self._first_seen(directories),
        )
        self._state.evidence = evidence
        return Gathered(evidence=evidence, listed=listed)

    async def _read_runtime(self) -> RuntimeView | Unknown:
        try:
            view = await self._runtime.snapshot()
        except RuntimeUnavailable as error:
            self._state.identity = None
            return Unknown(str(error))
        if self._state.identity is None:
            await self._identify()
        return view

    async def _identify(self) -> None:
        """Learn which runtime answers, once each time that it begins to: for display only."""
        with suppress(RuntimeUnavailable):
            self._state.identity = await self._runtime.identity()

    async def _doubted(self, runtime: RuntimeView | Unknown) -> tuple[bool, bool]:
        """Return whether a runtime without any pod is to be doubted, and whether the kubelet was listed to find out.

        A runtime that just started, or one that is not the kubelet's, shows nothing too.  Where the kubelet may not
        be listed at the moment the doubt stays, for one interval at most.
        """
        if isinstance(runtime, Unknown) or uids_seen(runtime):
            return False, False
        if not self._state.may_list(self._interval):
            return True, False
        self._state.listing()
        try:
            return bool(await self._pod_resources.pods()), True
        except KubeletUnavailable:
            return True, False

    def _host_dirs(self) -> tuple[str, ...]:
        """Every base directory in use: those of the pools, and those that allocations were made with."""
        used = {record.allocation.host_dir for record in self._state.ledger}
        return tuple(sorted(used.union(pool.host_dir for pool in self._state.pools.values())))

    def _first_seen(self, directories: tuple[DirectoryView, ...]) -> dict[str, float]:
        now = self._clock.monotonic()
        self._state.first_seen = {
            path: self._state.first_seen.get(path, now)
            for view in directories
            for name in view.inodes
            if name not in self._state.ledger
            for path in (f"{view.host_dir}/{name}",)
        }
        return self._state.first_seen
