"""What it costs to read a node's containers, and to do nothing on such a node.

Each reading is put beside the same calls made bare with their answers decoded: on a connection of its own, as ours.  A
first reading has all to learn, a later one remembers what cannot have changed.  The containers are real ones on private
runtimes; most were never started, which the lists show like all others.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from adapters.containerd.api import load
from adapters.containerd.runtime import ContainerdRuntime
from adapters.cri.runtime import CriRuntime
from adapters.docker.runtime import DockerRuntime
from adapters.system.clock import SystemClock
from domain.ports.runtime import ContainerRuntime
from tests.bench import bare_readings, crowd
from tests.bench.book import Book, Sample
from tests.bench.measure import cpu_seconds, resident_mebibytes
from tests.e2e.daemon import Daemon, a_stand
from tests.integration.web import LOCALHOST, free_port
from tests.rig.containerd import PrivateContainerd
from tests.rig.dockerd import PrivateDockerd
from tests.rig.pods import pods_of

SIZES: Final = (10, 100, 500)
FULL: Final = SIZES[-1]
ROUNDS, FIRST_ROUNDS, WARM_UP = 15, 7, 2

AT_MOST: Final = 1.5
"""Times the same calls bare, on a full node."""

IDLE_SIZE: Final = 100
SETTLE, IDLE = 5.0, 60.0
"""Seconds."""

AT_MOST_PERCENT: Final = 0.5
AT_MOST_MIB: Final = {"containerd": 72.0, "cri": 72.0, "docker": 80.0}

READING, IDLING = "Reading a node", "Doing nothing for a minute beside 100 containers"

Call = Callable[[], Awaitable[object]]


@pytest.mark.timeout(400)
async def test_containerd(containerd_rig: PrivateContainerd, book: Book, warm: Mapping[str, str]) -> None:
    socket, base = containerd_rig.socket, containerd_rig.home / "memif"
    common: dict[str, Any] = {"endpoint": socket, "prefixes": (crowd.PREFIX,), "clock": SystemClock()}
    api = await asyncio.to_thread(load)
    reached = []
    async with pods_of(socket, containerd_rig.home) as pods:
        people = crowd.on_containerd(pods, base)
        for size in SIZES:
            await people.grow(size)
            if size == IDLE_SIZE:
                reached += await _idle(book, warm, base, "containerd", "cri", socket=socket)
            reached.append(
                await _readings(
                    book,
                    f"containerd, {size}",
                    lambda: ContainerdRuntime(**common),
                    first=lambda: bare_readings.containerd(socket, api),
                    later=lambda: bare_readings.containerd(socket, api),
                    limit=AT_MOST if size == FULL else None,
                )
            )
            reached.append(
                await _readings(
                    book,
                    f"CRI, {size}",
                    lambda: CriRuntime(**common),
                    first=lambda: bare_readings.cri(socket, people.containers),
                    later=lambda: bare_readings.cri(socket),
                    limit=AT_MOST if size == FULL else None,
                )
            )

    assert all(reached)


@pytest.mark.timeout(400)
async def test_docker(docker_rig: PrivateDockerd, book: Book, warm: Mapping[str, str]) -> None:
    socket, base = docker_rig.socket, docker_rig.home / "memif"
    people = crowd.on_docker(docker_rig, base)
    reached = []
    try:
        for size in SIZES:
            await people.grow(size)
            if size == IDLE_SIZE:
                reached += await _idle(book, warm, base, "docker", socket=socket)
            reached.append(
                await _readings(
                    book,
                    f"Docker, {size}",
                    lambda: DockerRuntime(endpoint=socket, prefixes=(crowd.PREFIX,), clock=SystemClock()),
                    first=lambda: asyncio.to_thread(bare_readings.docker, socket),
                    later=lambda: asyncio.to_thread(bare_readings.docker, socket),
                    limit=AT_MOST if size == FULL else None,
                )
            )
    finally:
        docker_rig.clear()

    assert all(reached)


async def _readings(
    book: Book, what: str, make: Callable[[], ContainerRuntime], *, first: Call, later: Call, limit: float | None
) -> bool:
    """Measure first and later readings, in turn with the bare calls; tell whether the limit holds."""
    runtime = make()
    later_ours, later_bare = await _in_turn(runtime.snapshot, later, rounds=ROUNDS)
    await runtime.aclose()
    first_ours, first_bare = await _in_turn(lambda: make().snapshot(), first, rounds=FIRST_ROUNDS)
    row = book.ratio(READING, f"{what} containers", later_ours, later_bare, unit="ms", limit=limit)
    book.ratio(READING, f"{what} containers, first reading", first_ours, first_bare, unit="ms")
    return row.reached


async def _in_turn(ours: Call, bare: Call, *, rounds: int) -> tuple[Sample, Sample]:
    """Return the milliseconds of both, after a warm-up."""
    times: list[tuple[float, float]] = []
    for _ in range(WARM_UP + rounds):
        least = await _seconds(bare)
        times.append((await _seconds(ours), least))
    kept = times[WARM_UP:]
    return Sample.of([each[0] for each in kept]).times(1e3), Sample.of([each[1] for each in kept]).times(1e3)


async def _seconds(call: Call) -> float:
    begun = time.perf_counter()
    await call()
    return time.perf_counter() - begun


async def _idle(book: Book, warm: Mapping[str, str], base: Path, *kinds: str, socket: str) -> list[bool]:
    """Let daemons do nothing beside a crowd, the first of them on its directories; tell which limits hold."""
    async with AsyncExitStack() as stack:
        daemons = {
            kind: await stack.enter_async_context(_serving(warm, kind, socket, base if kind == kinds[0] else None))
            for kind in kinds
        }
        await asyncio.sleep(SETTLE)
        before = {kind: cpu_seconds(each.process.pid) for kind, each in daemons.items()}
        await asyncio.sleep(IDLE)
        rows = []
        for kind, each in daemons.items():
            used = 100 * (cpu_seconds(each.process.pid) - before[kind]) / IDLE
            memory = resident_mebibytes(each.process.pid)
            rows.append(book.plain(IDLING, f"processor, {kind}", used, unit="% of a core", limit=AT_MOST_PERCENT))
            rows.append(book.plain(IDLING, f"resident memory, {kind}", memory, unit="MiB", limit=AT_MOST_MIB[kind]))
        return [row.reached for row in rows]


@asynccontextmanager
async def _serving(warm: Mapping[str, str], kind: str, socket: str, base: Path | None) -> AsyncIterator[Daemon]:
    """Run a daemon as it is by default, with 100 devices."""
    async with a_stand() as stand:
        stand.pool["capacity"] = 100
        if base is not None:
            stand.pool["host_dir"] = str(base)
        stand.configuration.update(
            runtime={"kind": kind, "endpoint": f"unix://{socket}"},
            http={"listen": f"{LOCALHOST}:{free_port()}"},
            reconcile={},
        )
        daemon = await stand.run(environment=warm)
        await daemon.registered()
        yield daemon
        await daemon.stop()
