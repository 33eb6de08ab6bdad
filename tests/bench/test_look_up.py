"""What a look-up of a pod costs, beside an empty call: one ``Get`` of the kubelet's, and the kubelet's checkpoint.

The checkpoint is read again only when it is another file; a cold look-up follows a change of it, as the first one after
any pod does.  The kubelet runs in this process, and its part counts.
"""

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2
from adapters._pb.memif.v1 import memif_pb2
from tests.bench.book import Book, Sample
from tests.bench.measure import percentile
from tests.bench.programs import bare
from tests.e2e.daemon import RESOURCE, a_stand, plugin
from tests.integration.control import client
from tests.integration.nodes import app, pod
from tests.integration.places import memory_place

PODS: Final = 50
ROUNDS, CALLS, WARM_UP = 7, 30, 20

PART: Final = f"Look-up of one of {PODS} pods"

Call = Callable[[], Awaitable[object]]


@pytest.mark.timeout(120)
async def test_look_up(book: Book, warm: Mapping[str, str]) -> None:
    async with a_stand() as stand:
        stand.pool["capacity"] = 2 * PODS
        daemon = await stand.run(environment=warm)
        await daemon.registered()
        for number in range(PODS):
            await stand.node.start(pod(f"cnf-{number}", app("a", 1, RESOURCE)))
        request = memif_pb2.GetPodRequest(namespace="telco", name="cnf-7")
        with memory_place() as memory:
            async with (
                bare("aio", memory, memory, warm),
                plugin(memory / "bare-aio.sock") as least,
                client(stand.root / "control.sock") as ours,
            ):

                async def empty() -> None:
                    await least.GetDevicePluginOptions(api_pb2.Empty())

                async def cached() -> None:
                    assert (await ours.GetPod(request)).containers

                async def cold() -> None:
                    os.utime(stand.node.checkpoint_path)
                    await cached()

                calls: tuple[Call, ...] = (empty, cached, cold)
                for call in calls:
                    await _p50(call, WARM_UP)
                rounds = [[await _p50(call, CALLS) for call in calls] for _ in range(ROUNDS)]
        await daemon.stop()
    samples = [Sample.of(column).times(1e3) for column in zip(*rounds, strict=True)]
    book.ratio(PART, "checkpoint as it was, p50", samples[1], samples[0], unit="ms")
    book.ratio(PART, "checkpoint changed, p50", samples[2], samples[0], unit="ms")


async def _p50(call: Call, calls: int) -> float:
    times = []
    for _ in range(calls):
        begun = time.perf_counter()
        await call()
        times.append(time.perf_counter() - begun)
    return percentile(times, 50)
