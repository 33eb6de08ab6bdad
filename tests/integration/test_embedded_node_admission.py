"""Admission and Allocate, on the embedded node."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import grpc
import pytest

from adapters._pb.kubelet.deviceplugin.v1beta1.api_pb2 import ContainerAllocateResponse
from adapters._pb.kubelet.podresources.v1.api_pb2 import ListPodResourcesRequest
from adapters.memory.node import ContainerSpec, EmbeddedNode, KubeletCrashed, Phase, PodSpec, Source
from tests.integration.nodes import a_node, app, init, lister, pod, sidecar
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


class TestOrder:
    async def test_all_allocates_of_a_pod_come_before_any_start_init_containers_first(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """The sidecar gets the init container's very device, and both answers stay good."""
        spec = pod("cnf", app("main", 2), init("setup", 1), sidecar("side", 1))
        admitted = await node.admit(spec)

        assert [(name, len(ids)) for name, ids in plugin.calls] == [
            ("Allocate", 1),
            ("Allocate", 1),
            ("Allocate", 2),
        ]
        (_, setup), (_, side), (_, main) = plugin.calls
        assert setup == side
        assert set(main).isdisjoint(side)
        assert set(node.devices_of(admitted)) == {"setup", "side", "main"}

    async def test_an_app_container_after_a_plain_init_container_gets_its_devices_too(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        await node.admit(pod("cnf", init("setup", 2), sidecar("side", 1), app("main", 1)))

        (_, setup), (_, side), (_, main) = plugin.calls
        assert set(setup) == {*side, *main}

    async def test_one_call_a_resource_and_container_each_with_one_request(self, node: EmbeddedNode) -> None:
        async with (
            ScriptedPlugin(node.plugin_dir, endpoint="1.sock") as one,
            ScriptedPlugin(node.plugin_dir, endpoint="2.sock", resource=OTHER) as two,
        ):
            await node.wait_registered(RESOURCE)
            await node.wait_registered(OTHER)
            await node.admit(pod("cnf", ContainerSpec(name="a", limits={RESOURCE: 2, OTHER: 1})))

            assert [len(ids) for _, ids in one.calls] == [2]
            assert [len(ids) for _, ids in two.calls] == [1]

    async def test_admission_is_serial_and_a_slow_plugin_holds_up_pods_that_want_nothing_of_it(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        plugin.hold.clear()
        slow = asyncio.create_task(node.admit(pod("slow")))
        await plugin.entered.wait()
        plain = asyncio.create_task(node.admit(pod("plain", app("a", 0))))
        await asyncio.sleep(0)

        assert not plain.done()
        plugin.hold.set()
        admitted = await asyncio.gather(slow, plain)
        assert [one.phase for one in admitted] == [Phase.PENDING, Phase.PENDING]
        assert all(one.admitted for one in admitted)

    async def test_the_plugin_may_say_which_devices_it_prefers(self, node: EmbeddedNode) -> None:
        """It is asked only if its options say so; ids that nobody offered are ignored and the rest drawn."""

        def last(available: Sequence[str], must: Sequence[str], size: int) -> list[str]:
            assert (len(available), list(must), size) == (4, [], 2)
            return [max(available), "nonsense"]

        async with ScriptedPlugin(node.plugin_dir, preferred=last) as plugin:
            await node.wait_registered(RESOURCE)
            await node.admit(pod("one", app("a", 2)))

            ((_, ids),) = plugin.calls
            assert f"{RESOURCE}/3" in ids
            assert len(ids) == 2


class TestRefusal:
    @pytest.mark.parametrize(
        "code, spelt",
        [
            (grpc.StatusCode.INTERNAL, "Internal"),
            (grpc.StatusCode.NOT_FOUND, "NotFound"),
            (grpc.StatusCode.INVALID_ARGUMENT, "InvalidArgument"),
            (grpc.StatusCode.DEADLINE_EXCEEDED, "DeadlineExceeded"),
            (grpc.StatusCode.UNAVAILABLE, "Unavailable"),
            (grpc.StatusCode.FAILED_PRECONDITION, "FailedPrecondition"),
            (grpc.StatusCode.RESOURCE_EXHAUSTED, "ResourceExhausted"),
            (grpc.StatusCode.UNKNOWN, "Unknown"),
        ],
    )
    async def test_an_error_from_allocate_fails_the_pod_with_gos_spelling_of_the_code(
        self, node: EmbeddedNode, plugin: ScriptedPlugin, code: grpc.StatusCode, spelt: str
    ) -> None:
        plugin.allocate_error = (code, "no more")
        rejected = await node.admit(pod())

        assert (rejected.phase, rejected.reason) == (Phase.FAILED, "UnexpectedAdmissionError")
        assert rejected.message == (
            f"Pod was rejected: Allocate failed due to rpc error: code = {spelt} desc = no more, which is unexpected"
        )

    async def test_a_refused_pod_is_never_tried_again_and_its_devices_are_free(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        plugin.allocate_error = (grpc.StatusCode.INTERNAL, "no more")
        rejected = await node.admit(pod("one", app("a", 4)))
        await node.run(rejected)
        plugin.allocate_error = None
        await node.admit(pod("two", app("a", 4)))

        assert rejected.phase is Phase.FAILED
        assert [name for name, _ in plugin.calls] == ["Allocate", "Allocate"]

    async def test_what_a_refused_pod_was_answered_before_is_dropped_without_a_word(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """The plugin never hears that the first container's allocation came to nothing."""
        original = plugin.make

        def answer_once(number: int) -> ContainerAllocateResponse:
            plugin.allocate_error = (grpc.StatusCode.INTERNAL, "only one")
            return original(number)

        plugin.make = answer_once
        rejected = await node.admit(pod("one", app("first"), app("second")))

        assert rejected.phase is Phase.FAILED
        assert set(node.devices_of(rejected)) == {"first"}
        plugin.allocate_error = None
        plugin.make = original
        await node.admit(pod("two"))
        assert node.devices_of(rejected) == {}

    async def test_a_pod_may_be_rejected_after_all_its_allocates(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """Devices are allocated before cpu and memory are looked at."""
        spec = PodSpec(name="fat", containers=(app(),), oversized=True)
        rejected = await node.admit(spec)

        assert rejected.phase is Phase.FAILED
        assert [name for name, _ in plugin.calls] == ["Allocate"]

    async def test_a_pod_that_wants_more_than_is_free_is_refused_without_a_call(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        rejected = await node.admit(pod("one", app("a", 5)))

        assert plugin.calls == []
        assert f"unavailable for {RESOURCE}. Requested: 5, Available: 4" in rejected.message

    async def test_an_answer_without_a_container_strands_the_devices(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """They belong to nobody and count as in use, until the kubelet drops some pod and counts anew."""
        old = await node.start(pod("old"))
        plugin.empty = True
        rejected = await node.admit(pod("one", app("a", 3)))
        plugin.empty = False
        starved = await node.admit(pod("two"))

        assert "no containers return in allocation response" in rejected.message
        assert "Requested: 1, Available: 0" in starved.message
        await node.delete(old)
        assert (await node.admit(pod("three", app("a", 3)))).admitted

    async def test_a_container_that_asks_for_an_unknown_resource_runs_without(self, node: EmbeddedNode) -> None:
        """Static pods see no scheduler, so they get this far before the plugin has registered for the first time."""
        one = await node.start(pod("early", static=True))

        assert one.phase is Phase.RUNNING
        assert one.container("a").mounts == {}


class TestFreeing:
    @pytest.mark.usefixtures("plugin")
    async def test_a_deleted_pods_devices_are_freed_by_the_next_allocate(self, node: EmbeddedNode) -> None:
        one = await node.start(pod("one", app("a", 4)))
        await node.delete(one)

        assert set(node.devices_of(one)) == {"a"}
        two = await node.admit(pod("two", app("a", 4)))
        assert two.admitted
        assert node.devices_of(one) == {}

    @pytest.mark.usefixtures("plugin")
    async def test_a_finished_pods_devices_are_freed_while_its_object_exists(self, node: EmbeddedNode) -> None:
        one = await node.start(pod("one", app("a", 4)))
        await node.complete(one)

        assert (await node.admit(pod("two", app("a", 4)))).admitted
        assert one.phase is Phase.SUCCEEDED

    async def test_after_a_forced_deletion_the_next_pod_gets_devices_that_old_containers_still_use(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """The same happens when the manifest of a static pod is removed."""
        one = await node.start(pod("one", app("a", 4)))
        await node.force_delete(one)
        two = await node.start(pod("two", app("a", 4)))

        assert one.container("a").running
        assert two.container("a").running
        (_, first), _, (_, second), _ = plugin.calls
        assert set(first) == set(second)
        await node.finish(one)
        assert {thing.uid for thing in node.runtime.objects} == {two.uid}

    async def test_a_list_during_an_allocate_lets_two_pods_hold_one_device(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """If the List drops a dead pod, the set of ids in use is made anew and the reservation in flight is lost."""
        old = await node.start(pod("old", app("a", 3)))
        plugin.hold.clear()
        plugin.entered.clear()
        admitting = asyncio.create_task(node.admit(pod("two")))
        await plugin.entered.wait()
        await node.complete(old)
        async with lister(node) as stub:
            await stub.List(ListPodResourcesRequest())
        plugin.hold.set()
        two = await admitting
        three = await node.admit(pod("three", app("a", 4)))

        assert node.devices_of(two)["a"][RESOURCE] < node.devices_of(three)["a"][RESOURCE]


class TestStaticPods:
    async def test_the_name_has_the_nodes_as_suffix_and_the_uid_is_the_manifests(self, node: EmbeddedNode) -> None:
        spec = pod("p1", app("a", 0), static=True)
        first = await node.admit(spec)
        other = await node.admit(pod("p1", app("a", 0), static=True, nonce="x"))

        assert first.name == "p1-node1"
        assert first.uid == spec.hash("node1")
        assert other.uid != first.uid

    async def test_an_equal_manifest_gets_the_old_answer_without_allocate(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """As long as the entry is still stored, even after the first pod has ended."""
        first = await node.start(pod("p1", static=True))
        await node.delete(first)
        second = await node.start(pod("p1", static=True))

        assert [name for name, _ in plugin.calls] == ["Allocate", "PreStartContainer", "PreStartContainer"]
        assert second.container("a").env == {"NUMBER": "1"}

    @pytest.mark.usefixtures("plugin")
    async def test_once_the_entry_is_dropped_it_is_allocated_anew(self, node: EmbeddedNode) -> None:
        first = await node.start(pod("p1", static=True))
        await node.delete(first)
        await node.start(pod("between", static=True))
        second = await node.start(pod("p1", static=True))

        assert second.container("a").env == {"NUMBER": "3"}


class TestCrash:
    async def test_a_withdrawn_id_is_kept_as_a_crash_and_fails_the_test_that_made_it(self) -> None:
        """The real kubelet dereferences nil when an id leaves the list while its Allocate is in flight."""
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(a_node())
            plugin = await stack.enter_async_context(ScriptedPlugin(node.plugin_dir))
            await node.wait_registered(RESOURCE)
            plugin.hold.clear()
            admitting = asyncio.create_task(node.admit(pod()))
            await plugin.entered.wait()
            plugin.health.clear()
            plugin.publish()
            await node.until(lambda: node.resources()[RESOURCE].capacity == 0)
            plugin.hold.set()

            with pytest.raises(KubeletCrashed, match="was withdrawn while its Allocate was in flight"):
                await admitting
            leaving = stack.pop_all()
            with pytest.raises(KubeletCrashed, match="was withdrawn while its Allocate was in flight"):
                await leaving.aclose()

    async def test_a_kubelet_that_dies_before_it_stores_an_answer_asks_again(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """The first answer came to nothing, and no call says so."""
        node.die_after_next_answer()
        one = await node.admit(pod())

        assert not node.running
        assert one.phase is Phase.PENDING
        await plugin.stop()
        await node.start_kubelet(withhold=[Source.API])
        async with ScriptedPlugin(node.plugin_dir) as back:
            await node.wait_registered(RESOURCE)
            await node.deliver_sources()

            assert [name for name, _ in back.calls] == ["Allocate"]
            assert one.admitted

    async def test_a_kubelet_that_stops_during_an_allocate_rejects_nobody(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        plugin.hold.clear()
        admitting = asyncio.create_task(node.admit(pod()))
        await plugin.entered.wait()
        await node.stop_kubelet()
        one = await admitting
        plugin.hold.set()

        assert one.phase is Phase.PENDING
        assert not one.admitted
