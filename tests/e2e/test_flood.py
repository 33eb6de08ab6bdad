"""Garbage, crowds and slow clients at every socket at once: whoever means well is served all the same."""

from collections.abc import AsyncIterator

import pytest
from grpc import aio

from adapters.control.client import ControlClient
from adapters.control.server import MOST_CONNECTIONS
from adapters.http.server import MOST as MOST_OF_HTTP
from adapters.kubelet.server import MOST_CONNECTIONS as MOST_OF_A_PLUGIN
from tests.e2e.daemon import Stand, a_stand, asking, dev, plugin, soon
from tests.e2e.flooded import DESCRIPTORS, descriptors, flooding, health, kubelet, limited, resident, used

SECONDS = 5.0
RESERVE = 256
"""Descriptors that are left for the work: journal, directories, the runtime, the kubelet."""

GROWTH = 20.0
"""MiB."""


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        yield made


@pytest.mark.timeout(180)
async def test_allocate_and_probes_are_answered_and_nothing_is_left_afterwards(stand: Stand) -> None:
    daemon = await limited(stand)
    async with kubelet(stand) as client:
        await used(client, daemon, 1)
        before = resident(daemon)
        async with flooding(stand):
            seen = await used(client, daemon, SECONDS)
            alive = await health(stand)
        quiet = await used(client, daemon, 0.1)
    status = await ControlClient(str(stand.root / "control.sock")).status()
    async with plugin(stand.node.plugin_dir / next(iter(stand.sockets))) as another:
        await another.Allocate(asking([dev(1)]), wait_for_ready=True, timeout=30)

    assert len(seen.allocates) > 10
    assert max(seen.descriptors) < DESCRIPTORS - RESERVE
    assert max(seen.resident) - before < GROWTH
    assert alive == 200
    assert quiet.descriptors[0] < DESCRIPTORS
    assert status["role"] == "active"
    # Each connection that is gone has to be noticed first.
    await soon(lambda: descriptors(daemon) < 64)
    assert [line for line in daemon.warnings if "Too many open files" in str(line)] == []


def test_the_connections_of_all_sockets_together_leave_enough_for_the_work() -> None:
    assert 2 * MOST_CONNECTIONS + MOST_OF_A_PLUGIN + MOST_OF_HTTP < DESCRIPTORS - RESERVE


async def test_a_message_that_is_too_large_is_refused_and_costs_nothing(stand: Stand) -> None:
    daemon = await limited(stand)
    async with kubelet(stand) as client:
        before = resident(daemon)
        for _ in range(5):
            with pytest.raises(aio.AioRpcError) as refusal:
                await client.Allocate(asking(["x" * 6_000_000]))
            assert refusal.value.code().name == "RESOURCE_EXHAUSTED"
        await client.Allocate(asking([dev(0)]))

    assert resident(daemon) - before < GROWTH
    assert daemon.warnings == []
