"""Hints that something may have changed: from the runtime's events, or from a look now and then."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

import grpc
import pytest

from adapters._pb.cri.runtime.v1 import api_pb2 as cri
from adapters.cri.runtime import CriRuntime
from adapters.memory.clock import ManualClock
from domain.ports.runtime import RuntimeUnavailable
from tests.unit.cri_server import PREFIX, CriServer, a_cri_server

PATIENCE = 30.0

without_events = pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(
            lambda server: server.faults.update(GetContainerEvents=grpc.StatusCode.UNIMPLEMENTED), id="cri-dockerd"
        ),
        pytest.param(lambda server: server.raw.update(GetContainerEvents=b""), id="crio-without-events"),
        pytest.param(lambda server: server.load("cri.containerd.json"), id="containerd-1"),
    ],
)


@pytest.fixture
async def server() -> AsyncIterator[CriServer]:
    async with a_cri_server() as server:
        yield server


@pytest.fixture
async def runtime(server: CriServer) -> AsyncIterator[CriRuntime]:
    runtime = CriRuntime(endpoint=server.path, prefixes=(PREFIX,), clock=ManualClock(), deadline=0.5, poll=0.01)
    yield runtime
    await runtime.aclose()


@pytest.fixture
async def feed(runtime: CriRuntime) -> AsyncIterator[AsyncGenerator[None]]:
    async with aclosing(runtime.changes()) as feed:
        yield feed


async def hint(feed: AsyncIterator[None]) -> None:
    """Wait for the next hint."""
    async with asyncio.timeout(PATIENCE):
        await anext(feed)


class TestARuntimeWithEvents:
    async def test_the_first_hint_comes_when_the_runtime_listens_to_us(
        self, server: CriServer, feed: AsyncGenerator[None]
    ) -> None:
        await hint(feed)

        assert server.asked["GetContainerEvents"] == 1

    async def test_every_event_is_a_hint_and_nothing_is_listed_for_it(
        self, server: CriServer, feed: AsyncGenerator[None]
    ) -> None:
        await hint(feed)
        await server.until(lambda: server.listening == 1)
        for _ in range(3):
            server.happen()
            await hint(feed)

        assert server.asked["ListContainers"] == 0

    async def test_a_stream_that_ends_is_a_broken_feed(self, server: CriServer, feed: AsyncGenerator[None]) -> None:
        await hint(feed)
        await server.until(lambda: server.listening == 1)
        server.happen()
        server.end_streams()
        await hint(feed)

        with pytest.raises(RuntimeUnavailable, match="ended its stream"):
            await hint(feed)

    async def test_a_runtime_that_ends_breaks_its_feeds(self, server: CriServer, feed: AsyncGenerator[None]) -> None:
        await hint(feed)
        await server.until(lambda: server.listening == 1)
        await server.stop()

        with pytest.raises(RuntimeUnavailable, match=server.path):
            await hint(feed)

    @pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code.name not in {"OK", "UNIMPLEMENTED"}])
    async def test_a_stream_that_fails_is_a_broken_feed(
        self, server: CriServer, feed: AsyncGenerator[None], code: grpc.StatusCode
    ) -> None:
        server.faults["GetContainerEvents"] = code

        with pytest.raises(RuntimeUnavailable, match=server.path):
            await self._exhausted(feed)

    async def _exhausted(self, feed: AsyncGenerator[None]) -> None:
        async with asyncio.timeout(PATIENCE):
            async for _ in feed:
                pass

    async def test_who_listens_no_more_is_let_go(self, server: CriServer, runtime: CriRuntime) -> None:
        async with aclosing(runtime.changes()) as feed:
            await hint(feed)
            await server.until(lambda: server.listening == 1)

        async with asyncio.timeout(PATIENCE):
            await server.until(lambda: server.listening == 0)

    async def test_who_is_cancelled_while_listening_is_cancelled_and_let_go(
        self, server: CriServer, feed: AsyncGenerator[None]
    ) -> None:
        await hint(feed)
        await server.until(lambda: server.listening == 1)
        task = asyncio.ensure_future(anext(feed))
        await asyncio.sleep(0)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(PATIENCE):
            await server.until(lambda: server.listening == 0)


class TestARuntimeWithout:
    @without_events
    async def test_a_look_that_shows_nothing_new_is_no_hint(
        self, server: CriServer, feed: AsyncGenerator[None], spoil: Callable[[CriServer], None]
    ) -> None:
        spoil(server)
        await self._looking(server, feed)
        waiting = asyncio.ensure_future(anext(feed))
        looks = server.asked["ListContainers"]
        await server.until(lambda: server.asked["ListContainers"] >= looks + 3)

        assert not waiting.done()
        server.container("p")
        async with asyncio.timeout(PATIENCE):
            await waiting

    @without_events
    async def test_what_comes_changes_and_goes_is_hinted_at(
        self, server: CriServer, feed: AsyncGenerator[None], spoil: Callable[[CriServer], None]
    ) -> None:
        spoil(server)
        await self._looking(server, feed)
        made = server.container("p", state=cri.CONTAINER_CREATED)
        await hint(feed)
        made.state = cri.CONTAINER_RUNNING
        await hint(feed)
        server.remove(made)

        await hint(feed)

    @without_events
    async def test_a_runtime_that_ends_breaks_its_feeds(
        self, server: CriServer, feed: AsyncGenerator[None], spoil: Callable[[CriServer], None]
    ) -> None:
        spoil(server)
        await self._looking(server, feed)
        await server.stop()

        with pytest.raises(RuntimeUnavailable, match=server.path):
            await hint(feed)

    async def test_a_look_that_is_not_answered_breaks_the_feed(
        self, server: CriServer, feed: AsyncGenerator[None]
    ) -> None:
        server.load("cri.containerd.json")
        await self._looking(server, feed)
        server.hanging.add("ListContainers")

        with pytest.raises(RuntimeUnavailable, match=r"within 0\.5 s"):
            await hint(feed)

    @pytest.mark.parametrize("version", ["1.6.20~ds1", "1.7.24", "v1.7.0"])
    async def test_containerd_before_2_is_not_listened_to(
        self, server: CriServer, feed: AsyncGenerator[None], version: str
    ) -> None:
        """It gives each event to one listener only, so that we would take events from the kubelet."""
        server.version = cri.VersionResponse(runtime_name="containerd", runtime_version=version)

        await hint(feed)

        assert server.asked["GetContainerEvents"] == 0

    async def test_containerd_2_is_listened_to(self, server: CriServer, feed: AsyncGenerator[None]) -> None:
        server.load("cri.containerd2.json")

        await hint(feed)

        assert server.asked["GetContainerEvents"] == 1

    async def _looking(self, server: CriServer, feed: AsyncGenerator[None]) -> None:
        """Take hints until the feed has looked, from when on only changes are hints."""
        while not server.asked["ListContainers"]:
            await hint(feed)


class TestClosing:
    @pytest.mark.parametrize("capture", ["cri.containerd.json", "cri.containerd2.json"])
    async def test_a_closed_runtime_breaks_its_feeds(
        self, server: CriServer, runtime: CriRuntime, feed: AsyncGenerator[None], capture: str
    ) -> None:
        server.load(capture)
        await hint(feed)
        waiting = asyncio.ensure_future(anext(feed))
        await asyncio.sleep(0)

        await runtime.aclose()

        with pytest.raises(RuntimeUnavailable):
            async with asyncio.timeout(PATIENCE):
                await waiting

    async def test_a_feed_of_no_runtime_is_an_error(self, server: CriServer, feed: AsyncGenerator[None]) -> None:
        await server.stop()

        with pytest.raises(RuntimeUnavailable, match=server.path):
            await hint(feed)

    async def test_a_feed_of_one_that_hangs_is_an_error(self, server: CriServer, feed: AsyncGenerator[None]) -> None:
        server.hanging.add("Version")

        with pytest.raises(RuntimeUnavailable, match=r"within 0\.5 s"):
            await hint(feed)
