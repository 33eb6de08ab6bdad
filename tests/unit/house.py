"""The use cases with every part of the world replaced by its fake, wired as the daemon wires them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from adapters.memory.clock import ManualClock
from adapters.memory.device_info import MemoryDeviceInfo
from adapters.memory.entropy import SeededEntropy
from adapters.memory.journal import MemoryJournal
from adapters.memory.kubelet import MemoryCheckpoint, MemoryDeviceLists, MemoryPodResources
from adapters.memory.measures import MemoryMeasures
from adapters.memory.runtime import MemoryRuntime
from adapters.memory.sockets import MemorySockets
from adapters.memory.worker import InlineWorker
from app.container import Process, build
from app.settings import PoolSettings, ReconcileSettings, RuntimeKind, RuntimeSettings, Settings
from app.use_cases.reconcile import Reconciled
from domain.allocation import Allocation, Directory
from domain.answer import Answer, Mount
from domain.evidence import CheckpointEntry
from domain.identity import AllocationId, DeviceId, PodUid
from domain.ledger import Record, Standing
from domain.lookup import PodMemif
from domain.pool import Pool
from domain.resource import ResourceName

RESOURCE = ResourceName("contivpp.io/memif")
OTHER = ResourceName("example.com/fast")
HOST_DIR = "/var/run/contiv/memif"
INTERVAL, GRACE = 30.0, 20.0
"""Seconds; different, so that one cannot stand for the other."""

FAST = PoolSettings(
    resource=OTHER,
    capacity=4,
    host_dir="/var/run/fast",
    container_dir="/run/fast",
    env_suffix="_FAST",
    annotation_prefix="com.example.fast",
)
"""A second pool that goes with the default one."""


def dev(index: int, resource: str = RESOURCE) -> DeviceId:
    """Return a device's id."""
    return DeviceId(f"{resource}/{index}")


def named(answer: Answer) -> AllocationId:
    """Return the allocation that an answer speaks of."""
    (mount,) = answer.mounts
    return AllocationId(mount.host_path.rpartition("/")[2])


def secret_in(answer: Answer) -> str:
    """Return the secret that a container is given."""
    return answer.envs["MEMIF_SECRET"]


class Heard:
    """A :class:`~domain.ports.reports.Reports` that keeps what it was told, as (event, facts)."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, dict[str, object]]] = []
        self.warnings: list[tuple[str, dict[str, object]]] = []

    def note(self, event: str, **facts: object) -> None:
        """See the port."""
        self.notes.append((event, facts))

    def warn(self, event: str, **facts: object) -> None:
        """See the port."""
        self.warnings.append((event, facts))

    def lost(self, what: str, error: BaseException) -> None:
        """Hear what an abandoned storage job raised."""
        self.warn("an abandoned storage job failed", job=what, reason=str(error))

    @property
    def noted(self) -> list[str]:
        """The ordinary events, in order."""
        return [event for event, _ in self.notes]

    @property
    def warned(self) -> list[str]:
        """The events that need attention, in order."""
        return [event for event, _ in self.warnings]

    def facts(self, event: str) -> dict[str, object]:
        """Return what was said with the only event of that name."""
        (facts,) = [facts for name, facts in (*self.notes, *self.warnings) if name == event]
        return facts


@dataclass(frozen=True, slots=True)
class Traces:
    """Everything by which an allocation can be remembered."""

    ledger: frozenset[AllocationId]
    journal: frozenset[AllocationId]
    directories: frozenset[AllocationId]


@dataclass(slots=True)
class World:
    """What outlives a process of the daemon."""

    clock: ManualClock = field(default_factory=ManualClock)
    entropy: SeededEntropy = field(default_factory=SeededEntropy)
    journal: MemoryJournal = field(default_factory=MemoryJournal)


class House:
    """One process of the daemon on a node of fakes.

    Args:
        pools: as configured; the default pool unless there are some.
        after: the process before this one, on the same node.
        empty: configure no pool at all.

    ``on_list`` and ``on_publish`` are what the kubelet does when it is listed and when it gets a device list.
    """

    world: World
    sockets: MemorySockets
    checkpoint: MemoryCheckpoint
    device_info: MemoryDeviceInfo
    runtime: MemoryRuntime

    def __init__(self, *pools: PoolSettings, after: "House | None" = None, empty: bool = False) -> None:
        world = World() if after is None else after.world
        self.world = world
        self.clock, self.entropy, self.journal = world.clock, world.entropy, world.journal
        self.sockets = MemorySockets(self.clock) if after is None else after.sockets
        self.checkpoint = MemoryCheckpoint(self.clock) if after is None else after.checkpoint
        self.device_info = MemoryDeviceInfo() if after is None else after.device_info
        self.on_list: Callable[[], None] | None = None
        self.on_publish: Callable[[], None] | None = None
        self.kubelet = MemoryPodResources(on_list=self._listed)
        self.lists = MemoryDeviceLists(on_publish=self._published)
        self.worker, self.heard, self.measures = InlineWorker(), Heard(), MemoryMeasures()
        settings = Settings(
            pools=() if empty else pools or (PoolSettings(),),
            runtime=RuntimeSettings(kind=RuntimeKind.MEMORY),
            reconcile=ReconcileSettings.model_validate({"interval": f"{INTERVAL:g}s", "grace": f"{GRACE:g}s"}),
        )
        self.container = build(settings, Process(instance="test", version="0"))
        for provider, fake in (
            (self.container.clock, self.clock),
            (self.container.entropy, self.entropy),
            (self.container.reports, self.heard),
            (self.container.measures, self.measures),
            (self.container.worker, self.worker),
            (self.container.journal, self.journal),
            (self.container.sockets, self.sockets),
            (self.container.checkpoint, self.checkpoint),
            (self.container.device_info, self.device_info),
            (self.container.pod_resources, self.kubelet),
            (self.container.lists, self.lists),
        ):
            provider.override(fake)
        if after is not None:
            self.container.runtime.override(after.runtime)
        runtime = self.container.runtime()
        assert isinstance(runtime, MemoryRuntime)
        self.runtime = runtime
        self.state = self.container.state()

    def _listed(self) -> None:
        if self.on_list is not None:
            self.on_list()

    def _published(self) -> None:
        if self.on_publish is not None:
            self.on_publish()

    # -- the daemon's doors ------------------------------------------------------------------------------------

    async def recover(self) -> "House":
        """Become active, and return the house."""
        await self.container.recover()()
        return self

    async def allocate(self, *requests: Iterable[DeviceId], pool: ResourceName = RESOURCE) -> tuple[Answer, ...]:
        """Let the kubelet ask for devices."""
        return await self.container.allocate()(self.state.pools[pool], [list(each) for each in requests])

    async def pre_start(self, *devices: DeviceId, pool: ResourceName = RESOURCE) -> None:
        """Let the kubelet announce a container."""
        await self.container.pre_start()(self.state.pools[pool], devices)

    async def reconcile(self, *, dry_run: bool = False) -> Reconciled:
        """Run the resync rules once."""
        return await self.container.reconcile()(dry_run=dry_run)

    async def release(self, name: AllocationId) -> bool:
        """Release an allocation as it stands now."""
        return await self.container.release()(self.record(name), reason="a test")

    async def look_up(self, namespace: str = "telco", name: str = "cnf", uid: str | None = None) -> PodMemif:
        """Ask what a pod was given."""
        return await self.container.look_up()(namespace, name, uid)

    # -- the kubelet and the runtime ---------------------------------------------------------------------------

    def store(
        self,
        answer: Answer,
        *devices: DeviceId,
        uid: str = "uid-1",
        container: str = "app",
        resource: ResourceName = RESOURCE,
    ) -> None:
        """Let the kubelet write an answer into its checkpoint."""
        self.checkpoint.put(
            CheckpointEntry(
                uid=PodUid(uid), container=container, resource=resource, devices=tuple(devices), answer=answer
            )
        )

    async def granted(self, *devices: DeviceId, uid: str = "uid-1", container: str = "app") -> AllocationId:
        """Let the kubelet ask for devices and store the answer; return the allocation."""
        (answer,) = await self.allocate(devices)
        self.store(answer, *devices, uid=uid, container=container)
        return named(answer)

    def runs(self, name: AllocationId, *, uid: str = "uid-1", pod: str = "cnf", container: str = "app") -> str:
        """Let a pod of one container run that mounts an allocation; return its sandbox."""
        sandbox = self.runtime.add_sandbox(uid=uid, namespace="telco", name=pod)
        self.runtime.add_container(
            sandbox=sandbox, container=container, mounts={"/run/vpp": self.allocation(name).directory.path}
        )
        return sandbox

    def another_pod_runs(self) -> None:
        """Let a pod without memif run, so that the runtime's view is not empty."""
        self.runtime.add_sandbox(uid="other", namespace="telco", name="other")

    def forgotten(self, *uids: str) -> None:
        """Let the kubelet forget pods, in memory and file."""
        self.checkpoint.forget(*map(PodUid, uids))
        self.checkpoint.write()

    # -- looking -----------------------------------------------------------------------------------------------

    @property
    def pool(self) -> Pool:
        """The default pool as it is served."""
        return self.state.pools[RESOURCE]

    def record(self, name: AllocationId) -> Record:
        """Return an allocation's record in the ledger."""
        return self.state.ledger.records[name]

    def allocation(self, name: AllocationId) -> Allocation:
        """Return an allocation of the ledger."""
        return self.record(name).allocation

    def exists(self, name: AllocationId) -> bool:
        """Tell whether an allocation's directory is there."""
        return self.sockets.exists(self.allocation(name).directory)

    def standing(self, name: AllocationId) -> tuple[Standing, Standing]:
        """Return how an allocation stands in ledger and journal."""
        return self.record(name).standing, self.journal.contents[name][1]

    def stand(self, name: AllocationId, standing: Standing) -> None:
        """Let an allocation stand differently in ledger and journal."""
        self.state.ledger = self.state.ledger.standing(name, standing)
        self.journal.stand((name,), standing)

    @property
    def traces(self) -> Traces:
        """Everything that is remembered of allocations."""
        return Traces(
            frozenset(record.allocation.id for record in self.state.ledger),
            frozenset(self.journal.contents),
            frozenset(name for pool in self.state.pools.values() for name in self.sockets.look(pool.host_dir).inodes),
        )

    def asked_besides_storage(self) -> list[object]:
        """Return every question to the runtime and the kubelet, and every list that was sent."""
        return [*self.runtime.asked, *self.kubelet.asked, *self.lists.published]


NOTHING = Traces(frozenset(), frozenset(), frozenset())

STRANGE_ID = AllocationId("zzzzzzzzzzzzzzzzzzzz")
"""Well formed and never drawn."""


def a_directory(name: AllocationId, host_dir: str = HOST_DIR) -> Directory:
    """Return the directory that an allocation of the default pool has."""
    return Directory(host_dir=host_dir, id=name, rules=Pool(resource=RESOURCE).directory)


def an_answer(name: AllocationId, *, secret: str | None = "AdoptedSecret0000001", host_dir: str = HOST_DIR) -> Answer:
    """Return an answer that an earlier process, or Contiv, may have given."""
    prefix = "io.contivpp.memif"
    annotations = {
        f"{prefix}.socket.host": f"{host_dir}/{name}/memif.sock",
        f"{prefix}.socket.container": "/run/vpp/memif.sock",
    }
    envs = {"MEMIF_SOCKET": "/run/vpp/memif.sock"}
    if secret is not None:
        annotations[f"{prefix}.secret"] = envs["MEMIF_SECRET"] = secret
    mount = Mount(host_path=f"{host_dir}/{name}", container_path="/run/vpp")
    return Answer(envs=envs, mounts=(mount,), annotations=annotations)
