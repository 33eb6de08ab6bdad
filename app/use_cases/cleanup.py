"""Uninstalling: removing everything of ours from a node on which nothing uses it any more.

The rule is narrower than that of Release and needs no grace, because no daemon runs that could grant anything: what a
container mounts stays, and so does what the kubelet would mount into a container of a pod that still exists.  A pod of
the kubelet's record that neither the runtime nor the kubelet shows is dead; the kubelet forgets those only while a
daemon serves it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from domain.allocation import Allocation, Directory
from domain.device_info import DeviceInfo, wanted
from domain.evidence import (
    Absent,
    CheckpointEntry,
    CheckpointView,
    DirectoryView,
    Evidence,
    PodDevices,
    RuntimeView,
    Unknown,
)
from domain.identity import AllocationId
from domain.ledger import Ledger
from domain.pool import DirectoryRules, Pool
from domain.ports.checkpoint import Checkpoint
from domain.ports.device_info import DeviceInfoFiles
from domain.ports.journal import Recovered
from domain.ports.kubelet import KubeletUnavailable, PodResources
from domain.ports.runtime import ContainerRuntime, RuntimeUnavailable
from domain.ports.sockets import DirectoryUnusable, Leftover, NoRoom, SocketDirectories
from domain.ports.traces import BaseDirectories, Traces
from domain.sights import Sights

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What is there of the plugin.

    Attributes:
        directories: of allocations, in all base directories that exist.
        bases: these base directories.
        strangers: what else lies in them and is left alone.
        device_info: the directories of device information files, none of which is wanted any more.
        files: the paths of everything else.
        users: who uses which directory, in words.
        doubts: why it cannot be told that nobody does.
        obstacles: what cannot be removed, and why.
    """

    directories: tuple[Directory, ...]
    bases: tuple[str, ...]
    strangers: tuple[str, ...]
    device_info: tuple[DeviceInfo, ...]
    files: tuple[str, ...]
    users: tuple[str, ...]
    doubts: tuple[str, ...]
    obstacles: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Everything that would be removed."""
        return (*(each.path for each in self.directories), *self.bases, *self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What a cleanup did.

    Attributes:
        removed: what is gone.
        left: what was left alone because it is not ours, or holds something that is not, or is a mount point.
        obstacles: what could not be removed, and why; the journal stays then, and the next cleanup goes on.
    """

    removed: tuple[str, ...]
    left: tuple[str, ...]
    obstacles: tuple[str, ...]


class Cleanup:
    """Looks at what is there, and removes it.

    Args:
        sockets: the allocations' directories.
        bases: the base directories.
        device_info: the files that tell others of our devices.
        traces: everything else, in the order in which it goes; what remembers the rest comes last.
        runtime: shows who mounts what.
        checkpoint: shows what the kubelet would mount.
        pod_resources: tells which of the kubelet's pods live, where the runtime shows nothing of them.
    """

    def __init__(
        self,
        *,
        sockets: SocketDirectories,
        bases: BaseDirectories,
        device_info: DeviceInfoFiles,
        traces: Sequence[Traces],
        runtime: ContainerRuntime,
        checkpoint: Checkpoint,
        pod_resources: PodResources,
    ) -> None:
        self._sockets = sockets
        self._bases = bases
        self._device_info = device_info
        self._traces = traces
        self._runtime = runtime
        self._checkpoint = checkpoint
        self._pod_resources = pod_resources

    async def survey(self, pools: Sequence[Pool], recorded: Recovered) -> Survey:
        """Return what is there and who uses it; nothing is changed.

        Args:
            pools: as configured.
            recorded: what the journal holds of allocations and earlier pools.
        """
        everything = (*pools, *recorded.pools)
        known = {allocation.id: allocation for allocation, _ in recorded.allocations}
        host_dirs = {pool.host_dir for pool in everything}.union(each.host_dir for each in known.values())
        views, obstacles = self._look(host_dirs)
        checkpoint = self._checkpoint.read()
        runtime = await self._read_runtime()
        ledger = Ledger().with_live(known.values(), at=0.0)
        evidence = Evidence(runtime=runtime, checkpoint=checkpoint, directories=views)
        users, doubts = await self._users(Sights(ledger, evidence, everything))
        return Survey(
            directories=tuple(_directories(views, known)),
            bases=tuple(view.host_dir for view in views),
            device_info=wanted(pools, recorded.pools, ()),
            strangers=tuple(f"{view.host_dir}/{name}" for view in views for name in sorted(view.strangers)),
            files=tuple(path for each in self._traces for path in each.there()),
            users=users,
            doubts=(*_unknown(runtime, checkpoint), *doubts),
            obstacles=obstacles,
        )

    def remove(self, survey: Survey) -> Cleaned:
        """Remove what was found; it must be certain that nobody uses it."""
        removed: list[str] = []
        left = list(survey.strangers)
        obstacles = list(survey.obstacles)
        for directory in survey.directories:
            obstacle = _obstacle(self._sockets.remove, directory)
            if obstacle is None:
                removed.append(directory.path)
            else:
                obstacles.append(obstacle)
        for host_dir in survey.bases:
            obstacle = _obstacle(self._sockets.resume, host_dir)
            if obstacle is not None:
                obstacles.append(obstacle)
            elif self._bases.remove(host_dir):
                removed.append(host_dir)
            else:
                left.append(host_dir)
        for info in survey.device_info:
            try:
                removed.extend(f"{info.directory}/{name}" for name in self._device_info.settle(info).removed)
            except (DirectoryUnusable, NoRoom) as error:
                obstacles.append(str(error))
        for traces in () if obstacles else self._traces:
            taken = traces.remove()
            removed.extend(taken.removed)
            obstacles.extend(taken.obstacles)
        return Cleaned(removed=tuple(removed), left=tuple(left), obstacles=tuple(dict.fromkeys(obstacles)))

    def _look(self, host_dirs: Iterable[str]) -> tuple[tuple[DirectoryView, ...], tuple[str, ...]]:
        """Return what lies in the base directories that exist, and what is wrong with others."""
        views: list[DirectoryView] = []
        obstacles: list[str] = []
        for host_dir in sorted(host_dirs):
            try:
                if self._bases.exists(host_dir):
                    views.append(self._sockets.look(host_dir))
            except (DirectoryUnusable, NoRoom) as error:
                obstacles.append(str(error))
        return tuple(views), tuple(obstacles)

    async def _read_runtime(self) -> RuntimeView | Unknown:
        try:
            return await self._runtime.snapshot()
        except RuntimeUnavailable as error:
            return Unknown(str(error))

    async def _users(self, sights: Sights) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return who uses directories, and why that cannot be told completely."""
        uids = sights.uids or frozenset()
        users = [f"{name} by {holder}" for name, holders in sights.mounted.items() for holder in holders]
        users += [
            f"{name} by the pod of uid {entry.uid}"
            for name, entry in sights.stored.items()
            if entry.uid in uids and name not in sights.mounted
        ]
        unseen = {name: entry for name, entry in sights.stored.items() if entry.uid not in uids}
        if not unseen:
            return tuple(users), ()
        try:
            pods = await self._pod_resources.pods()
        except KubeletUnavailable as error:
            # A runtime that shows pods is the kubelet's, so a pod of which it shows nothing is dead.
            doubt = (
                f"no pod is seen, the kubelet's record names {', '.join(unseen)}, and the kubelet is silent: {error}"
            )
            return tuple(users), () if uids else (doubt,)
        users += [f"{name} by {holder}" for name, entry in unseen.items() for holder in _holders(entry, pods)]
        return tuple(users), ()


def _obstacle(remove: Callable[[T], Leftover], what: T) -> str | None:
    """Make passes until nothing is left, or something stands in the way; each removes something or says what does."""
    while True:
        leftover = remove(what)
        if leftover.obstacle is not None or not leftover.more:
            return leftover.obstacle


def _unknown(runtime: RuntimeView | Unknown, checkpoint: CheckpointView | Unknown) -> Iterator[str]:
    if isinstance(runtime, Unknown):
        yield f"who mounts what is unknown: {runtime.reason}"
    # Where there is no record, the kubelet has nothing of ours to mount.
    if isinstance(checkpoint, Unknown) and not isinstance(checkpoint, Absent):
        yield f"what the kubelet would mount is unknown: {checkpoint.reason}"


def _holders(entry: CheckpointEntry, pods: Iterable[PodDevices]) -> Iterator[str]:
    """Yield the pods that hold one of an entry's devices, as the kubelet tells it."""
    for pod in pods:
        held = {device for each in pod.containers.values() for device in each.get(entry.resource, ())}
        if held.intersection(entry.devices):
            yield f"pod {pod.namespace}/{pod.name}"


def _directories(views: Iterable[DirectoryView], known: Mapping[AllocationId, Allocation]) -> Iterator[Directory]:
    """Yield what is to be removed; what the journal knows, it knows with all that belongs to it."""
    for view in views:
        for name in sorted(view.inodes):
            allocation = known.get(name)
            if allocation is not None and allocation.host_dir == view.host_dir:
                yield allocation.directory
            else:
                yield Directory(host_dir=view.host_dir, id=name, rules=DirectoryRules())
