"""A kubelet that restarts: the ordinary end of a session, and the beginning of the next."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2
from adapters.memory.node import EmbeddedNode
from domain.pool import Pool
from tests.integration.kubelet import (
    NEVER,
    QUICK,
    RESOURCE,
    Core,
    ScriptedKubelet,
    Watcher,
    a_directory,
    a_side,
    things,
    until,
)
from tests.integration.nodes import a_node, app, pod

WARM_UP = 5
"""Restarts after which whatever libraries keep for good is there."""


@pytest.fixture
def directory() -> Iterator[Path]:
    with a_directory() as made:
        yield made


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with a_node() as made:
        made.rate_limited = False
        yield made


async def test_a_new_kubelet_gets_a_new_socket_and_the_list(node: EmbeddedNode) -> None:
    """It wipes the sockets in its directory when it starts, and comes back to nobody."""
    async with a_side(node.plugin_dir) as side:
        await side.watched()
        before = side.endpoint
        await node.restart_kubelet()
        await node.wait_registered(RESOURCE)
        await side.watched(2)

        assert side.endpoint != before
        assert side.sockets() == [side.endpoint]
        assert side.plugins.kubelet_restarts == 1
        assert side.told.warnings == []


async def test_it_is_registered_anew_at_every_one_of_a_hundred_restarts_and_nothing_adds_up(
    node: EmbeddedNode,
) -> None:
    """Not one descriptor, thread or task a restart, whoever would have to close it."""
    async with a_side(node.plugin_dir) as side:
        await side.watched()
        before = things()
        for times in range(1, 101):
            await node.restart_kubelet()
            await node.wait_registered(RESOURCE)
            await side.watched(times + 1)
            if times == WARM_UP:
                await node.wait_ready()
                before = things()
        await node.wait_ready()
        await until(lambda: things().within(before))

        assert side.status().registrations == 101
        assert side.plugins.kubelet_restarts == 100
        assert side.sockets() == [side.endpoint]


async def test_a_kubelet_that_restarts_twice_in_a_row_is_followed(node: EmbeddedNode) -> None:
    async with a_side(node.plugin_dir) as side:
        await side.watched()
        for _ in range(5):
            await node.restart_kubelet()
            await node.restart_kubelet()
            await node.wait_registered(RESOURCE)

        await side.until(lambda: side.status().watched)


async def test_a_kubelet_that_stays_away_is_waited_for(node: EmbeddedNode) -> None:
    """Its socket stays behind, and whoever dials it is refused."""
    async with a_side(node.plugin_dir) as side:
        await side.watched()
        await node.stop_kubelet()
        await side.until(lambda: "nobody listens" in str(side.status().reason))
        assert not side.status().registered
        await node.start_kubelet()
        await side.watched(2)

        assert side.plugins.kubelet_restarts == 1


async def test_running_pods_are_not_touched_by_a_restart(node: EmbeddedNode) -> None:
    """Their devices come from the kubelet's own record: nothing is allocated and nothing prepared anew."""
    async with a_side(node.plugin_dir, Core(Pool(resource=RESOURCE, capacity=20))) as side:
        await node.wait_registered(RESOURCE)
        pods = [await node.start(pod(f"cnf-{number}", app(resource=RESOURCE))) for number in range(10)]
        calls = list(side.core.calls)
        await node.restart_kubelet()
        await node.wait_registered(RESOURCE)
        await node.wait_ready()

        assert side.core.calls == calls
        assert all(each.admitted and each.container("a").running for each in pods)


async def test_a_restart_that_no_event_tells_of_is_noticed_by_the_socket_itself(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events get lost; then the sessions look for themselves."""
    async with ScriptedKubelet(directory) as kubelet, a_side(directory) as side:
        await side.watched()
        monkeypatch.setattr(side.watch, "_waiters", [])
        await kubelet.stop()
        await kubelet.start()
        monkeypatch.undo()

        await side.watched(2)


async def test_a_new_kubelet_is_noticed_although_the_old_ones_stream_never_ends(directory: Path) -> None:
    """A stream of a kubelet that was killed may hang; the new socket is enough."""
    async with ScriptedKubelet(directory) as kubelet, a_side(directory) as side:
        await side.watched()
        old = kubelet.watchers[0]
        assert old.watching
        await kubelet.stop()
        await kubelet.start()
        await side.watched(2)

        assert side.plugins.kubelet_restarts == 1


async def test_a_new_kubelet_is_noticed_although_it_left_our_socket_alone(directory: Path) -> None:
    """Ours may have been made between its wiping and its listening."""
    async with ScriptedKubelet(directory) as kubelet, a_side(directory) as side:
        await side.watched()
        await kubelet.stop()
        await kubelet.start(wipe=False)
        await side.watched(2)

        assert side.plugins.kubelet_restarts == 1


async def test_every_start_serves_and_registers_though_clients_keep_their_old_streams(directory: Path) -> None:
    """Twenty starts without a pause; another plugin met "address already in use" at the first."""
    async with ScriptedKubelet(directory) as kubelet:
        for times in range(1, 21):
            async with a_side(directory) as side:
                await side.watched()
                await until(lambda times=times: len(kubelet.watchers) == times)  # type: ignore[misc]
                await until(lambda: bool(kubelet.watchers[-1].lists))

                assert len(kubelet.requests) == times

        assert len({request.endpoint for request in kubelet.requests}) == 20


async def test_calls_are_answered_after_twenty_reconnects_that_close_nothing(directory: Path) -> None:
    """A bounded pool of threads would queue them behind the streams."""
    async with ScriptedKubelet(directory) as kubelet, a_side(directory) as side:
        await side.watched()
        path = f"{directory}/{side.endpoint}"
        before = things()
        more = [Watcher(path) for _ in range(20)]
        for each in more:
            each.watch()
        await until(lambda: all(each.lists for each in more))
        answer = await kubelet.watchers[0].stub.Allocate(_one(side.core.ids[0]))

        assert len(answer.container_responses) == 1
        assert things().threads == before.threads
        assert things().pool < before.pool + 10
        assert side.status().registrations == 1
        for each in more:
            await each.close()


async def test_a_pause_that_the_old_kubelet_earned_does_not_keep_the_new_one_waiting(directory: Path) -> None:
    """It may come in the moment in which the refused session ends."""
    times = replace(QUICK, shortest_pause=NEVER, longest_pause=NEVER)
    async with ScriptedKubelet(directory) as kubelet, a_side(directory, times=times) as side:
        kubelet.refuse = (grpc.StatusCode.UNKNOWN, "no")
        await side.until(lambda: bool(side.told.warnings))
        kubelet.refuse = None
        await kubelet.stop()
        await kubelet.start()
        await side.watched()

        assert side.told.reasons()[0] == "the kubelet did not accept the registration: no"


async def test_a_kubelet_that_comes_while_a_refused_session_ends_is_not_kept_waiting(directory: Path) -> None:
    """A call in flight holds the old server up for a moment."""
    times = replace(QUICK, shortest_pause=NEVER, longest_pause=NEVER, stream=0.2)
    async with ScriptedKubelet(directory) as kubelet:
        kubelet.watches = False
        async with a_side(directory, times=times) as side:
            await side.until(lambda: side.status().registered)
            side.core.hold.clear()
            call = kubelet.watchers[0].stub.Allocate(_one(side.core.ids[0]))
            await side.until(side.core.entered.is_set)
            await side.until(lambda: side.sockets() == [])
            kubelet.watches = True
            await kubelet.stop()
            await kubelet.start()
            await side.watched(2)
            call.cancel()


def _one(device: str) -> api_pb2.AllocateRequest:
    return api_pb2.AllocateRequest(container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=[device])])
