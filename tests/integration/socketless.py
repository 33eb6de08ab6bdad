"""The embedded node and the daemon without sockets between them, so that a whole life takes milliseconds.

The kubelet double calls the daemon's service directly, and the other way round; everything else is real: the use
cases as they are composed, the journal, the directories, the kubelet's file.  Nothing happens by itself: no time
passes, and whoever wants a reconcile runs one.  What sockets, sessions and threads add is tested elsewhere.
"""

import shutil
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

from adapters.journal.journal import SqliteJournal
from adapters.kubelet import translate
from adapters.kubelet.checkpoint import KubeletCheckpoint
from adapters.kubelet.feed import DeviceFeed
from adapters.kubelet.service import OPTIONS, DevicePluginService
from adapters.memory.clock import ManualClock
from adapters.memory.entropy import SeededEntropy
from adapters.memory.node.kubelet import Kubelet
from app.container import Container, Process, build
from app.settings import (
    ControlSettings,
    HttpSettings,
    KubeletSettings,
    PoolSettings,
    ReconcileSettings,
    RuntimeKind,
    RuntimeSettings,
    Settings,
)
from app.use_cases.plugin import pool_plugins
from app.use_cases.reconcile import Reconciled
from domain.allocation import Allocation
from domain.evidence import CheckpointView
from domain.identity import AllocationId, is_allocation_id
from domain.ledger import Standing
from domain.ports.inbound import DevicePlugin
from domain.resource import ResourceName
from tests.integration.crash import CountedWorker, Power, frozen, thaw
from tests.integration.crossings import cross, uncross
from tests.integration.socketless_node import AT_ONCE, HidingRuntime, Line, NodePodResources, SocketlessNode
from tests.unit.house import Heard

RESOURCE: Final = ResourceName("contivpp.io/memif")
CAPACITY: Final = 12
INTERVAL, GRACE = 30.0, 20.0
"""Seconds; different, so that one cannot stand for the other."""


@cache
def _composed() -> Container:
    return build(Settings(), Process(instance="history", version="0"))


def _container() -> Container:
    """Return a container in which nothing is made yet; there is one, because to compose it takes the longest."""
    container = _composed()
    container.reset_singletons()
    return container


class House:
    """One run of the daemon, which lives until it is killed or stopped."""

    def __init__(self, stand: "Stand", settings: Settings) -> None:
        self._stand = stand
        self.alive = False
        self.heard = Heard()
        self.container = _container()
        uncross(self.container)
        for provider, part in (
            (self.container.settings, settings),
            (self.container.clock, stand.clock),
            (self.container.entropy, stand.entropy),
            (self.container.reports, self.heard),
            (self.container.worker, CountedWorker(stand.power, lambda: self.alive)),
            (self.container.runtime, stand.runtime),
            (self.container.pod_resources, NodePodResources(stand.node)),
            (self.container.lists, self),
        ):
            provider.reset_override()
            provider.override(part)
        cross(self.container, stand.power, lambda: self.alive)
        self._with: Kubelet | None = None
        self.plugins: tuple[DevicePlugin, ...] = ()

    async def recover(self) -> None:
        """Do what comes before registering."""
        self.alive = True
        await self.container.recover()()
        container = self.container
        self.plugins = pool_plugins(
            state=container.state(), allocate=container.allocate(), pre_start=container.pre_start()
        )

    def register(self) -> None:
        """Let the kubelet that runs take the daemon in, and its list."""
        kubelet = self._with = self._stand.node.kubelet
        for plugin in self.plugins:
            feed = DeviceFeed(changed=lambda: None)
            service = DevicePluginService(plugin=plugin, feed=feed, reports=self.heard)
            kubelet.devices.connect(plugin.resource, Line(service, self._stand.power.changed), OPTIONS)
        self.publish()

    def publish(self, resources: Iterable[ResourceName] | None = None) -> None:
        """Send lists; keeps the port :class:`domain.ports.kubelet.DeviceLists`."""
        kubelet = self._with
        if kubelet is None or kubelet.dead or not self.alive:
            return
        for plugin in self.plugins:
            if resources is None or plugin.resource in resources:
                kubelet.devices.update(plugin.resource, translate.device_list(plugin.devices()).devices)
                kubelet.write_checkpoint()

    @property
    def registered(self) -> bool:
        """Whether the kubelet that runs has this run's list."""
        return self._with is not None and self._stand.node.running and self._with is self._stand.node.kubelet

    async def reconcile(self) -> Reconciled:
        """Run the resync rules once."""
        return await self.container.reconciler().once()

    def leave(self) -> None:
        """Be gone: close what a process has open, and let the kubelet see the end of its stream."""
        self.alive = False
        storage = self.container.storage()
        storage.sockets.close()
        storage.journal.close()
        if self._with is not None and not self._with.dead:
            for plugin in self.plugins:
                self._with.devices.disconnect(plugin.resource, now=self._stand.clock.monotonic())

    @property
    def live(self) -> dict[AllocationId, Allocation]:
        """The living allocations by id."""
        return {each.id: each for each in self.container.state().ledger.live()}


class Stand:
    """A node, its disk, and the run of the daemon on it, if there is one.

    Args:
        root: a directory that is the stand's alone.
        power: what decides about the steps of storage.
        seed: of everything that is left to chance.
        pool: keys of the pool that differ from the default.
    """

    def __init__(self, root: Path, power: Power, *, seed: int = 7, **pool: Any) -> None:
        power.reset()
        power.ending = self._freeze
        self.root, self.power = root, power
        self.clock = ManualClock()
        self.runtime = HidingRuntime(self.clock)
        self.entropy = SeededEntropy(seed)
        self.node = SocketlessNode(root, self.runtime, clock=self.clock, seed=seed, timing=AT_ONCE, rate_limited=False)
        self.host_dir, self.state_dir = root / "memif", root / "state"
        self.house: House | None = None
        self.houses = 0
        self.settings = settings(root, **pool)
        self._reader = KubeletCheckpoint(directory=str(self.node.plugin_dir), clock=self.clock)
        self._frozen: dict[str, bytes] = {}
        self._stored: dict[AllocationId, str] = {}

    # -- the daemon --------------------------------------------------------------------------------------------

    async def run(self) -> House:
        """Begin a run, register if there is a kubelet, and reconcile, as the daemon does when it is registered.

        Raises:
            Killed: it was ended meanwhile; see :meth:`bury`.
        """
        assert self.house is None
        self.house = house = House(self, self.settings)
        self.houses += 1
        await house.recover()
        if self.node.running and not self.node.kubelet.dead:
            house.register()
            await house.reconcile()
        return house

    def kill(self) -> None:
        """End the run now; without one nothing happens."""
        if self.house is not None:
            self.power.end()
            self.bury()

    def bury(self) -> None:
        """Take away what is left of a run that was ended: descriptors, and what closing the journal did to it."""
        house, self.house = self.house, None
        if house is not None:
            house.leave()
            thaw(self.state_dir, self._frozen)
        self.power.revive()

    def stop(self) -> None:
        """Let the run end as it should."""
        house, self.house = self.house, None
        if house is not None:
            house.leave()

    async def restart(self) -> House:
        """Kill the run, if there is one, and begin another."""
        self.kill()
        return await self.run()

    def _freeze(self) -> None:
        self._frozen = frozen(self.state_dir)

    # -- the node ----------------------------------------------------------------------------------------------

    async def start_kubelet(self) -> None:
        """Start a kubelet; a daemon that runs registers before the pods come."""
        await self.node.start_kubelet()
        if self.house is not None:
            self.house.register()
        await self.node.deliver()
        if self.house is not None:
            await self.house.reconcile()

    async def reboot(self, meanwhile: Callable[[], None] = lambda: None, *, late: bool = False) -> None:
        """Restart the machine; the daemon comes before the kubelet admits its pods, or late.

        Args:
            meanwhile: what happens to the disks while nothing runs.
            late: the pods come before the daemon.
        """
        self.kill()

        async def off() -> None:
            meanwhile()

        await self.node.reboot(off)
        if late:
            await self.node.deliver()
            await self.run()
            return
        await self.run()
        await self.node.deliver()

    def empty(self) -> None:
        """Let the base directory lose what is in it, as a file system in memory does."""
        if self.host_dir.exists():
            shutil.rmtree(self.host_dir)

    # -- looking -----------------------------------------------------------------------------------------------

    def stored(self) -> dict[AllocationId, str]:
        """Return the allocations that the kubelet's file names, or named when it could be read, with their pods."""
        view = self._reader.read()
        if isinstance(view, CheckpointView):
            self._stored = {name: each.uid for each in view.entries for name in each.named()}
        return self._stored

    def mounted(self) -> frozenset[AllocationId]:
        """Return the allocations whose directories something in the runtime mounts."""
        paths = (path for each in self.runtime.objects for path in each.mounts.values())
        parts = (path.rpartition("/") for path in paths)
        return frozenset(AllocationId(name) for base, _, name in parts if base == str(self.host_dir))

    def used(self) -> frozenset[AllocationId]:
        """Return the allocations that something may still mount or mounts."""
        return self.mounted().union(self.stored())

    def directories(self) -> dict[str, int]:
        """Return the inodes of what lies in the base directory, by name."""
        return {each.name: each.stat().st_ino for each in self.host_dir.iterdir()} if self.host_dir.exists() else {}

    def journal(self) -> dict[AllocationId, tuple[Allocation, Standing]]:
        """Return what the journal would give another process, without touching it."""
        copy = self.root / "copy"
        copy.mkdir(mode=0o700, exist_ok=True)
        thaw(copy, frozen(self.state_dir))
        journal = SqliteJournal(copy / "state.db", self.clock)
        try:
            return {allocation.id: (allocation, standing) for allocation, standing in journal.open().allocations}
        finally:
            journal.close()
            shutil.rmtree(copy)

    async def close(self) -> None:
        """Leave nothing open."""
        self.stop()
        await self.node.stop_kubelet()


def settings(root: Path, **pool: Any) -> Settings:
    """Return the configuration of one pool; ``pool`` are the keys that differ from the default."""
    keys: dict[str, Any] = {"resource": RESOURCE, "capacity": CAPACITY, "host_dir": str(root / "memif"), **pool}
    return Settings(
        pools=(PoolSettings(**keys),),
        runtime=RuntimeSettings(kind=RuntimeKind.MEMORY),
        kubelet=KubeletSettings(
            plugin_dir=str(root / "device-plugins"), pod_resources=str(root / "pod-resources" / "kubelet.sock")
        ),
        state=str(root / "state" / "state.db"),
        control=ControlSettings(socket=str(root / "control.sock")),
        http=HttpSettings(listen=None),
        reconcile=ReconcileSettings.model_validate({"interval": f"{INTERVAL:g}s", "grace": f"{GRACE:g}s"}),
    )


def allocation_in(path: str) -> AllocationId:
    """Return the allocation whose directory a path is."""
    name = path.rpartition("/")[2]
    assert is_allocation_id(name), path
    return AllocationId(name)
