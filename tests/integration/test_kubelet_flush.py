"""The last device list is with the kubelet before the server goes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from adapters.kubelet.server import serving
from domain.pool import Pool
from tests.integration.kubelet import PATIENCE, RESOURCE, Core, Told, Watcher, a_directory, until

MUCH = Pool(resource=RESOURCE, capacity=50_000)
"""Its list is larger than what gRPC sends to somebody who does not read."""


@pytest.fixture
def path() -> Iterator[Path]:
    with a_directory() as directory:
        yield directory / "p.sock"


async def test_what_was_published_last_is_the_last_that_every_reader_gets(path: Path) -> None:
    core = Core()
    async with serving(path=str(path), plugin=core, reports=Told(), changed=lambda: None, interval=0.0) as server:
        watchers = [Watcher(str(path)) for _ in range(3)]
        for watcher in watchers:
            watcher.watch()
        await until(lambda: server.feed.streams == 3)
        core.sick = set(core.ids)
        server.feed.publish()
        await server.feed.flush()
    for watcher in watchers:
        await until(lambda watcher=watcher: not watcher.watching)  # type: ignore[misc]  # a loop's lambda

        assert {health for _, health in watcher.lists[-1]} == {"Unhealthy"}
        await watcher.close()


async def test_a_reader_that_does_not_read_is_waited_for(path: Path) -> None:
    """Who bounds the wait is the daemon."""
    core = Core(MUCH)
    async with serving(path=str(path), plugin=core, reports=Told(), changed=lambda: None, interval=0.0) as server:
        # Without the probe the client takes no more than it has asked for, however idle the machine was before.
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0)]
        async with aio.insecure_channel(f"unix:{path}", options=options) as channel:
            call = api_pb2_grpc.DevicePluginStub(channel).ListAndWatch(api_pb2.Empty())
            await _read(call)
            server.feed.publish()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await server.feed.flush()
            await _read(call)
            async with asyncio.timeout(PATIENCE):
                await server.feed.flush()
            call.cancel()

        assert core.lists == 2


async def _read(call: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        assert len((await call.read()).devices) == MUCH.capacity
