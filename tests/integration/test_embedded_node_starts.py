"""What comes before each start of a container, on the embedded node."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from adapters._pb.kubelet.deviceplugin.v1beta1.api_pb2 import ContainerAllocateResponse, Mount
from adapters.memory.node import ContainerSpec, EmbeddedNode, Phase
from domain.evidence import ObjectKind, ObjectState
from tests.integration.nodes import QUICK, a_node, app, init, mode_of, pod, sidecar
from tests.integration.plugin import RESOURCE, ScriptedPlugin

OTHER = "example.com/other"


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with a_node() as made:
        yield made


@pytest.fixture
async def plugin(node: EmbeddedNode) -> AsyncIterator[ScriptedPlugin]:
    async with ScriptedPlugin(node.plugin_dir) as made:
        await node.wait_registered(RESOURCE)
        yield made


def names(plugin: ScriptedPlugin) -> list[str]:
    return [name for name, _ in plugin.calls]


class TestStarting:
    async def test_each_container_is_announced_with_its_devices_right_before_it_is_created(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        cnf = await node.admit(pod("cnf", init(), sidecar(), app("main", 2)))
        plugin.seen.clear()
        await node.run(cnf)

        held = node.devices_of(cnf)
        assert [(name, set(ids)) for name, ids in plugin.calls] == [
            ("PreStartContainer", set(held[name][RESOURCE])) for name in ("setup", "side", "main")
        ]

    @pytest.mark.usefixtures("plugin")
    async def test_an_init_container_has_ended_when_the_others_start(self, node: EmbeddedNode) -> None:
        cnf = await node.start(pod("cnf", init(), sidecar(), app("main", 2), app("plain", 0)))

        states = {thing.container: thing.state for thing in node.runtime.objects if thing.container}
        assert cnf.phase is Phase.RUNNING
        assert states == {
            "setup": ObjectState.EXITED,
            "side": ObjectState.RUNNING,
            "main": ObjectState.RUNNING,
            "plain": ObjectState.RUNNING,
        }

    @pytest.mark.usefixtures("plugin")
    async def test_the_runtime_shows_the_pods_sandbox_and_what_each_container_was_given(
        self, node: EmbeddedNode
    ) -> None:
        one = await node.start(pod("one", static=True))

        sandbox, container = node.runtime.objects
        assert (sandbox.kind, sandbox.uid, sandbox.namespace, sandbox.name) == (
            ObjectKind.SANDBOX,
            one.uid,
            "telco",
            "one-node1",
        )
        assert (container.uid, container.name, container.container) == (one.uid, "one-node1", "a")
        assert container.mounts["/run/vpp"] == one.container("a").mounts["/run/vpp"]
        assert container.claimed == {"example.com.memif.number": "1"}

    async def test_a_restarted_container_is_a_new_one_with_the_old_answer(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """Allocate is not called again, PreStartContainer is."""
        one = await node.start(pod())
        first = one.container("a").id
        await node.restart_container(one, "a")

        assert names(plugin) == ["Allocate", "PreStartContainer", "PreStartContainer"]
        assert one.container("a").id != first
        assert one.container("a").restarts == 1
        assert one.container("a").env == {"NUMBER": "1"}

    @pytest.mark.usefixtures("plugin")
    async def test_the_last_ended_container_lingers_and_older_ones_do_not(self, node: EmbeddedNode) -> None:
        one = await node.start(pod())
        for _ in range(3):
            await node.restart_container(one, "a")

        states = [thing.state for thing in node.runtime.objects if thing.container == "a"]
        assert states == [ObjectState.EXITED, ObjectState.RUNNING]

    async def test_nobody_is_asked_who_did_not_want_to_be(self, node: EmbeddedNode) -> None:
        async with ScriptedPlugin(node.plugin_dir, pre_start=False) as plugin:
            await node.wait_registered(RESOURCE)
            await node.start(pod())

            assert names(plugin) == ["Allocate"]

    @pytest.mark.usefixtures("plugin")
    async def test_a_missing_mount_source_is_made_by_the_runtime(self, node: EmbeddedNode) -> None:
        """Root's and 0755, so a memif master of another user silently cannot listen there."""
        one = await node.start(pod())

        assert mode_of(Path(one.container("a").mounts["/run/vpp"])) == "drwxr-xr-x"

    @pytest.mark.usefixtures("plugin")
    async def test_a_source_that_exists_is_left_as_it_is(self, node: EmbeddedNode) -> None:
        source = node.plugin_dir.parent / "memif" / "1"
        source.mkdir(parents=True, mode=0o700)
        await node.start(pod())

        assert mode_of(source) == "drwx------"


class TestPreStartFails:
    async def test_the_container_waits_and_is_tried_again_until_it_succeeds(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """The pod is not failed."""
        plugin.pre_start_error = (grpc.StatusCode.INTERNAL, "not now")
        one = await node.admit(pod())
        node.begin(one)
        await node.until(lambda: names(plugin).count("PreStartContainer") >= 3)

        assert one.container("a").waiting == (
            "CreateContainerConfigError: device plugin PreStartContainer rpc failed with err: "
            "rpc error: code = Internal desc = not now"
        )
        assert one.container("a").id is None
        plugin.pre_start_error = None
        await node.run(one)
        assert one.container("a").running
        assert one.container("a").waiting is None

    async def test_one_that_takes_too_long_is_given_up_and_tried_again(self) -> None:
        """After thirty seconds, unless the node was told otherwise."""
        timing = replace(QUICK, pre_start_deadline=0.05)
        async with a_node(timing=timing) as node, ScriptedPlugin(node.plugin_dir) as plugin:
            await node.wait_registered(RESOURCE)
            plugin.pre_start_hold.clear()
            one = await node.admit(pod())
            node.begin(one)
            await node.until(lambda: one.container("a").waiting is not None)

            assert "rpc error: code = DeadlineExceeded" in str(one.container("a").waiting)
            plugin.pre_start_hold.set()
            await node.run(one)
            assert one.container("a").running

    async def test_a_pod_admitted_without_its_device_never_starts_once_pre_start_is_wanted(
        self, node: EmbeddedNode
    ) -> None:
        """It was admitted before the plugin's first registration, so nothing is stored and the late Allocate is
        never reached.
        """
        early = await node.start(pod("early", static=True))
        async with ScriptedPlugin(node.plugin_dir) as plugin:
            await node.wait_registered(RESOURCE)
            node.exit_container(early, "a")
            node.begin(early)
            await node.until(lambda: early.container("a").waiting is not None)

            assert f"no devices found allocated in local cache for pod {early.uid}" in str(early.container("a").waiting)
            assert plugin.calls == []

    async def test_without_pre_start_such_a_pod_gets_a_late_allocate_at_its_next_start(
        self, node: EmbeddedNode
    ) -> None:
        early = await node.start(pod("early", static=True))
        async with ScriptedPlugin(node.plugin_dir, pre_start=False) as plugin:
            await node.wait_registered(RESOURCE)
            await node.restart_container(early, "a")

            assert names(plugin) == ["Allocate"]
            assert early.container("a").env == {"NUMBER": "1"}


class TestTwoPools:
    @staticmethod
    def _answer(who: str) -> ContainerAllocateResponse:
        return ContainerAllocateResponse(
            envs={"MEMIF_SOCKET": who, f"MEMIF_SOCKET_{who}": who},
            mounts=[Mount(container_path="/run/vpp", host_path="/tmp")],
            annotations={"socket": who},
        )

    async def _given(self, seed: int) -> dict[str, str]:
        async with (
            a_node(seed=seed) as node,
            ScriptedPlugin(node.plugin_dir, endpoint="1.sock") as one,
            ScriptedPlugin(node.plugin_dir, endpoint="2.sock", resource=OTHER) as two,
        ):
            one.make = lambda _: self._answer("ONE")
            two.make = lambda _: self._answer("TWO")
            await node.wait_registered(RESOURCE)
            await node.wait_registered(OTHER)
            both = await node.start(pod("both", ContainerSpec(name="a", limits={RESOURCE: 1, OTHER: 1})))
            return dict(both.container("a").env)

    async def test_of_two_equal_names_one_is_kept_and_chance_says_which(self) -> None:
        given = [await self._given(seed) for seed in range(6)]

        assert {env["MEMIF_SOCKET"] for env in given} == {"ONE", "TWO"}
        assert all({"MEMIF_SOCKET_ONE", "MEMIF_SOCKET_TWO"} <= set(env) for env in given)
