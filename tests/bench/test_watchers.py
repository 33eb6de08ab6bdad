"""What an Allocate costs while dataplane agents watch.

The watchers run in a process of their own, as agents do; each draws every event.
"""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2_grpc
from adapters.memory.node import EmbeddedNode
from adapters.memory.runtime import MemoryRuntime
from adapters.system.clock import SystemClock
from tests.bench.book import Book, Sample
from tests.bench.measure import daemon, percentile
from tests.e2e.daemon import asking, plugin

RESOURCE = "contivpp.io/memif"
WATCHERS = 100
CALLS = 200
AT_MOST = 1.2
"""Times the median without watchers."""

_WATCH = """
import asyncio, sys
from grpc import aio
from adapters._pb.memif.v1 import memif_pb2, memif_pb2_grpc

async def one(path, synced):
    async with aio.insecure_channel(f"unix:{path}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        async for message in memif_pb2_grpc.MemifStub(channel).Watch(memif_pb2.WatchRequest()):
            if message.type == memif_pb2.EVENT_TYPE_SYNCED:
                synced.release()

async def everyone(path, many):
    synced = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(one(path, synced)) for _ in range(many)]
    for _ in range(many):
        await synced.acquire()
    print("ready", flush=True)
    await asyncio.wait(tasks)

asyncio.run(everyone(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.timeout(300)
async def test_allocate_is_hardly_slower_with_watchers(place: Path, book: Book, warm: Mapping[str, str]) -> None:
    clock = SystemClock()
    node = EmbeddedNode(place, MemoryRuntime(clock), clock=clock)
    with daemon(place, warm):
        await node.start_kubelet()
        await node.wait_registered(RESOURCE, within=30)
        (socket,) = [each for each in node.plugin_dir.glob("*.sock") if each.name != node.kubelet_socket.name]
        async with plugin(socket) as client:
            await _allocate(client, 50)
            alone = await _allocate(client, CALLS)
            with _watched(place / "control.sock"):
                watched = await _allocate(client, CALLS)
            after = await _allocate(client, CALLS)
        await node.stop_kubelet()
    part, what = f"Allocate, beside {WATCHERS} watchers of its events", "beside none"
    rows = [
        book.ratio(
            part,
            f"p{share} {what}",
            Sample.of([percentile(watched, share)]).times(1e3),
            Sample.of([percentile(alone + after, share)]).times(1e3),
            unit="ms",
            limit=limit,
        )
        for share, limit in ((50, AT_MOST), (99, None))
    ]

    assert all(row.reached for row in rows)


async def _allocate(client: api_pb2_grpc.DevicePluginStub, calls: int) -> list[float]:
    """Allocate one call after the other, and return the seconds of each."""
    times = []
    for number in range(calls):
        begun = time.perf_counter()
        await client.Allocate(asking([f"{RESOURCE}/{number % 100}"]))
        times.append(time.perf_counter() - begun)
    return times


@contextmanager
def _watched(socket: Path) -> Iterator[None]:
    command = (sys.executable, "-c", _WATCH, str(socket), str(WATCHERS))
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            process.kill()
