"""When containerd's runtime says to look again, and what it learns from events alone."""

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import grpc
import pytest

from adapters.containerd.runtime import ContainerdRuntime
from adapters.memory.clock import ManualClock
from domain.evidence import ObjectState
from domain.ports.runtime import RuntimeUnavailable
from tests.unit.containerd_server import PREFIX, ContainerdServer, a_containerd, container

PATIENCE = 20.0
ID = container("cnf").id


@pytest.fixture
async def server() -> AsyncIterator[ContainerdServer]:
    async with a_containerd() as server:
        yield server


@pytest.fixture
def runtime(server: ContainerdServer) -> ContainerdRuntime:
    return ContainerdRuntime(endpoint=server.path, prefixes=(PREFIX,), clock=ManualClock(), deadline=PATIENCE)


async def hint(feed: AsyncGenerator[None]) -> None:
    async with asyncio.timeout(PATIENCE):
        await anext(feed)


async def exhausted(feed: AsyncGenerator[None]) -> None:
    """Take hints until the feed breaks."""
    async with asyncio.timeout(PATIENCE):
        async for _ in feed:
            pass


@asynccontextmanager
async def listening(runtime: ContainerdRuntime, server: ContainerdServer) -> AsyncIterator[AsyncGenerator[None]]:
    """Listen; the feed is up, on both ends."""
    async with aclosing(runtime.changes()) as feed:
        await hint(feed)
        await server.until(lambda: server.listening > 0)
        yield feed


async def state(runtime: ContainerdRuntime) -> ObjectState:
    (thing,) = (await runtime.snapshot()).objects
    return thing.state


async def until(runtime: ContainerdRuntime, expected: ObjectState) -> None:
    """Look until the one container is in a state."""
    async with asyncio.timeout(PATIENCE):
        while await state(runtime) is not expected:
            pass


class TestHints:
    async def test_only_the_kubelets_containers_and_their_tasks_are_listened_to(
        self, runtime: ContainerdRuntime, server: ContainerdServer
    ) -> None:
        """Images, snapshots and content are busy on a node that pulls, and change nothing for us."""
        async with listening(runtime, server):
            assert server.filters == (
                'namespace=="k8s.io",topic~="^/containers/"',
                'namespace=="k8s.io",topic~="^/tasks/(create|start|exit|delete|paused|resumed)$"',
            )
            assert server.namespaces == {"k8s.io"}

    @pytest.mark.parametrize(
        "topic, kind, fields",
        [
            ("/containers/create", "ContainerCreate", {"id": "c"}),
            ("/containers/update", "ContainerUpdate", {"id": "c"}),
            ("/containers/delete", "ContainerDelete", {"id": "c"}),
            ("/tasks/create", "TaskCreate", {"container_id": "c"}),
            ("/tasks/start", "TaskStart", {"container_id": "c"}),
            ("/tasks/exit", "TaskExit", {"container_id": "c", "id": "c"}),
            ("/tasks/delete", "TaskDelete", {"container_id": "c"}),
            ("/tasks/paused", "TaskPaused", {"container_id": "c"}),
            ("/tasks/resumed", "TaskResumed", {"container_id": "c"}),
            ("/tasks/of-a-later-containerd", "unknown", {}),
        ],
    )
    async def test_each_event_is_one(
        self, runtime: ContainerdRuntime, server: ContainerdServer, topic: str, kind: str, fields: dict[str, object]
    ) -> None:
        async with listening(runtime, server) as feed:
            server.publish(topic, kind, **fields)

            await hint(feed)

    async def test_a_probe_that_ends_in_a_container_is_none(
        self, runtime: ContainerdRuntime, server: ContainerdServer
    ) -> None:
        """A node with a hundred pods has several of them a second."""
        async with listening(runtime, server) as feed:
            server.publish("/containers/create", "ContainerCreate", id="c")
            await hint(feed)
            for number in range(20):
                server.publish("/tasks/exit", "TaskExit", container_id="c", id=f"probe-{number}")

            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await anext(feed)

    async def test_events_that_nobody_waited_for_are_one_hint(
        self, runtime: ContainerdRuntime, server: ContainerdServer
    ) -> None:
        """And they are taken all the same: containerd would have to keep them."""
        server.add(container("cnf"), status=None)
        async with listening(runtime, server) as feed:
            for number in range(1000):
                server.publish("/containers/create", "ContainerCreate", id=f"c{number}")
            server.publish("/containers/create", "ContainerCreate", id=ID)
            await until(runtime, ObjectState.CREATED)
            await hint(feed)

            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await anext(feed)

    async def test_a_stream_that_ends_in_good_order_is_broken_too(
        self, runtime: ContainerdRuntime, server: ContainerdServer
    ) -> None:
        async with listening(runtime, server) as feed:
            server.end_streams()

            with pytest.raises(RuntimeUnavailable, match="ended its stream"):
                await hint(feed)

    async def test_a_stream_that_is_cut_breaks_the_feed_and_a_new_one_works(
        self, runtime: ContainerdRuntime, server: ContainerdServer
    ) -> None:
        async with listening(runtime, server) as feed:
            await server.stop()
            with pytest.raises(RuntimeUnavailable, match="UNAVAILABLE"):
                await hint(feed)
        await server.start()

        async with listening(runtime, server) as feed:
            server.publish("/containers/delete", "ContainerDelete", id="c")
            await hint(feed)

    @pytest.mark.parametrize("method", ["Events/Subscribe", "Version/Version"])
    async def test_a_feed_that_cannot_be_had_is_an_error(
        self, runtime: ContainerdRuntime, server: ContainerdServer, method: str
    ) -> None:
        server.faults[method] = grpc.StatusCode.PERMISSION_DENIED

        with pytest.raises(RuntimeUnavailable, match="run as root"):
            await exhausted(runtime.changes())

    async def test_a_feed_that_does_not_come_up_is_an_error_within_the_deadline(self, server: ContainerdServer) -> None:
        server.hold.add("Version/Version")
        runtime = ContainerdRuntime(endpoint=server.path, prefixes=(), clock=ManualClock(), deadline=0.2)

        with pytest.raises(RuntimeUnavailable, match=r"within 0\.2 s"):
            await hint(runtime.changes())

    async def test_an_event_that_is_no_message_breaks_the_feed(
        self, runtime: ContainerdRuntime, server: ContainerdServer
    ) -> None:
        server.raw["Events/Subscribe"] = b"\xff"

        with pytest.raises(RuntimeUnavailable, match="does not speak"):
            await exhausted(runtime.changes())

    async def test_who_no_longer_listens_leaves_nothing_open(
        self, runtime: ContainerdRuntime, server: ContainerdServer
    ) -> None:
        tasks = asyncio.all_tasks()
        async with listening(runtime, server):
            assert server.listening == 1

        await server.until(lambda: server.listening == 0)
        assert {each for each in asyncio.all_tasks() - tasks if "Feed" in repr(each)} == set()

    async def test_a_feed_that_breaks_when_nobody_listens_any_more_is_nobodys_error(
        self, runtime: ContainerdRuntime, server: ContainerdServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        server.add(container("cnf"), status=None)
        async with listening(runtime, server) as feed:
            server.publish("/containers/create", "ContainerCreate", id=ID)
            await hint(feed)
            server.end_streams()
            await until(runtime, ObjectState.EXITED)  # as it is once the end has been noticed
        del feed
        gc.collect()

        assert not caplog.records

    async def test_closing_breaks_the_feeds(self, runtime: ContainerdRuntime, server: ContainerdServer) -> None:
        async with listening(runtime, server) as feed:
            await runtime.aclose()

            with pytest.raises(RuntimeUnavailable, match="closed"):
                await hint(feed)


class TestWhatHasNotBeenStarted:
    """A container without a task has ended or has yet to start, and containerd's answers do not tell which."""

    async def test_one_that_was_made_before_our_eyes_waits_until_it_is_started(
        self, runtime: ContainerdRuntime, server: ContainerdServer
    ) -> None:
        server.add(container("cnf"), status=None)
        async with listening(runtime, server) as feed:
            seen = []
            for topic, kind, fields in (
                ("/containers/create", "ContainerCreate", {"id": ID}),
                ("/containers/update", "ContainerUpdate", {"id": ID}),
                ("/tasks/create", "TaskCreate", {"container_id": ID}),
                ("/tasks/delete", "TaskDelete", {"container_id": ID}),
            ):
                server.publish(topic, kind, **fields)
                await hint(feed)
                seen.append(await state(runtime))

        assert seen == [ObjectState.CREATED, ObjectState.CREATED, ObjectState.EXITED, ObjectState.EXITED]

    async def test_one_that_was_there_before_us_counts_as_ended(
        self, runtime: ContainerdRuntime, server: ContainerdServer
    ) -> None:
        server.add(container("cnf"), status=None)

        async with listening(runtime, server):
            assert await state(runtime) is ObjectState.EXITED

    async def test_what_a_probe_does_elsewhere_starts_nothing(
        self, runtime: ContainerdRuntime, server: ContainerdServer
    ) -> None:
        server.add(container("cnf"), status=None)
        async with listening(runtime, server) as feed:
            server.publish("/containers/create", "ContainerCreate", id=ID)
            await hint(feed)
            server.publish("/tasks/start", "TaskStart", container_id="another")
            await hint(feed)

            assert await state(runtime) is ObjectState.CREATED

    async def test_one_that_is_made_again_under_its_id_is_another(
        self, runtime: ContainerdRuntime, server: ContainerdServer
    ) -> None:
        server.add(container("cnf"), status=None)
        seen = []
        async with listening(runtime, server) as feed:
            for topic, kind in (
                ("create", "ContainerCreate"),
                ("delete", "ContainerDelete"),
                ("create", "ContainerCreate"),
            ):
                server.publish(f"/containers/{topic}", kind, id=ID)
                await hint(feed)
                seen.append(await state(runtime))

        assert seen == [ObjectState.CREATED, ObjectState.EXITED, ObjectState.CREATED]

    async def test_nothing_is_known_any_more_once_the_feed_is_broken(
        self, runtime: ContainerdRuntime, server: ContainerdServer
    ) -> None:
        """It may have been started and have ended since, also before the listener has noticed."""
        server.add(container("cnf"), status=None)
        async with listening(runtime, server) as feed:
            server.publish("/containers/create", "ContainerCreate", id=ID)
            await hint(feed)
            assert await state(runtime) is ObjectState.CREATED
            server.end_streams()

            await until(runtime, ObjectState.EXITED)
