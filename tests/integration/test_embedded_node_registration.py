"""Registration and the life of a plugin's connection, on the embedded node."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import grpc
import pytest
from grpc import aio

from adapters.memory.clock import ManualClock
from adapters.memory.node import EmbeddedNode, Phase
from adapters.memory.node.devices import STOP_GRACE, Resources
from tests.integration.nodes import QUICK, a_node, appearance, pod
from tests.integration.plugin import RESOURCE, ScriptedPlugin


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def node(clock: ManualClock) -> AsyncIterator[EmbeddedNode]:
    async with a_node(clock=clock) as made:
        yield made


@pytest.fixture
async def impatient() -> AsyncIterator[EmbeddedNode]:
    """A node whose kubelet does not dial for ten seconds what is not there."""
    async with a_node(timing=replace(QUICK, dial_timeout=0.5)) as made:
        yield made


async def refusal(plugin: ScriptedPlugin, *, version: str = "v1beta1", endpoint: str | None = None) -> str:
    """Register, and return the text of the refusal, which has the code UNKNOWN whatever it is about."""
    with pytest.raises(aio.AioRpcError) as caught:
        await plugin.register(version=version, endpoint=endpoint)
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    return str(caught.value.details())


class TestHandshake:
    async def test_the_kubelet_dials_back_inside_register_and_then_watches(self, node: EmbeddedNode) -> None:
        async with ScriptedPlugin(node.plugin_dir):
            await node.wait_registered(RESOURCE)

            calls = [(call.rpc, call.what) for call in node.calls]
            assert calls == [
                ("GetDevicePluginOptions", ""),
                ("Register", ""),
                ("ListAndWatch", "open"),
                ("ListAndWatch", "list"),
            ]
            assert node.resources() == {RESOURCE: Resources(4, 4)}

    async def test_only_the_answer_to_get_device_plugin_options_counts(self, node: EmbeddedNode) -> None:
        """The test's plugin says the contrary in its request."""
        async with ScriptedPlugin(node.plugin_dir, pre_start=True) as plugin:
            await node.wait_registered(RESOURCE)
            await node.start(pod())

            assert [name for name, _ in plugin.calls] == ["Allocate", "PreStartContainer"]

    async def test_a_wrong_version_is_refused(self, node: EmbeddedNode) -> None:
        plugin = ScriptedPlugin(node.plugin_dir)

        text = await refusal(plugin, version="v1alpha")

        assert text == ('requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]')

    @pytest.mark.parametrize(
        "name", ["memif", "kubernetes.io/memif", "requests.example.com/memif", "Example.com/memif", "a.b/" + 64 * "x"]
    )
    async def test_what_is_no_extended_resource_is_refused(self, node: EmbeddedNode, name: str) -> None:
        plugin = ScriptedPlugin(node.plugin_dir, resource=name)

        assert await refusal(plugin) == f'the ResourceName "{name}" is invalid'

    async def test_a_plugin_that_does_not_serve_is_given_up_after_the_dial_limit(self, impatient: EmbeddedNode) -> None:
        """Ten seconds on a real kubelet, so a client's own deadline must be longer."""
        plugin = ScriptedPlugin(impatient.plugin_dir)

        text = await refusal(plugin)

        assert text == "failed to dial device plugin: context deadline exceeded"

    async def test_an_endpoint_may_lie_in_a_sub_directory(self, node: EmbeddedNode) -> None:
        async with ScriptedPlugin(node.plugin_dir, endpoint="sub/x.sock"):
            await node.wait_registered(RESOURCE)

            assert node.registered(RESOURCE)

    async def test_an_absolute_endpoint_is_looked_for_below_the_plugins_directory(self, node: EmbeddedNode) -> None:
        plugin = ScriptedPlugin(node.plugin_dir, endpoint="x.sock")
        await plugin.serve()
        await plugin.register(endpoint="/x.sock")
        await node.wait_registered(RESOURCE)
        await plugin.stop()

        assert any(call.rpc == "Register" and call.answer == "ok" for call in node.calls)

    async def test_a_caller_that_gives_up_ends_the_handshake(self, node: EmbeddedNode) -> None:
        plugin = ScriptedPlugin(node.plugin_dir)

        with pytest.raises(aio.AioRpcError) as caught:
            await plugin.register(within=0.05)

        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert not node.registered(RESOURCE)


class TestEndOfAStream:
    async def test_its_devices_turn_unhealthy_and_nobody_comes_back(self, node: EmbeddedNode) -> None:
        plugin = ScriptedPlugin(node.plugin_dir)
        async with plugin:
            await node.wait_registered(RESOURCE)
        await node.until(lambda: not node.registered(RESOURCE))

        assert node.resources() == {RESOURCE: Resources(4, 0)}
        assert plugin.seen.count("GetDevicePluginOptions") == 1

    async def test_allocating_from_a_stopped_plugin_fails(self, node: EmbeddedNode) -> None:
        async with ScriptedPlugin(node.plugin_dir):
            await node.wait_registered(RESOURCE)
        await node.until(lambda: not node.registered(RESOURCE))

        rejected = await node.admit(pod())

        assert rejected.phase is Phase.FAILED
        assert "no healthy devices present" in rejected.message

    async def test_after_five_minutes_the_capacity_is_gone(self, node: EmbeddedNode, clock: ManualClock) -> None:
        async with ScriptedPlugin(node.plugin_dir):
            await node.wait_registered(RESOURCE)
        await node.until(lambda: not node.registered(RESOURCE))
        clock.advance(STOP_GRACE + 1)

        assert node.resources() == {}

    async def test_after_five_minutes_containers_do_not_start_until_the_plugin_is_back(
        self, node: EmbeddedNode, clock: ManualClock
    ) -> None:
        """It heals without Allocate: what the container had is still stored."""
        async with ScriptedPlugin(node.plugin_dir):
            await node.wait_registered(RESOURCE)
            one = await node.start(pod())
        await node.until(lambda: not node.registered(RESOURCE))
        clock.advance(STOP_GRACE + 1)
        node.resources()
        node.exit_container(one, "a")
        node.begin(one)
        await node.until(lambda: one.container("a").waiting is not None)

        assert one.container("a").waiting == (
            f"CreateContainerConfigError: endpoint not found in cache for a registered resource: {RESOURCE}"
        )
        async with ScriptedPlugin(node.plugin_dir) as back:
            await node.until(lambda: one.container("a").running)

            assert [name for name, _ in back.calls] == ["PreStartContainer"]

    async def test_within_the_five_minutes_a_container_is_not_started_without_its_pre_start(
        self, node: EmbeddedNode
    ) -> None:
        """The options of the stopped plugin are still known, so it is asked, and does not answer."""
        async with ScriptedPlugin(node.plugin_dir):
            await node.wait_registered(RESOURCE)
            one = await node.start(pod())
        await node.until(lambda: not node.registered(RESOURCE))
        node.exit_container(one, "a")
        node.begin(one)
        await node.until(lambda: one.container("a").waiting is not None)

        assert "has been stopped" in str(one.container("a").waiting)

    async def test_within_the_five_minutes_a_plugin_without_pre_start_is_not_missed(self, node: EmbeddedNode) -> None:
        """The container starts again from the stored answer."""
        async with ScriptedPlugin(node.plugin_dir, pre_start=False):
            await node.wait_registered(RESOURCE)
            one = await node.start(pod())
        await node.until(lambda: not node.registered(RESOURCE))
        await node.restart_container(one, "a")

        assert one.container("a").running
        assert one.container("a").env == {"NUMBER": "1"}


class TestSeveralOfOneName:
    async def test_the_newest_is_called_and_the_older_is_not_closed(self, node: EmbeddedNode) -> None:
        async with ScriptedPlugin(node.plugin_dir, endpoint="1.sock") as old:
            await node.wait_registered(RESOURCE)
            async with ScriptedPlugin(node.plugin_dir, endpoint="2.sock") as new:
                await node.until(lambda: node.streams(RESOURCE) == 2)
                await node.admit(pod())

                assert [name for name, _ in new.calls] == ["Allocate"]
                assert old.calls == []
                assert not old.ended.is_set()

    async def test_registering_again_and_again_leaves_a_stream_each_time(self, node: EmbeddedNode) -> None:
        async with ScriptedPlugin(node.plugin_dir) as plugin:
            await plugin.register()
            await plugin.register()
            await node.until(lambda: plugin.seen.count("ListAndWatch open") == 3)

            assert node.streams(RESOURCE) == 3

    async def test_the_lists_of_both_count_and_the_last_message_wins(self, node: EmbeddedNode) -> None:
        async with ScriptedPlugin(node.plugin_dir, endpoint="1.sock", count=2) as old:
            await node.wait_registered(RESOURCE)
            async with ScriptedPlugin(node.plugin_dir, endpoint="2.sock", count=5):
                await node.until(lambda: node.resources() == {RESOURCE: Resources(5, 5)})
                old.publish()
                await node.until(lambda: node.resources() == {RESOURCE: Resources(2, 2)})

                assert node.streams(RESOURCE) == 2

    async def test_the_end_of_the_older_stream_tears_the_newer_one_down(self, node: EmbeddedNode) -> None:
        """The kubelet looks the connection up by name.  The newer plugin sees its stream end, and must come again."""
        old = ScriptedPlugin(node.plugin_dir, endpoint="1.sock")
        async with old:
            await node.wait_registered(RESOURCE)
            new = ScriptedPlugin(node.plugin_dir, endpoint="2.sock")
            await new.serve()
            await new.register()
            await node.until(lambda: sum(call.what == "list" for call in node.calls) == 2)
        await node.until(lambda: not node.registered(RESOURCE))
        async with asyncio.timeout(5):
            await new.ended.wait()

        assert node.resources() == {RESOURCE: Resources(4, 0)}
        await new.register()
        await node.wait_registered(RESOURCE)
        await new.stop()

    async def test_a_failed_registration_makes_the_kubelet_trust_a_plugin_that_is_dead(
        self, impatient: EmbeddedNode
    ) -> None:
        """The failure takes the living plugin's entry away, so that the end of its stream is not noticed.

        The kubelet goes on advertising its devices as healthy, and Allocate fails with UNAVAILABLE.
        """
        node = impatient
        plugin = ScriptedPlugin(node.plugin_dir)
        async with plugin:
            await node.wait_registered(RESOURCE)
            await refusal(plugin, endpoint="nobody.sock")
        await node.until(lambda: node.streams(RESOURCE) == 0)

        assert node.resources() == {RESOURCE: Resources(4, 4)}
        rejected = await node.admit(pod())
        assert rejected.message.startswith(
            "Pod was rejected: Allocate failed due to rpc error: code = Unavailable desc = "
        )


class TestTheSocketInFront:
    async def test_a_plugin_may_dial_before_the_kubelet_listens(self) -> None:
        """The file appears with bind, and the kubelet listens a moment later: a dial in between is refused."""
        async with a_node(timing=replace(QUICK, listen_delay=0.2), start=False) as node:
            starting = asyncio.create_task(node.start_kubelet())
            await appearance(node.kubelet_socket)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_unix_connection(node.kubelet_socket)
            inode = node.kubelet_socket.stat().st_ino
            await starting
            _, writer = await asyncio.open_unix_connection(node.kubelet_socket)
            writer.close()
            await writer.wait_closed()

            assert node.kubelet_socket.stat().st_ino == inode

    async def test_the_file_stays_when_the_kubelet_is_gone(self, node: EmbeddedNode) -> None:
        await node.stop_kubelet()

        assert node.kubelet_socket.is_socket()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_unix_connection(node.kubelet_socket)

    async def test_a_new_kubelet_makes_a_new_file(self, node: EmbeddedNode) -> None:
        before = node.kubelet_socket.stat()
        await node.restart_kubelet()
        after = node.kubelet_socket.stat()

        assert (before.st_ino, before.st_mtime_ns) != (after.st_ino, after.st_mtime_ns)

    async def test_a_stale_file_can_be_left_without_a_kubelet(self) -> None:
        async with a_node(start=False) as node:
            node.leave_stale_socket()

            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_unix_connection(node.kubelet_socket)
