"""The ports to the kubelet, without a kubelet.

For tests of the use cases.  Where the kubelet's behaviour itself matters, there is the embedded node.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from domain.evidence import CheckpointEntry, CheckpointView, PodDevices, Unknown
from domain.identity import DeviceId, PodUid
from domain.ports.clock import Clock
from domain.ports.kubelet import KubeletUnavailable
from domain.resource import ResourceName


class MemoryPodResources:
    """The port :class:`~domain.ports.kubelet.PodResources`, over pods that somebody put here.

    ``asked`` names each call in order: ``Get telco/cnf``, ``List`` or ``GetAllocatableResources``.
    """

    def __init__(self, on_list: Callable[[], None] | None = None) -> None:
        self._on_list = on_list
        self._pods: dict[tuple[str, str], PodDevices] = {}
        self._allocatable: dict[ResourceName, frozenset[DeviceId]] = {}
        self._failures: list[Exception] = []
        self._cut: str | None = None
        self.asked: list[str] = []

    async def pod(self, namespace: str, name: str) -> PodDevices | None:
        """Return what one pod holds, ``None`` if there is no such pod."""
        self._ask(f"Get {namespace}/{name}")
        return self._pods.get((namespace, name))

    async def pods(self) -> tuple[PodDevices, ...]:
        """Return what every pod holds."""
        self._ask("List")
        if self._on_list is not None:
            self._on_list()
        return tuple(self._pods.values())

    async def allocatable(self, resource: ResourceName) -> frozenset[DeviceId]:
        """Return the healthy devices of a resource."""
        self._ask("GetAllocatableResources")
        return self._allocatable.get(resource, frozenset())

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self._cut is not None:
            raise KubeletUnavailable(self._cut)
        if self._failures:
            raise self._failures.pop(0)

    # -- levers ------------------------------------------------------------------------------------------------

    def put(
        self, namespace: str, name: str, containers: Mapping[str, Mapping[ResourceName, Iterable[DeviceId]]]
    ) -> None:
        """Add a pod, or replace it."""
        held = {
            container: {resource: frozenset(ids) for resource, ids in resources.items()}
            for container, resources in containers.items()
        }
        self._pods[namespace, name] = PodDevices(namespace=namespace, name=name, containers=held)

    def forget(self, namespace: str, name: str) -> None:
        """Remove a pod; one that is not there is ignored."""
        self._pods.pop((namespace, name), None)

    def offer(self, resource: ResourceName, devices: Iterable[DeviceId]) -> None:
        """Set the healthy devices of a resource."""
        self._allocatable[resource] = frozenset(devices)

    def fail_next(self, error: Exception | None = None) -> None:
        """Let the next call fail once; called twice, the next two."""
        self._failures.append(error or KubeletUnavailable("rejected by rate limit"))

    def cut(self, reason: str = "the kubelet does not answer") -> None:
        """Let every call fail until :meth:`restore`."""
        self._cut = reason

    def restore(self) -> None:
        """Answer again."""
        self._cut = None


@dataclass(slots=True)
class MemoryCheckpoint:
    """The port :class:`~domain.ports.checkpoint.Checkpoint`, with the kubelet's memory and its file apart.

    The kubelet drops dead pods from its memory on a pod-resources List, and what it dropped stays in the file until
    it is next written, which a device list makes it do.  So :meth:`forget` and :meth:`write` are two levers, to be
    pulled by ``MemoryPodResources(on_list=…)`` and ``MemoryDeviceLists(on_publish=…)`` where that matters.
    """

    clock: Clock
    reads: int = 0
    _memory: list[CheckpointEntry] = field(default_factory=list)
    _file: tuple[CheckpointEntry, ...] = ()
    _unknown: str | None = None

    def read(self) -> CheckpointView | Unknown:
        """Read the file as it is now."""
        began = self.clock.monotonic()
        self.reads += 1
        if self._unknown is not None:
            return Unknown(self._unknown)
        return CheckpointView(began=began, entries=self._file)

    # -- levers ------------------------------------------------------------------------------------------------

    @property
    def entries(self) -> tuple[CheckpointEntry, ...]:
        """What the kubelet remembers."""
        return tuple(self._memory)

    def put(self, *entries: CheckpointEntry) -> None:
        """Store answers and write the file, as the kubelet does after Allocate."""
        keys = {(entry.uid, entry.container, entry.resource) for entry in entries}
        kept = [entry for entry in self._memory if (entry.uid, entry.container, entry.resource) not in keys]
        self._memory = [*kept, *entries]
        self.write()

    def forget(self, *uids: PodUid) -> None:
        """Drop pods from the kubelet's memory; the file still names them."""
        self._memory = [entry for entry in self._memory if entry.uid not in uids]

    def write(self) -> None:
        """Write the file from memory; this mends a file that was lost."""
        self._file = tuple(self._memory)
        self._unknown = None

    def lose(self, reason: str = "the kubelet's checkpoint is missing") -> None:
        """Let the file be unknown until it is written again."""
        self._unknown = reason


class MemoryDeviceLists:
    """The port :class:`~domain.ports.kubelet.DeviceLists`; ``published`` has one entry a call, ``None`` = all."""

    def __init__(self, on_publish: Callable[[], None] | None = None) -> None:
        self._on_publish = on_publish
        self.published: list[frozenset[ResourceName] | None] = []

    def publish(self, resources: Iterable[ResourceName] | None = None) -> None:
        """Record that lists were to be sent."""
        self.published.append(None if resources is None else frozenset(resources))
        if self._on_publish is not None:
            self._on_publish()
