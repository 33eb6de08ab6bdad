"""How soon after its socket answers a kubelet has our device list.

A real kubelet admits its pods about 80 ms later, and what it finds without a list is lost for good.  A prober of our
own connects to ``kubelet.sock`` until it is accepted; the clock runs from there to the list's arrival.
"""

import asyncio
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from adapters.memory.node import EmbeddedNode
from adapters.memory.runtime import MemoryRuntime
from adapters.system.clock import SystemClock
from tests.bench.book import Book, Sample
from tests.bench.measure import cpu_seconds, daemon, percentile

RESOURCE: Final = "contivpp.io/memif"
ROUNDS: Final = 200

AT_MOST_MS: Final = {"inotify": 20.0, "polling": 50.0}
"""For 99 of 100 kubelets."""

PART: Final = "From the moment that kubelet.sock answers until the kubelet has the devices"
WAITING: Final = "Waiting for a kubelet"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["inotify", "polling"])
async def test_list_after_the_kubelet_socket_answers(
    place: Path, book: Book, warm: Mapping[str, str], how: str
) -> None:
    clock = SystemClock()
    node = EmbeddedNode(place, MemoryRuntime(clock), clock=clock)
    with daemon(place, warm, inotify=how == "inotify"):
        await node.start_kubelet()
        await node.wait_registered(RESOURCE, within=30)
        times = []
        for _ in range(ROUNDS):
            await node.stop_kubelet()
            await asyncio.sleep(0.05)
            times.append(await _seconds_to_list(node))
        await node.stop_kubelet()
    book.plain(PART, f"{how}, p50", percentile(times, 50) * 1e3, unit="ms")
    row = book.plain(PART, f"{how}, p99", percentile(times, 99) * 1e3, unit="ms", limit=AT_MOST_MS[how])

    assert row.reached


@pytest.mark.timeout(120)
async def test_idle_without_a_kubelet(place: Path, book: Book, warm: Mapping[str, str]) -> None:
    with ExitStack() as stack:
        processes = {}
        for how in AT_MOST_MS:
            (place / how / "device-plugins").mkdir(parents=True)
            processes[how] = stack.enter_context(daemon(place / how, warm, inotify=how == "inotify"))
        await asyncio.sleep(3)
        before, seconds = {how: cpu_seconds(each.pid) for how, each in processes.items()}, 20
        await asyncio.sleep(seconds)
        for how, each in processes.items():
            used = cpu_seconds(each.pid) - before[how]
            book.plain(WAITING, f"processor, {how}", Sample.of([100 * used / seconds]), unit="% of a core")
            assert each.poll() is None


async def _seconds_to_list(node: EmbeddedNode) -> float:
    """Start the kubelet while a prober connects, and return the seconds from its success to the list."""
    probe = asyncio.create_task(asyncio.to_thread(_answered, str(node.kubelet_socket)))
    await node.start_kubelet()
    answered = await probe
    await node.wait_registered(RESOURCE)
    return time.perf_counter() - answered


def _answered(path: str) -> float:
    while True:
        with socket.socket(socket.AF_UNIX) as prober:
            if prober.connect_ex(path) == 0:
                return time.perf_counter()
        time.sleep(0.0002)
