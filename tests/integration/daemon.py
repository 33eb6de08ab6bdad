"""The daemon in the test's own process, on an embedded node whose containers it sees.

Time stands still: rules wait for nothing but :meth:`Stand.settle`, and reconciles come when a session registers or a
test wants one.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from adapters.memory.clock import ManualClock
from adapters.memory.node import EmbeddedNode, Pod, Source
from adapters.memory.runtime import MemoryRuntime
from app import daemon
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
from app.use_cases.reconcile import Reconciled
from domain.allocation import Allocation
from tests.integration.filesystem import short_place
from tests.integration.nodes import QUICK
from tests.unit.house import Heard

RESOURCE: Final = "contivpp.io/memif"
CAPACITY: Final = 8
INTERVAL, GRACE = 3600.0, 20.0
"""Seconds of the clock that stands still; the interval is one of real time too, and never over."""


class House:
    """One run of the daemon, which ends when it is told to or cannot go on."""

    def __init__(self, settings: Settings, clock: ManualClock, runtime: MemoryRuntime, *, instance: str) -> None:
        self.settings = settings
        self.heard = Heard()
        self.container: Container = build(settings, Process(instance=instance, version="0"))
        self.container.clock.override(clock)
        self.container.reports.override(self.heard)
        self.container.runtime.override(runtime)
        self._stop = asyncio.Event()
        self._serving = asyncio.create_task(daemon.serve(self.container, self._stop))

    async def stop(self) -> None:
        """Tell it to stop and wait until it has; what it raises is raised."""
        self._stop.set()
        await self._serving

    async def ended(self) -> None:
        """Wait until it ends by itself; what it raises is raised."""
        async with asyncio.timeout(10):
            await self._serving

    async def heard_of(self, event: str) -> dict[str, object]:
        """Wait until something was reported, and return its facts."""
        await self.until(lambda: event in (*self.heard.noted, *self.heard.warned))
        return self.heard.facts(event)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something was reported; if the daemon ends first, what it raises is raised."""
        async with asyncio.timeout(10):
            while not condition():
                if self._serving.done():
                    await self._serving
                await asyncio.sleep(0.005)

    async def reconcile(self) -> Reconciled:
        """Run the resync rules once."""
        return await self.container.reconciler().once()

    @property
    def live(self) -> tuple[Allocation, ...]:
        """The living allocations."""
        return self.container.state().ledger.live()


class Stand:
    """A node and what runs on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self.runtime = MemoryRuntime(self.clock)
        self.node = EmbeddedNode(root, self.runtime, clock=self.clock, seed=7, timing=QUICK, rate_limited=False)
        self.host_dir = root / "memif"
        self.state_dir = root / "state"
        self.houses: list[House] = []

    def settings(self, **pool: Any) -> Settings:
        """Return the configuration of one pool; ``pool`` are the keys that differ from the default."""
        keys: dict[str, Any] = {"resource": RESOURCE, "capacity": CAPACITY, "host_dir": str(self.host_dir), **pool}
        return Settings(
            pools=(PoolSettings(**keys),),
            runtime=RuntimeSettings(kind=RuntimeKind.MEMORY),
            kubelet=KubeletSettings(
                plugin_dir=str(self.node.plugin_dir), pod_resources=str(self.node.pod_resources_socket)
            ),
            state=str(self.state_dir / "state.db"),
            control=ControlSettings(socket=str(self.root / "control.sock")),
            http=HttpSettings(listen=None),
            reconcile=ReconcileSettings.model_validate({"interval": f"{INTERVAL:g}s", "grace": f"{GRACE:g}s"}),
        )

    def begin(self, settings: Settings | None = None, *, instance: str = "one") -> House:
        """Begin a run of the daemon without waiting for anything."""
        house = House(settings or self.settings(), self.clock, self.runtime, instance=instance)
        self.houses.append(house)
        return house

    async def serve(self, settings: Settings | None = None, *, instance: str = "one") -> House:
        """Begin a run, and wait until the kubelet has its devices and the reconcile that this triggers is over."""
        house = self.begin(settings, instance=instance)
        await house.heard_of("registered with the kubelet")
        await self.node.wait_registered(RESOURCE)
        await house.reconcile()
        return house

    async def restart_kubelet(self, house: House) -> None:
        """Restart the kubelet, or start it; its pods come when it has the devices, a race that is tested elsewhere."""
        registered = house.heard.noted.count("registered with the kubelet")
        await self.node.stop_kubelet()
        await self.node.start_kubelet(withhold=tuple(Source))
        await house.until(lambda: house.heard.noted.count("registered with the kubelet") > registered)
        await self.node.wait_registered(RESOURCE)
        await self.node.deliver_sources()

    @property
    def directories(self) -> dict[str, int]:
        """The inodes of what lies in the base directory, by name."""
        return {each.name: each.inode() for each in os.scandir(self.host_dir)} if self.host_dir.exists() else {}

    async def forgotten(self, house: House, pod: Pod) -> None:
        """Let time pass and reconcile until the kubelet's file does not name a pod any more."""
        for _ in range(3):
            self.clock.advance(INTERVAL + 1)
            lists = self._lists
            await house.reconcile()
            if pod.uid not in self.node.checkpoint_path.read_text(encoding="utf-8"):
                return
            await self.node.until(lambda before=lists: self._lists > before)  # type: ignore[misc]  # a loop's lambda
        raise AssertionError(f"the kubelet still names {pod.name}")

    async def settle(self, house: House) -> None:
        """Let the grace pass, and the interval in which the kubelet is listed once, and reconcile."""
        self.clock.advance(INTERVAL + GRACE)
        await house.reconcile()

    @property
    def _lists(self) -> int:
        return sum(call.what == "list" for call in self.node.calls)


@asynccontextmanager
async def a_stand(*, kubelet: bool = True) -> AsyncIterator[Stand]:
    """A stand that is taken down with everything on it, whatever happened."""
    async with AsyncExitStack() as stack:
        stand = Stand(stack.enter_context(short_place()))
        stack.push_async_callback(stand.node.stop_kubelet)
        stack.push_async_callback(_end, stand)
        if kubelet:
            await stand.node.start_kubelet()
            await stand.node.wait_ready()
        yield stand
        stand.node.check()


async def _end(stand: Stand) -> None:
    for house in stand.houses:
        with suppress(daemon.EnvironmentUnusable, daemon.ConfigurationUnsuitable):  # the test has had its say
            await house.stop()
