"""How a pool gets registered: what is served, what is said to the kubelet, and in which order."""

import asyncio
import errno
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from adapters.kubelet import watch
from adapters.kubelet.server import selinux_hint
from adapters.memory.node import EmbeddedNode
from domain.pool import Pool
from tests.integration.kubelet import NEVER, RESOURCE, Core, ScriptedKubelet, a_directory, a_side
from tests.integration.nodes import QUICK as QUICK_NODE
from tests.integration.nodes import a_node, app, pod


@pytest.fixture
def directory() -> Iterator[Path]:
    with a_directory() as made:
        yield made


@pytest.fixture
async def kubelet(directory: Path) -> AsyncIterator[ScriptedKubelet]:
    async with ScriptedKubelet(directory) as made:
        yield made


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with a_node() as made:
        yield made


class TestHandshake:
    async def test_the_kubelet_can_dial_back_inside_the_call_and_gets_the_list_at_once(
        self, node: EmbeddedNode
    ) -> None:
        async with a_side(node.plugin_dir) as side:
            await node.wait_registered(RESOURCE)

            calls = [(call.rpc, call.what, call.answer) for call in node.calls]
            assert calls == [
                ("GetDevicePluginOptions", "", "ok"),
                ("Register", "", "ok"),
                ("ListAndWatch", "open", "ok"),
                ("ListAndWatch", "list", "ok"),
            ]
            assert node.calls[-1].ids == side.core.ids

    async def test_the_first_list_is_whole_and_healthy(self, node: EmbeddedNode) -> None:
        """After a pause of whatever length: a first list that is empty or short costs the node its pods."""
        async with a_side(node.plugin_dir, Core(Pool(resource=RESOURCE, capacity=100))):
            await node.wait_registered(RESOURCE)

            assert (node.resources()[RESOURCE].capacity, node.resources()[RESOURCE].allocatable) == (100, 100)

    async def test_version_name_and_endpoint_are_exactly_those_that_the_kubelet_wants(
        self, directory: Path, kubelet: ScriptedKubelet
    ) -> None:
        async with a_side(directory) as side:
            await side.watched()
            endpoint = side.endpoint

        (request,) = kubelet.requests
        assert request.version == "v1beta1"
        assert request.resource_name == RESOURCE
        assert request.endpoint == endpoint
        assert re.fullmatch(r"contiv-vpp\.[a-z2-7]{8}-0\.sock", request.endpoint)
        assert request.options.pre_start_required
        assert not request.options.get_preferred_allocation_available

    async def test_it_is_served_before_it_is_registered(self, directory: Path, kubelet: ScriptedKubelet) -> None:
        """The kubelet dials back inside the call and gives that ten seconds."""
        kubelet.hold.clear()
        async with a_side(directory) as side:
            await side.until(lambda: bool(kubelet.requests))

            assert (directory / kubelet.requests[0].endpoint).is_socket()
            assert not side.status().registered
            kubelet.hold.set()
            await side.watched()

    async def test_how_it_stands_is_told_step_by_step(self, directory: Path, kubelet: ScriptedKubelet) -> None:
        kubelet.watches = False
        async with a_side(directory) as side:
            await side.until(lambda: side.status().registered)
            accepted = side.status()
            kubelet.watchers[0].watch()
            await side.watched()
            watched = side.status()
        stopped = side.status()

        endpoint = kubelet.requests[0].endpoint
        steps = [(each.registered, each.watched, each.endpoint) for each in (accepted, watched, stopped)]
        assert steps == [(True, False, endpoint), (True, True, endpoint), (False, False, None)]
        assert (watched.reason, stopped.reason) == (None, "stopped")
        assert [each.registrations for each in (accepted, watched, stopped)] == [1, 1, 1]

    async def test_everybody_who_wants_to_know_of_a_new_session_is_told(self, node: EmbeddedNode) -> None:
        """The kubelet may have started containers from its own record meanwhile, without asking first."""
        async with a_side(node.plugin_dir) as side:
            await side.watched()
            assert side.greeted == 1
            await node.restart_kubelet()
            await side.watched(2)

            assert side.greeted == 2
        assert [facts["resource"] for facts in side.told.noted("registered with the kubelet")] == [RESOURCE] * 2

    async def test_a_pod_gets_devices_through_it(self, node: EmbeddedNode) -> None:
        async with a_side(node.plugin_dir) as side:
            await node.wait_registered(RESOURCE)
            one = await node.start(pod("cnf", app(count=2, resource=RESOURCE)))

            assert [name for name, _ in side.core.calls] == ["Allocate", "PreStartContainer"]
            assert one.container("a").env["MEMIF_SOCKET"] == "/run/vpp/memif.sock"

    async def test_a_busy_event_loop_delays_the_handshake_and_does_not_break_it(self, node: EmbeddedNode) -> None:
        async def be_busy() -> None:
            while True:
                sum(range(50_000))
                await asyncio.sleep(0)

        busy = asyncio.create_task(be_busy())
        async with a_side(node.plugin_dir) as side:
            await side.watched()
        busy.cancel()

        assert side.status().registrations == 1


class TestBeforeThereIsAKubelet:
    async def test_without_a_kubelet_it_waits_and_says_so_once(self, directory: Path) -> None:
        async with a_side(directory) as side:
            await side.until(lambda: bool(side.told.warnings))
            await side.hinted()

            assert side.told.reasons() == [
                f"there is no {directory}/kubelet.sock yet; waiting for the kubelet to start"
            ]
            assert side.status().reason == side.told.reasons()[0]
            async with ScriptedKubelet(directory):
                await side.watched()

    async def test_a_socket_on_which_nobody_listens_is_waited_for_and_its_successor_is_taken(self) -> None:
        """After a reboot the file is there and nobody listens."""
        async with a_node(start=False) as node:
            node.leave_stale_socket()
            async with a_side(node.plugin_dir) as side:
                await side.until(lambda: bool(side.told.warnings))
                await side.hinted()
                assert side.told.reasons() == [
                    f"nobody listens on {node.kubelet_socket}; waiting for the kubelet to start"
                ]
                await node.start_kubelet()
                await node.wait_registered(RESOURCE)
                await side.watched()

                assert side.status().registrations == 1

    async def test_a_socket_that_is_bound_and_does_not_listen_yet_is_tried_again_soon(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The kubelet binds a moment before it listens, and no event tells when it does."""
        monkeypatch.setattr(watch, "FLOOR", NEVER)
        async with (
            a_node(timing=replace(QUICK_NODE, listen_delay=0.3), start=False) as node,
            a_side(node.plugin_dir) as side,
        ):
            await node.start_kubelet()
            await node.wait_registered(RESOURCE)
            await side.watched()

            assert side.status().registrations == 1

    async def test_permission_denied_is_said_with_its_cure(self, directory: Path, mocker: MockerFixture) -> None:
        """Root may connect to anything, so the kernel's answer is played."""
        async with ScriptedKubelet(directory) as kubelet:
            mocker.patch("socket.socket.connect_ex", return_value=errno.EACCES)
            async with a_side(directory) as side:
                await side.until(lambda: bool(side.told.warnings))

        assert side.told.reasons() == [
            f"no permission to connect to {directory}/kubelet.sock; run as root{selinux_hint()}"
        ]
        assert kubelet.requests == []
