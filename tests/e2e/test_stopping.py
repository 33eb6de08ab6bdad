"""SIGTERM: what is in flight is answered or undone, and nothing stays behind."""

import asyncio
import fcntl
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import grpc
import pytest
from grpc import aio

from tests.e2e.daemon import RESOURCE, Daemon, Stand, a_stand, asking, dev, granted_name, plugin, soon
from tests.integration.nodes import app, pod


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        yield made


@contextmanager
def busy(state: Path) -> Iterator[sqlite3.Connection]:
    """Keep the journal locked, so that an Allocate waits for it, as for a slow disk."""
    with closing(sqlite3.connect(state, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def is_free(lock: Path) -> bool:
    """Tell whether another process could become active."""
    descriptor = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def assert_nothing_is_held(stand: Stand, daemon: Daemon) -> None:
    """Sockets unlinked, lock free, journal closed with all that it holds in one file, no traceback."""
    assert stand.sockets == set()
    assert is_free(stand.state_dir / "lock")
    assert {each.name for each in stand.state_dir.iterdir()} == {"state.db", "lock"}
    assert daemon.events[-1] == "stopped"
    assert all(line.startswith("{") for line in daemon.stderr)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_with_open_streams_it_ends_cleanly_and_leaves_the_pods_alone(
    stand: Stand, number: signal.Signals
) -> None:
    daemon = await stand.registered()
    await stand.node.start(pod("one", app("a", 1, RESOURCE)))
    before = stand.directories
    assert stand.node.streams(RESOURCE) == 1
    daemon.process.send_signal(number)

    assert await daemon.ended() == 0
    await stand.node.until(lambda: stand.node.streams(RESOURCE) == 0)
    assert_nothing_is_held(stand, daemon)
    assert stand.recorded == stand.directories == before


async def test_an_allocate_in_flight_that_can_be_done_in_time_is_answered(stand: Stand) -> None:
    daemon = await stand.registered()
    async with plugin(stand.node.plugin_dir / await daemon.registered()) as client:
        with busy(stand.state_dir / "state.db") as other:
            call = asyncio.ensure_future(client.Allocate(asking([dev(1)])))
            await asyncio.sleep(0.2)  # until it waits for the journal, which nothing outside can see
            daemon.process.send_signal(signal.SIGTERM)
            await stand.node.until(lambda: stand.node.streams(RESOURCE) == 0)
            other.execute("ROLLBACK")
        name = granted_name(await call)

    assert await daemon.ended() == 0
    assert_nothing_is_held(stand, daemon)
    assert stand.recorded == stand.directories == {name}


async def test_an_allocate_in_flight_that_cannot_is_refused_and_undone(stand: Stand) -> None:
    daemon = await stand.registered()
    async with plugin(stand.node.plugin_dir / await daemon.registered()) as client:
        with busy(stand.state_dir / "state.db"):
            call = asyncio.ensure_future(client.Allocate(asking([dev(1)])))
            await asyncio.sleep(0.2)  # as above
            daemon.process.send_signal(signal.SIGTERM)
            with pytest.raises(aio.AioRpcError) as refusal:
                await call
            assert await daemon.ended() == 0

    assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE, refusal.value
    assert stand.recorded == stand.directories == set()
    assert_nothing_is_held(stand, daemon)


async def test_a_call_after_it_finds_nobody(stand: Stand) -> None:
    daemon = await stand.registered()
    path = stand.node.plugin_dir / await daemon.registered()
    async with plugin(path) as client:
        await client.Allocate(asking([dev(1)]))
        await daemon.stop()
        with pytest.raises(aio.AioRpcError) as refusal:
            await client.Allocate(asking([dev(1)]))

    assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
    assert not path.exists()


async def test_a_process_that_ends_by_a_signal_twice_ends_once(stand: Stand) -> None:
    daemon = await stand.registered()
    for _ in range(3):
        daemon.process.send_signal(signal.SIGTERM)

    assert await daemon.ended() == 0
    assert_nothing_is_held(stand, daemon)


async def test_told_to_stop_while_it_starts_it_stops(stand: Stand) -> None:
    daemon = await stand.run()
    await daemon.says("starting")

    assert await daemon.stop() == 0
    await soon(lambda: stand.sockets == set())
    assert is_free(stand.state_dir / "lock")


async def test_drained_if_it_is_configured_so_and_with_a_call_in_flight(stand: Stand) -> None:
    """Every device was unhealthy in the last list, and what could be answered in time was."""
    stand.configuration["drain_on_exit"] = True
    daemon = await stand.registered()
    await stand.node.start(pod("one", app("a", 1, RESOURCE)))
    before = stand.directories
    async with plugin(stand.node.plugin_dir / await daemon.registered()) as client:
        with busy(stand.state_dir / "state.db") as other:
            call = asyncio.ensure_future(client.Allocate(asking([dev(1)])))
            await asyncio.sleep(0.2)  # as above
            daemon.process.send_signal(signal.SIGTERM)
            await stand.node.until(lambda: stand.node.streams(RESOURCE) == 0)
            other.execute("ROLLBACK")
        name = granted_name(await call)

    assert await daemon.ended() == 0
    assert {each.health for each in stand.node.kubelet.devices.known[RESOURCE].values()} == {"Unhealthy"}
    assert_nothing_is_held(stand, daemon)
    assert stand.recorded == stand.directories == before | {name}
