"""Storage that does not answer, as a dead network disk: real calls to the system that hang for as long as they like."""

import asyncio
import ctypes
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from grpc import aio

from domain.ledger import Standing
from tests.e2e.daemon import Stand, a_stand, asking, dev, needs_root, plugin, soon

FUSE = Path("/dev/fuse")
MNT_DETACH = 2

pytestmark = [
    needs_root,
    pytest.mark.skipif(
        not FUSE.exists() and os.environ.get("CI") != "true", reason="needs file systems in user space, /dev/fuse"
    ),
]


@contextmanager
def hanging(target: Path) -> Iterator[None]:
    """Put a file system on a directory of which nobody answers a single question."""
    libc = ctypes.CDLL(None, use_errno=True)
    server = os.open(FUSE, os.O_RDWR)
    try:
        options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
        if libc.mount(b"fuse", os.fsencode(target), b"fuse", 0, options):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(target))
        yield
    finally:
        os.close(server)  # whoever waits is told that nobody answers any more
        libc.umount2(os.fsencode(target), MNT_DETACH)


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        yield made


@pytest.mark.parametrize("which", ["host_dir", "state_dir"])
async def test_calls_are_refused_in_time_and_a_stop_does_not_wait_for_ever(stand: Stand, which: str) -> None:
    """Nothing of the daemon's waits for a disk in its event loop, and its end waits for a disk for a while only."""
    daemon = await stand.registered()
    async with plugin(stand.node.plugin_dir / await daemon.registered()) as client:
        with hanging(getattr(stand, which)):
            with pytest.raises(aio.AioRpcError) as refusal:
                await client.Allocate(asking([dev(1)]))
            daemon.process.send_signal(signal.SIGTERM)

            assert await daemon.ended() == 0

    assert refusal.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert daemon.events[-2:] == ["storage hangs; it is left as it is", "stopped"]
    assert all(line.startswith("{") for line in daemon.stderr)
    assert stand.sockets == set()
    assert stand.directories == set()
    # The refused one may be in the journal, if the disk hung just then: nobody names it, so it goes by the rule.
    again = await stand.registered()
    await soon(lambda: stand.directories == set())
    assert await again.stop() == 0
    assert [each for each, standing in stand.journal().allocations if standing is Standing.LIVE] == []


async def test_with_a_call_in_flight_it_stops_as_well(stand: Stand) -> None:
    daemon = await stand.registered()
    async with plugin(stand.node.plugin_dir / await daemon.registered()) as client:
        with hanging(stand.host_dir):
            call = asyncio.ensure_future(client.Allocate(asking([dev(1)])))
            await asyncio.sleep(0.2)  # until it waits for the disk, which nothing outside can see
            daemon.process.send_signal(signal.SIGTERM)
            with pytest.raises(aio.AioRpcError) as refusal:
                await call

            assert await daemon.ended() == 0

    assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
    assert stand.directories == set()
