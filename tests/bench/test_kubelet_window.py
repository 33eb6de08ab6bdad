"""How soon after its socket answers a kubelet has our device list.

A real kubelet admits its pods about 80 ms later, and what it finds without a list is lost for good.  A prober of our
own connects to ``kubelet.sock`` until it is accepted; the clock runs from there to the list's arrival.
"""

import asyncio
import socket
import time
from pathlib import Path

import pytest

from adapters.memory.node import EmbeddedNode
from adapters.memory.runtime import MemoryRuntime
from adapters.system.clock import SystemClock
from tests.bench.measure import cpu_seconds, daemon, percentile, resident_mebibytes, show

RESOURCE = "contivpp.io/memif"
ROUNDS = 200


@pytest.mark.timeout(300)
@pytest.mark.parametrize("inotify", [True, False], ids=["inotify", "polling"])
async def test_list_after_the_kubelet_socket_answers(place: Path, inotify: bool) -> None:  # noqa: FBT001
    clock = SystemClock()
    node = EmbeddedNode(place, MemoryRuntime(clock), clock=clock)
    with daemon(place, inotify=inotify) as process:
        await node.start_kubelet()
        await node.wait_registered(RESOURCE, within=30)
        times = []
        for _ in range(ROUNDS):
            await node.stop_kubelet()
            await asyncio.sleep(0.05)
            times.append(await _seconds_to_list(node))
        show(
            f"list after kubelet.sock answers, {'inotify' if inotify else 'polling'} [ms]",
            p50=percentile(times, 50) * 1e3,
            p99=percentile(times, 99) * 1e3,
            rss_MiB=resident_mebibytes(process.pid),
        )
        await node.stop_kubelet()
    assert len(times) == ROUNDS


@pytest.mark.timeout(120)
@pytest.mark.parametrize("inotify", [True, False], ids=["inotify", "polling"])
async def test_idle_without_a_kubelet(place: Path, inotify: bool) -> None:  # noqa: FBT001
    (place / "device-plugins").mkdir()
    with daemon(place, inotify=inotify) as process:
        await asyncio.sleep(3)
        before, seconds = cpu_seconds(process.pid), 30
        await asyncio.sleep(seconds)
        used = cpu_seconds(process.pid) - before
        show(
            f"waiting without a kubelet, {'inotify' if inotify else 'polling'}",
            percent_of_a_core=100 * used / seconds,
            rss_MiB=resident_mebibytes(process.pid),
        )
        assert process.poll() is None


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
