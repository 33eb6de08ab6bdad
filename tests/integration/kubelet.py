"""What the tests of the kubelet adapter stand on: a core, a listener to reports, a kubelet of the tests' own."""
# ruff: noqa: N802 -- names are the protocol's

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import grpc
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from adapters.kubelet.directory import PluginDirectory
from adapters.kubelet.lists import KubeletLists
from adapters.kubelet.plugins import KubeletPlugins
from adapters.kubelet.session import Times
from adapters.kubelet.watch import DirectoryWatch
from adapters.memory.entropy import SeededEntropy
from adapters.memory.kubelet import MemoryPodResources
from adapters.memory.node.front import wipe_sockets
from domain import grant
from domain.answer import Answer
from domain.identity import DeviceId
from domain.ledger import Ledger
from domain.pool import Device, Health, Pool
from domain.ports.kubelet import PodResources, Registration
from domain.resource import ResourceName

PATIENCE: Final = 30.0
"""Seconds after which something that is waited for counts as not happening; nothing is measured by it."""

RESOURCE: Final = ResourceName("contivpp.io/memif")

QUICK: Final = Times(first_check=3600.0, check_interval=3600.0, shortest_pause=0.01, longest_pause=0.05)
"""Short pauses, and no questions of the session to the kubelet."""

NEVER: Final = 3600.0
"""Seconds of a pause that no test lives to see the end of."""

Context: TypeAlias = aio.ServicerContext[Any, Any]

_OWN: Final = (("grpc.use_local_subchannel_pool", 1),)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: it does not.
    """
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 -- conditions on sockets and on other people's objects have no event
            await asyncio.sleep(0.002)


@contextmanager
def a_directory() -> Iterator[Path]:
    """A directory with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as directory:
        yield Path(directory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Things:
    """What a process may leak.

    Attributes:
        threads: without those of gRPC's own pool.
        pool: threads of gRPC's pool, which grows by some with the load of the machine and not with what we do.
        descriptors: open ones.
        tasks: of the running loop.
    """

    threads: int
    pool: int
    descriptors: int
    tasks: int

    def within(self, other: "Things") -> bool:
        """Whether there is not more of anything than in another count."""
        return (
            self.threads <= other.threads
            and self.pool <= other.pool + _GROWTH
            and self.descriptors <= other.descriptors
            and self.tasks <= other.tasks
        )


_GROWTH: Final = 16
"""Threads by which gRPC's pool may grow; far less than one each time that something is repeated a hundred times."""


def things() -> Things:
    """Count this process' threads, descriptors and tasks, those of libraries included."""
    names = [_name(thread) for thread in Path("/proc/self/task").iterdir()]
    return Things(
        threads=len(names) - names.count("event_engine"),
        pool=names.count("event_engine"),
        descriptors=len(list(Path("/proc/self/fd").iterdir())),
        tasks=len(asyncio.all_tasks()),
    )


def _name(thread: Path) -> str:
    try:
        return (thread / "comm").read_text(encoding="utf-8").strip()
    except OSError:  # it ended a moment ago
        return ""


class Told:
    """Reports as they were made: event and facts."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, dict[str, object]]] = []
        self.warnings: list[tuple[str, dict[str, object]]] = []

    def note(self, event: str, **facts: object) -> None:
        self.notes.append((event, facts))

    def warn(self, event: str, **facts: object) -> None:
        self.warnings.append((event, facts))

    def noted(self, event: str) -> list[dict[str, object]]:
        """The facts of each note of an event."""
        return [facts for name, facts in self.notes if name == event]

    def warned(self, event: str) -> list[dict[str, object]]:
        """The facts of each warning of an event."""
        return [facts for name, facts in self.warnings if name == event]

    def reasons(self, event: str = "not registered with the kubelet") -> list[str]:
        """The reasons that were warned of, in order."""
        return [str(facts["reason"]) for facts in self.warned(event)]


class Core:
    """One pool behind the inbound port: it grants by the real rule, and stores nothing.

    Levers: ``error`` (raised by every call), ``hold`` (cleared, calls wait), ``sick`` (unhealthy devices).
    """

    def __init__(self, pool: Pool | None = None, *, seed: int = 0) -> None:
        self.pool = pool or Pool(resource=RESOURCE, capacity=4)
        self._entropy = SeededEntropy(seed)
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.lists = 0
        self.cancelled = 0
        self.error: Exception | None = None
        self.sick: set[str] = set()
        self.entered = asyncio.Event()
        self.hold = asyncio.Event()
        self.hold.set()

    @property
    def resource(self) -> ResourceName:
        return self.pool.resource

    @property
    def list_interval(self) -> float:
        return self.pool.list_interval

    @property
    def ids(self) -> tuple[str, ...]:
        """All devices, in the order of the list."""
        return tuple(self.pool.indexes)

    def devices(self) -> tuple[Device, ...]:
        self.lists += 1
        return tuple(
            Device(
                id=each,
                health=Health.UNHEALTHY if each in self.sick else Health.HEALTHY,
                numa_node=self.pool.numa_node,
            )
            for each in self.pool.indexes
        )

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[Answer, ...]:
        for request in requests:
            await self._called("Allocate", request)
        draws = [grant.Draw(id=self._entropy.allocation_id(), secret=self._entropy.secret(20)) for _ in requests]
        return grant.plan(self.pool, requests, Ledger(), draws, now=datetime.now(UTC)).answers

    async def pre_start(self, devices: Sequence[str]) -> None:
        await self._called("PreStartContainer", devices)

    async def _called(self, call: str, ids: Sequence[str]) -> None:
        self.calls.append((call, tuple(ids)))
        self.entered.set()
        try:
            await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error


class Side:
    """The plugin's side of one process: everything of the adapter, running as a task."""

    def __init__(
        self,
        directory: Path,
        *cores: Core,
        times: Times = QUICK,
        inotify: bool = True,
        take_over: bool = False,
        pod_resources: PodResources | None = None,
    ) -> None:
        self.cores = cores or (Core(),)
        self.path = directory
        self.told = Told()
        self.lists = KubeletLists()
        self.greeted = 0
        self.directory = PluginDirectory(path=str(directory), kubelet_socket="kubelet.sock", endpoint="contiv-vpp.sock")
        self.watch = DirectoryWatch(directory=self.directory, reports=self.told, inotify=inotify)
        self.plugins = KubeletPlugins(
            plugins=lambda: self.cores,
            directory=self.directory,
            watch=self.watch,
            pod_resources=pod_resources or MemoryPodResources(),
            lists=self.lists,
            reports=self.told,
            registered=self._greeted,
            take_over=take_over,
            times=times,
        )
        self._task: asyncio.Task[None] | None = None

    def _greeted(self) -> None:
        self.greeted += 1

    @property
    def core(self) -> Core:
        """The first pool."""
        return self.cores[0]

    def status(self, resource: ResourceName | None = None) -> Registration:
        """How a pool stands, the first one if none is named."""
        return self.plugins.registrations().get(resource or self.core.resource, Registration(reason="no session"))

    @property
    def endpoint(self) -> str:
        """The base name of the first pool's socket."""
        endpoint = self.status().endpoint
        assert endpoint is not None
        return endpoint

    def sockets(self) -> list[str]:
        """Names of sockets of our pattern that lie in the directory."""
        return sorted(each.name for each in self.path.glob("contiv-vpp.*-*.sock"))

    def start(self) -> None:
        self._task = asyncio.create_task(self.plugins.run(), name="plugins")

    async def stop(self) -> None:
        """Stop, and raise what it failed with before."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; if everything failed before, raise that."""
        task = self._task
        assert task is not None
        await until(lambda: condition() or task.done())
        if task.done():
            task.result()

    async def watched(self, registrations: int = 1) -> None:
        """Wait until every pool is watched, and the kubelet accepted it so many times at least."""
        await self.until(
            lambda: all(
                (status := self.status(core.resource)).watched and status.registrations >= registrations
                for core in self.cores
            )
        )

    async def hinted(self, times: int = 20) -> None:
        """Let the sessions be woken so many times by changes in the directory, so that they see whatever there is."""
        woken = asyncio.Event()
        unsubscribe = self.watch.subscribe(woken.set)
        for number in range(times):
            woken.clear()
            file = self.path / f".{number}"
            file.touch()
            await self.until(woken.is_set)
            file.unlink()
            await asyncio.sleep(0)
        unsubscribe()


@asynccontextmanager
async def a_side(
    directory: Path,
    *cores: Core,
    times: Times = QUICK,
    inotify: bool = True,
    take_over: bool = False,
    pod_resources: PodResources | None = None,
) -> AsyncIterator[Side]:
    """A side that runs as long as the context."""
    side = Side(directory, *cores, times=times, inotify=inotify, take_over=take_over, pod_resources=pod_resources)
    side.start()
    try:
        yield side
    finally:
        await side.stop()


class Watcher:
    """The kubelet's end of one plugin's connection."""

    def __init__(self, path: str) -> None:
        self._channel = aio.insecure_channel(f"unix:{path}", options=_OWN)
        self.stub = api_pb2_grpc.DevicePluginStub(self._channel)
        self.lists: list[list[tuple[str, str]]] = []
        """Each list received: id and health of each device."""
        self._call: Any = None
        self._reading: asyncio.Task[None] | None = None

    async def options(self) -> api_pb2.DevicePluginOptions:
        return await self.stub.GetDevicePluginOptions(api_pb2.Empty(), timeout=PATIENCE, wait_for_ready=True)

    def watch(self) -> None:
        """Open the stream and receive whatever comes."""
        self._call = self.stub.ListAndWatch(api_pb2.Empty())
        self._reading = asyncio.create_task(self._read(), name="watcher")

    async def _read(self) -> None:
        with suppress(aio.AioRpcError, asyncio.CancelledError):
            async for message in self._call:
                self.lists.append([(device.ID, device.health) for device in message.devices])

    @property
    def watching(self) -> bool:
        """Whether the stream is open."""
        return self._reading is not None and not self._reading.done()

    @property
    def ending(self) -> Any:
        """The ended call, for its code and text."""
        return self._call

    async def leave(self) -> None:
        """End the stream from the kubelet's end."""
        if self._reading is not None:
            self._call.cancel()
            await asyncio.wait((self._reading,))

    async def close(self) -> None:
        await self.leave()
        await self._channel.close()


class ScriptedKubelet(api_pb2_grpc.RegistrationServicer):
    """A kubelet that does what it is told to.

    Levers: ``refusals`` (code and text, one a call, then ``refuse``, for every call), ``hold`` (cleared, Register
    waits), ``dials`` and ``watches`` (whether it dials back inside Register, and opens the stream after it).
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._server: aio.Server | None = None
        self.requests: list[api_pb2.RegisterRequest] = []
        self.given_up = 0
        """How often a caller gave up waiting for the answer to Register."""
        self.refusals: list[tuple[grpc.StatusCode, str]] = []
        self.refuse: tuple[grpc.StatusCode, str] | None = None
        self.dials = True
        self.watches = True
        self.hold = asyncio.Event()
        self.hold.set()
        self.watchers: list[Watcher] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        await self.hang_up()

    async def start(self, *, wipe: bool = True) -> None:
        """Wipe the sockets that there are, unless that is over already, and listen."""
        self._directory.mkdir(parents=True, exist_ok=True)
        if wipe:
            wipe_sockets(self._directory)
        server = aio.server()
        api_pb2_grpc.add_RegistrationServicer_to_server(self, server)
        server.add_insecure_port(f"unix:{self._directory}/kubelet.sock")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Listen no more, and remove ``kubelet.sock``; watchers go on."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(None)

    async def hang_up(self) -> None:
        """Close every connection."""
        for watcher in self.watchers:
            await watcher.close()

    async def Register(self, request: api_pb2.RegisterRequest, context: Context) -> api_pb2.Empty:
        self.requests.append(request)
        try:
            await self.hold.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        refusal = self.refusals.pop(0) if self.refusals else self.refuse
        if refusal is not None:
            await context.abort(*refusal)
        if self.dials:
            watcher = Watcher(f"{self._directory}/{request.endpoint}")
            self.watchers.append(watcher)
            await watcher.options()
            if self.watches:
                watcher.watch()
        return api_pb2.Empty()

    def offered(self, resource: ResourceName) -> frozenset[DeviceId]:
        """The devices in the newest list of a resource, whoever sent it."""
        for request, watcher in zip(reversed(self.requests), reversed(self.watchers), strict=False):
            if request.resource_name == resource and watcher.lists:
                return frozenset(DeviceId(name) for name, _ in watcher.lists[-1])
        return frozenset()
