"""Restarts of the kubelet and of the machine, and the checkpoint that outlives them, on the embedded node."""

import asyncio
import json
import shutil
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters._pb.kubelet.podresources.v1.api_pb2 import ListPodResourcesRequest
from adapters.memory.node import EmbeddedNode, Phase, Source, checkpoint
from domain.evidence import ObjectKind, ObjectState
from tests.integration.nodes import QUICK, a_node, app, appearance, init, lister, mode_of, pod, slow_readmission
from tests.integration.plugin import RESOURCE, ScriptedPlugin

CAPTURES = Path(__file__).parent.parent / "captures"


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


def document(node: EmbeddedNode) -> Any:
    return json.loads(node.checkpoint_path.read_text())


def uids(node: EmbeddedNode) -> list[str]:
    return [entry["PodUID"] for entry in document(node)["Data"]["PodDeviceEntries"] or ()]


class TestStart:
    async def test_pod_resources_answers_before_there_is_a_kubelet_socket_and_knows_nothing(self) -> None:
        """So an empty List means nothing shortly after a start."""
        async with a_node(timing=replace(QUICK, pod_resources_lead=0.2), start=False) as node:
            starting = asyncio.create_task(node.start_kubelet())
            await appearance(node.pod_resources_socket)
            async with lister(node) as stub:
                answer = await stub.List(ListPodResourcesRequest())

                assert not node.kubelet_socket.exists()
                assert list(answer.pod_resources) == []
            await starting

    async def test_the_sockets_of_plugins_are_wiped_before_the_kubelets_own_appears(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        await node.restart_kubelet()

        assert not plugin.path.exists()
        assert node.kubelet_socket.exists()

    async def test_directories_files_and_sockets_in_sub_directories_survive(self, node: EmbeddedNode) -> None:
        (node.plugin_dir / "file").write_text("mine")
        async with ScriptedPlugin(node.plugin_dir, endpoint="sub/x.sock") as plugin:
            (node.plugin_dir / "link.sock").symlink_to(plugin.path)
            await node.restart_kubelet()

            left = {path.name for path in node.plugin_dir.iterdir()}
            assert {"file", "sub", "kubelet.sock"} <= left
            assert plugin.path.exists()
            assert "link.sock" not in left

    async def test_the_end_of_the_kubelet_ends_the_stream(self, node: EmbeddedNode, plugin: ScriptedPlugin) -> None:
        await node.stop_kubelet()
        async with asyncio.timeout(5):
            await plugin.ended.wait()

        assert plugin.seen[-1] == "ListAndWatch end"


class TestRunningContainers:
    async def test_they_go_on_and_are_not_checked_though_no_plugin_is_there(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        one = await node.start(pod())
        await plugin.stop()
        await node.restart_kubelet()
        await node.wait_ready()

        assert one.admitted
        assert one.container("a").running
        assert names(plugin) == ["Allocate", "PreStartContainer"]

    async def test_one_that_dies_before_the_plugin_is_back_starts_without_pre_start(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """The options are unknown in this window, so the stored answer is used and nobody is asked."""
        one = await node.start(pod())
        await plugin.stop()
        await node.restart_kubelet()
        await node.wait_ready()
        await node.restart_container(one, "a")

        assert one.container("a").running
        assert one.container("a").env == {"NUMBER": "1"}
        assert names(plugin) == ["Allocate", "PreStartContainer"]

    async def test_a_running_pod_whose_ended_init_container_holds_a_device_needs_the_plugin(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """Only containers that run are spared the check, so the pod is failed and ended with its app running."""
        one = await node.start(pod("one", init(), app()))
        await plugin.stop()
        await node.restart_kubelet()
        await node.wait_ready()

        assert one.phase is Phase.FAILED
        assert one.container("a").state is ObjectState.EXITED

    async def test_a_runtime_that_does_not_answer_at_the_start_makes_it_look_like_a_reboot(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        one = await node.start(pod())
        await plugin.stop()
        node.runtime.cut()
        await node.restart_kubelet()
        await node.wait_ready()

        assert one.phase is Phase.FAILED


class TestReadmission:
    async def test_a_plugin_that_is_late_loses_every_pod_that_does_not_run(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """For good: the kubelet never tries again."""
        one = await node.start(pod())
        await plugin.stop()
        await node.reboot()
        await node.wait_ready()
        async with ScriptedPlugin(node.plugin_dir) as late:
            await node.wait_registered(RESOURCE)

            assert one.phase is Phase.FAILED
            assert one.message == (
                "Pod was rejected: Allocate failed due to no healthy devices present; "
                f"cannot allocate unhealthy devices {RESOURCE}, which is unexpected"
            )
            assert late.calls == []

    async def test_a_plugin_that_is_in_time_keeps_them(self) -> None:
        async with a_node(timing=slow_readmission(0.4)) as node:
            async with ScriptedPlugin(node.plugin_dir) as plugin:
                await node.wait_registered(RESOURCE)
                one = await node.start(pod())
            await node.reboot()
            async with ScriptedPlugin(node.plugin_dir) as back:
                await node.until(lambda: one.container("a").running)

                assert names(plugin) == ["Allocate", "PreStartContainer"]
                assert names(back) == ["PreStartContainer"]

    async def test_a_source_that_is_late_makes_the_list_partial_and_its_pods_start_from_the_stored_answer(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        static = await node.start(pod("static", static=True))
        api = await node.start(pod("api"))
        await node.stop_kubelet()
        await plugin.stop()
        node.exit_container(api, "a")
        await node.start_kubelet(withhold=[Source.API])
        async with ScriptedPlugin(node.plugin_dir) as back, lister(node) as stub:
            await node.wait_registered(RESOURCE)
            await node.until(lambda: node.kubelet.has(Source.FILE))
            answer = await stub.List(ListPodResourcesRequest())
            assert [entry.name for entry in answer.pod_resources] == [static.name]
            await node.deliver_sources()
            await node.until(lambda: api.container("a").running)

            assert names(back) == ["PreStartContainer"]
            assert api.container("a").env == {"NUMBER": "2"}

    @pytest.mark.usefixtures("plugin")
    async def test_nothing_is_freed_before_every_source_has_delivered(self, node: EmbeddedNode) -> None:
        """Else a late source's pods would be taken for dead."""
        api = await node.start(pod("api"))
        await node.stop_kubelet()
        await node.start_kubelet(withhold=[Source.API])
        async with lister(node) as stub:
            await stub.List(ListPodResourcesRequest())

        assert set(node.devices_of(api)) == {"a"}

    @pytest.mark.usefixtures("plugin")
    async def test_a_pod_deleted_while_no_kubelet_runs_is_ended_by_the_next(self, node: EmbeddedNode) -> None:
        one = await node.start(pod())
        await node.stop_kubelet()
        await node.delete(one)
        assert one.container("a").running
        await node.start_kubelet()
        await node.wait_ready()

        assert node.runtime.objects == ()


class TestReboot:
    async def test_pods_come_back_with_uid_and_stored_answer_and_without_allocate(self) -> None:
        """Directories that a reboot wiped are not made anew by anybody but the plugin; else the runtime makes them."""
        async with a_node(timing=slow_readmission(0.4)) as node:
            async with ScriptedPlugin(node.plugin_dir, pre_start=False) as before:
                await node.wait_registered(RESOURCE)
                one = await node.start(pod())
            given = (one.uid, dict(one.container("a").env), dict(one.container("a").mounts))
            source = Path(one.container("a").mounts["/run/vpp"])
            await node.reboot(meanwhile=lambda: shutil.rmtree(source))
            async with ScriptedPlugin(node.plugin_dir) as after:
                await node.until(lambda: one.container("a").running)

                assert (one.uid, dict(one.container("a").env), dict(one.container("a").mounts)) == given
                assert names(before) == ["Allocate"]
                assert names(after) == ["PreStartContainer"]
                assert mode_of(source) == "drwxr-xr-x"

    async def test_init_containers_run_again_in_a_new_sandbox(self) -> None:
        async with a_node(timing=slow_readmission(0.4)) as node:
            async with ScriptedPlugin(node.plugin_dir):
                await node.wait_registered(RESOURCE)
                one = await node.start(pod("one", init(), app()))
            old = one.sandboxes[-1]
            await node.reboot()
            async with ScriptedPlugin(node.plugin_dir) as after:
                await node.until(lambda: one.container("a").running)
                await node.run(one)

                assert names(after) == ["PreStartContainer", "PreStartContainer"]
                sandboxes = [thing.id for thing in node.runtime.objects if thing.kind is ObjectKind.SANDBOX]
                assert sandboxes == one.sandboxes
                assert old not in sandboxes


class TestCheckpoint:
    @pytest.mark.usefixtures("plugin")
    async def test_it_has_the_real_ones_form(self, node: EmbeddedNode) -> None:
        """Compared with one that kubelet 1.36 wrote."""
        one = await node.admit(pod("one", init("setup"), app("a", 2)))
        real = json.loads((CAPTURES / "kubelet_internal_checkpoint.containerd.json").read_text())
        ours = document(node)

        assert set(ours) == set(real)
        assert set(ours["Data"]) == set(real["Data"])
        entry = ours["Data"]["PodDeviceEntries"][-1]
        assert set(entry) == set(real["Data"]["PodDeviceEntries"][0])
        assert entry["PodUID"] == one.uid
        assert [len(ids) for ids in entry["DeviceIDs"].values()] == [2]
        assert set(entry["DeviceIDs"]) == {"-1"}
        assert sorted(ours["Data"]["RegisteredDevices"][RESOURCE]) == [f"{RESOURCE}/{index}" for index in range(4)]
        assert stat.S_IMODE(node.checkpoint_path.stat().st_mode) == 0o600

    @pytest.mark.parametrize("name", ["containerd", "docker"])
    def test_a_real_one_is_read_and_written_back_the_same(self, name: str) -> None:
        text = (CAPTURES / f"kubelet_internal_checkpoint.{name}.json").read_text()
        entries, registered = checkpoint.decode(text)
        again, _ = checkpoint.decode(checkpoint.encode(entries, dict.fromkeys(registered, ())))

        assert len(entries) == len(json.loads(text)["Data"]["PodDeviceEntries"])
        assert again == entries
        assert all("MEMIF_SECRET" in entry.answer.envs for entry in entries)

    async def test_each_message_of_a_list_writes_it_anew(self, node: EmbeddedNode, plugin: ScriptedPlugin) -> None:
        before = node.checkpoint_path.stat().st_ino
        plugin.health[f"{RESOURCE}/0"] = "Unhealthy"
        plugin.publish()
        await node.until(lambda: node.resources()[RESOURCE].allocatable == 3)

        assert node.checkpoint_path.stat().st_ino != before
        assert len(document(node)["Data"]["RegisteredDevices"][RESOURCE]) == 3

    @pytest.mark.usefixtures("plugin")
    async def test_a_missing_or_damaged_one_is_no_reason_not_to_start(self, node: EmbeddedNode) -> None:
        one = await node.start(pod())
        await node.stop_kubelet()
        node.checkpoint_path.write_text('{"Data": 3')
        await node.start_kubelet()

        assert node.devices_of(one) == {}
        assert node.resources() == {}

    async def test_the_directory_is_made_again_for_it_but_the_kubelets_socket_is_not(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        shutil.rmtree(node.plugin_dir)
        plugin.publish()
        await node.until(node.checkpoint_path.exists)

        assert not node.kubelet_socket.exists()

    async def test_a_dead_pods_entries_stay_in_the_file_until_a_list_and_then_a_device_list(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        """Either of the two alone changes nothing."""
        one = await node.start(pod())
        await node.delete(one)
        await self._publish(node, plugin)
        assert uids(node) == [one.uid]
        async with lister(node) as stub:
            await stub.List(ListPodResourcesRequest())
        assert uids(node) == [one.uid]
        await self._publish(node, plugin)

        assert uids(node) == []

    async def test_a_dead_pods_entries_survive_a_restart_and_are_replayed(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        first = await node.start(pod("p1", static=True))
        await node.delete(first)
        await plugin.stop()
        await node.restart_kubelet()
        async with ScriptedPlugin(node.plugin_dir) as back:
            await node.wait_registered(RESOURCE)
            await node.wait_ready()
            again = await node.start(pod("p1", static=True))

            assert names(back) == ["PreStartContainer"]
            assert again.container("a").env == {"NUMBER": "1"}

    async def test_a_lost_file_is_written_again_complete_by_a_device_list(
        self, node: EmbeddedNode, plugin: ScriptedPlugin
    ) -> None:
        one = await node.start(pod())
        node.checkpoint_path.unlink()
        await self._publish(node, plugin)

        assert uids(node) == [one.uid]

    @pytest.mark.usefixtures("plugin")
    async def test_an_empty_one_names_no_pods(self, node: EmbeddedNode) -> None:
        """Go writes an empty list that was never touched as ``null``."""
        assert document(node)["Data"]["PodDeviceEntries"] is None

    @staticmethod
    async def _publish(node: EmbeddedNode, plugin: ScriptedPlugin) -> None:
        """Send the list again and wait until the kubelet has it."""
        before = sum(call.what == "list" for call in node.calls)
        plugin.publish()
        await node.until(lambda: sum(call.what == "list" for call in node.calls) > before)


def test_text_that_is_no_checkpoint_is_told_apart() -> None:
    for text in ("", "[]", "{}", '{"Data": {"PodDeviceEntries": [{"PodUID": 1}], "RegisteredDevices": {}}}'):
        with pytest.raises(ValueError, match=r".+"):
            checkpoint.decode(text)
