"""The kubelet's device manager: what it knows of devices, who holds them, and its mistakes.  Pure state.

Nothing here waits, reads a clock or touches a file, so every oddity of the real one can be tried in a few lines.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol

from adapters._pb.kubelet.deviceplugin.v1beta1.api_pb2 import ContainerAllocateResponse, Device, DevicePluginOptions
from adapters.memory.node.errors import KubeletCrashed, Refused
from adapters.memory.node.pods import ContainerKind

STOP_GRACE: Final = 300.0
"""Seconds for which the kubelet keeps the capacity of a plugin that went away."""

WITHOUT_TOPOLOGY: Final = -1
"""The NUMA node under which devices without topology are stored."""

HEALTHY: Final = "Healthy"


class Plugin(Protocol):
    """A plugin as the kubelet calls it; each call raises :class:`~adapters.memory.node.errors.PluginFailed`."""

    async def allocate(self, ids: Sequence[str]) -> Sequence[ContainerAllocateResponse]:
        """Call Allocate for one container."""
        ...

    async def preferred(self, available: Sequence[str], must: Sequence[str], size: int) -> frozenset[str]:
        """Call GetPreferredAllocation for one container."""
        ...

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Call PreStartContainer."""
        ...


@dataclass(slots=True)
class Endpoint:
    """Whom the kubelet calls for a resource.

    Attributes:
        plugin: ``None`` if it is known from the checkpoint only.
        options: what GetDevicePluginOptions answered, ``None`` if it was not asked.
        stopped: monotonic time at which its stream ended, ``None`` while it lives.
    """

    plugin: Plugin | None = None
    options: DevicePluginOptions | None = None
    stopped: float | None = None

    def callable(self, resource: str) -> Plugin:
        """Return the plugin, unless it has stopped."""
        if self.plugin is None or self.stopped is not None:
            raise Refused(f"endpoint {resource} has been stopped")
        return self.plugin


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is stored for one container and resource: devices by NUMA node, and the plugin's answer."""

    uid: str
    container: str
    resource: str
    devices: dict[int, list[str]]
    answer: ContainerAllocateResponse = field(repr=False)

    @property
    def ids(self) -> frozenset[str]:
        """The devices, each once."""
        return frozenset(name for names in self.devices.values() for name in names)


@dataclass(frozen=True, slots=True)
class Resources:
    """What the node offers of one resource."""

    capacity: int
    allocatable: int


class DeviceManager:
    """Devices by health, endpoints, stored allocations, and the set of ids that are thought to be in use.

    That set is kept beside the stored allocations and is made anew from them whenever something is dropped; between
    the choice of ids and the storing of the answer it is the only trace of a reservation, which such a rebuild
    loses.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.endpoints: dict[str, Endpoint] = {}
        self.healthy: dict[str, set[str]] = {}
        self.unhealthy: dict[str, set[str]] = {}
        self.known: dict[str, dict[str, Device]] = {}
        self.in_use: dict[str, set[str]] = {}
        self.entries: dict[tuple[str, str, str], Entry] = {}
        self._reusable: dict[str, dict[str, set[str]]] = {}

    # -- plugins and their lists -------------------------------------------------------------------------------

    def restore(self, entries: Iterable[Entry], registered: Iterable[str], *, now: float) -> None:
        """Take over a checkpoint: every answer, and every resource with no healthy device and a stopped endpoint."""
        self.entries = {(e.uid, e.container, e.resource): e for e in entries}
        self.recount()
        for resource in registered:
            self.healthy[resource] = set()
            self.unhealthy[resource] = set()
            self.endpoints[resource] = Endpoint(stopped=now)

    def connect(self, resource: str, plugin: Plugin, options: DevicePluginOptions) -> None:
        """Call this plugin from now on."""
        self.endpoints[resource] = Endpoint(plugin=plugin, options=options)

    def disconnect(self, resource: str, *, now: float) -> None:
        """Turn every device of a resource unhealthy, because a stream of that name ended."""
        endpoint = self.endpoints.get(resource)
        if endpoint is None:
            return
        healthy = self.healthy.get(resource, set())
        self.unhealthy.setdefault(resource, set()).update(healthy)
        if resource in self.healthy:
            self.healthy[resource] = set()
        endpoint.stopped = now

    def update(self, resource: str, devices: Iterable[Device]) -> None:
        """Replace the list of a resource, whichever stream the new one came through."""
        self.known[resource] = {device.ID: device for device in devices}
        self.healthy[resource] = {d.ID for d in self.known[resource].values() if d.health == HEALTHY}
        self.unhealthy[resource] = set(self.known[resource]) - self.healthy[resource]

    def resources(self, *, now: float) -> dict[str, Resources]:
        """Return what the node offers; a resource whose plugin is gone for longer than the grace is forgotten."""
        for resource in [*self.healthy, *self.unhealthy]:
            endpoint = self.endpoints.get(resource)
            expired = endpoint is None or (endpoint.stopped is not None and now - endpoint.stopped > STOP_GRACE)
            if expired:
                self.endpoints.pop(resource, None)
                self.healthy.pop(resource, None)
                self.unhealthy.pop(resource, None)
        return {
            resource: Resources(len(names) + len(self.unhealthy.get(resource, ())), len(names))
            for resource, names in self.healthy.items()
        }

    def knows(self, resource: str) -> bool:
        """Tell whether a resource is a plugin's: listed, or held by somebody.  Limits on any other are skipped."""
        return resource in self.healthy or resource in self.in_use

    # -- choosing ----------------------------------------------------------------------------------------------

    def needs(self, uid: str, container: str, resource: str, wanted: int) -> int:
        """Return how many devices are still to be chosen.

        The order of the checks matters: health comes before the count, so that what a container has already can
        still be refused.
        """
        held = self.held(uid, container, resource)
        needed = wanted - len(held or ())
        if held is not None and needed:
            raise Refused(
                f'pod "{uid}" container "{container}" changed request for resource "{resource}" '
                f"from {len(held)} to {wanted}"
            )
        healthy = self.healthy.get(resource)
        if healthy is None:
            raise Refused(f"cannot allocate unregistered device {resource}")
        if not healthy:
            raise Refused(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if not healthy >= (held or frozenset()):
            raise Refused(
                f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
            )
        return needed

    def reuse(self, uid: str, resource: str, needed: int) -> list[str]:
        """Take devices that an init container of the pod has, at random; there may be too few."""
        return self.take(resource, self._reusable.get(uid, {}).get(resource, set()), needed)

    def available(self, resource: str, needed: int) -> frozenset[str]:
        """Return the healthy devices that are not thought to be in use.

        Raises:
            Refused: there are too few.
        """
        free = frozenset(self.healthy[resource] - self.in_use.get(resource, set()))
        if len(free) < needed:
            raise Refused(
                f"requested number of devices unavailable for {resource}. Requested: {needed}, Available: {len(free)}"
            )
        return free

    def take(self, resource: str, names: Collection[str], needed: int) -> list[str]:
        """Choose at random, and note the choice as in use."""
        chosen = self._chance.sample(sorted(names), min(needed, len(names)))
        self.in_use.setdefault(resource, set()).update(chosen)
        return chosen

    def store(
        self, uid: str, container: str, resource: str, ids: Sequence[str], answer: ContainerAllocateResponse
    ) -> None:
        """Keep a plugin's answer.

        Raises:
            KubeletCrashed: an id was withdrawn from the list while Allocate was in flight; the real kubelet
                dereferences nil there.
        """
        known = self.known.get(resource, {})
        devices: dict[int, list[str]] = {}
        for name in ids:
            if name not in known:
                raise KubeletCrashed(
                    f"device {name} of {resource} was withdrawn while its Allocate was in flight: "
                    "the real kubelet crashes here (nil pointer dereference, exit 2)"
                )
            nodes = [node.ID for node in known[name].topology.nodes] or [WITHOUT_TOPOLOGY]
            for node in nodes:
                devices.setdefault(node, []).append(name)
        self.entries[uid, container, resource] = Entry(
            uid=uid, container=container, resource=resource, devices=devices, answer=answer
        )

    def settle(self, uid: str, container: str, kind: ContainerKind) -> None:
        """After a container's allocation: a plain init container's devices may be had by the following containers.

        A sidecar and an app container keep theirs to themselves.
        """
        pool = self._reusable.setdefault(uid, {})
        for entry in self.of(uid, container):
            if kind is ContainerKind.INIT:
                pool.setdefault(entry.resource, set()).update(entry.ids)
            else:
                pool.setdefault(entry.resource, set()).difference_update(entry.ids)

    def begin(self, uid: str) -> None:
        """Forget what other pods' init containers would have left; only one pod is admitted at a time."""
        self._reusable = {uid: self._reusable.get(uid, {})}

    # -- freeing -----------------------------------------------------------------------------------------------

    def purge(self, active: Collection[str]) -> bool:
        """Drop what pods that are no longer active hold; nothing is written to the file.

        If that drops at least one pod, the set of ids in use is made anew and loses the reservations of calls in
        flight.
        """
        dead = {key for key in self.entries if key[0] not in active}
        if not dead:
            return False
        for key in dead:
            del self.entries[key]
        self.recount()
        return True

    def recount(self) -> None:
        """Make the set of ids in use from the stored allocations."""
        self.in_use = {}
        for entry in self.entries.values():
            self.in_use.setdefault(entry.resource, set()).update(entry.ids)

    # -- reading -----------------------------------------------------------------------------------------------

    def of(self, uid: str, container: str) -> list[Entry]:
        """Return what is stored for a container."""
        return [e for e in self.entries.values() if (e.uid, e.container) == (uid, container)]

    def held(self, uid: str, container: str, resource: str) -> frozenset[str] | None:
        """Return the ids that a container holds of a resource, ``None`` if nothing is stored."""
        entry = self.entries.get((uid, container, resource))
        return None if entry is None else entry.ids

    def shuffled(self, names: Iterable[str]) -> list[str]:
        """Return names in random order, as a walk over one of Go's maps has it."""
        ordered = sorted(names)
        self._chance.shuffle(ordered)
        return ordered
