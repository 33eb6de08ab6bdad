"""What an Allocate costs, beside servers that only make the directory and build the answer.

All servers of a round run side by side and are asked in turn, so that what else the machine does meets them alike.  A
round has new daemons: a node has some dozen allocations, not the thousands that a long measurement would pile up.  The
directories of all are in memory, as ``/var/run`` is.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from adapters._pb.kubelet.deviceplugin.v1beta1.api_pb2_grpc import DevicePluginStub
from adapters.memory.node import EmbeddedNode
from adapters.memory.runtime import MemoryRuntime
from adapters.system.clock import SystemClock
from tests.bench.book import Book, Sample
from tests.bench.measure import daemon, percentile
from tests.bench.programs import bare
from tests.e2e.daemon import PATIENCE, RESOURCE, asking, plugin
from tests.integration.filesystem import short_place
from tests.integration.places import memory_place

ROUNDS, TURNS, CALLS, WARM_UP = 5, 4, 50, 50
CALLERS = 16

AT_MOST = 1.5
"""Times the bare ``grpc.aio`` server, one call at a time."""

ACCEPTED = 2.0
"""The same, as long as the storage thread and the journal take what they take."""

PART = "Allocate, over a Unix socket"
JOURNALS = {"ours, in memory": "in memory", "ours, on disk": "on disk"}
AIO, THREADS = "aio", "threads"


@dataclass(slots=True)
class Times:
    """Seconds of the calls that one server was sent in one round: one by one, and per call of many at once."""

    single: list[float] = field(default_factory=list)
    many: list[float] = field(default_factory=list)


@pytest.mark.timeout(300)
async def test_allocate(book: Book, warm: Mapping[str, str]) -> None:
    rounds = [await _round(warm) for _ in range(ROUNDS)]

    def sample(server: str, part: int) -> Sample:
        return Sample.of([percentile(each[server].single, part) for each in rounds]).times(1e3)

    def throughput(server: str) -> Sample:
        return Sample.of([percentile(each[server].many, 50) for each in rounds]).times(1e3)

    good = [
        book.ratio(
            PART,
            f"one caller, journal {where}, p50",
            sample(ours, 50),
            sample(AIO, 50),
            unit="ms",
            limit=AT_MOST,
            accepted=ACCEPTED,
        ).good
        for ours, where in JOURNALS.items()
    ]
    for ours, where in JOURNALS.items():
        book.ratio(PART, f"one caller, journal {where}, p99", sample(ours, 99), sample(AIO, 99), unit="ms")
    for ours, where in JOURNALS.items():
        book.ratio(
            PART, f"one caller, journal {where}, p50, beside threads", sample(ours, 50), sample(THREADS, 50), unit="ms"
        )
    for other, name in ((AIO, "grpc.aio"), (THREADS, "threads")):
        for ours, where in JOURNALS.items():
            what = f"{CALLERS} callers, journal {where}, time per call, beside {name}"
            book.ratio(PART, what, throughput(ours), throughput(other), unit="ms")

    assert all(good)


async def _round(warm: Mapping[str, str]) -> dict[str, Times]:
    """Ask every server in turn, one call after the other and then many at once."""
    async with _servers(warm) as servers:
        times = {name: Times() for name in servers}
        for client in servers.values():
            await _one_by_one(client, WARM_UP)
        for _ in range(TURNS):
            for name, client in servers.items():
                times[name].single += await _one_by_one(client, CALLS)
        for _ in range(TURNS):
            for name, client in servers.items():
                times[name].many.append(await _at_once(client))
        return times


@asynccontextmanager
async def _servers(warm: Mapping[str, str]) -> AsyncIterator[dict[str, DevicePluginStub]]:
    """Run all servers, and yield a client of each by its name."""
    async with AsyncExitStack() as stack:
        memory = stack.enter_context(memory_place())
        found = {}
        for kind in (AIO, THREADS):
            (memory / kind).mkdir()
            await stack.enter_async_context(bare(kind, memory, memory / kind, warm))
            found[kind] = await stack.enter_async_context(plugin(memory / f"bare-{kind}.sock"))
        for name, where in JOURNALS.items():
            place = stack.enter_context(memory_place() if where == "in memory" else short_place())
            socket = await stack.enter_async_context(_ours(place, warm, host_dir=memory / where.replace(" ", "-")))
            found[name] = await stack.enter_async_context(plugin(socket))
        yield found


@asynccontextmanager
async def _ours(place: Path, warm: Mapping[str, str], *, host_dir: Path) -> AsyncIterator[Path]:
    """Run the daemon with its journal below a place; yield the plugin's socket."""
    clock = SystemClock()
    node = EmbeddedNode(place, MemoryRuntime(clock), clock=clock)
    with daemon(place, warm, host_dir=host_dir):
        await node.start_kubelet()
        await node.wait_registered(RESOURCE, within=PATIENCE)
        (socket,) = {*node.plugin_dir.glob("*.sock")} - {node.kubelet_socket}
        yield socket
        await node.stop_kubelet()


async def _one_by_one(client: DevicePluginStub, calls: int) -> list[float]:
    """Return the seconds of each call."""
    times = []
    for number in range(calls):
        begun = time.perf_counter()
        await client.Allocate(asking([f"{RESOURCE}/{number % 100}"]))
        times.append(time.perf_counter() - begun)
    return times


async def _at_once(client: DevicePluginStub) -> float:
    """Return the seconds per call of as many calls as before by callers that never wait for each other."""

    async def caller(first: int) -> None:
        for number in range(first, CALLERS * 8, CALLERS):
            await client.Allocate(asking([f"{RESOURCE}/{number % 100}"]))

    begun = time.perf_counter()
    await asyncio.gather(*(caller(first) for first in range(CALLERS)))
    return (time.perf_counter() - begun) / (CALLERS * 8)
