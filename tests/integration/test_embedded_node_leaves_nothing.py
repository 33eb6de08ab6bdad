"""The embedded node leaves nothing behind, and its levers say when they cannot be pulled."""

import asyncio
from pathlib import Path

import pytest

from adapters.memory.node import EmbeddedNode
from tests.integration.nodes import a_node, lister, pod
from tests.integration.plugin import RESOURCE, ScriptedPlugin


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def _one_round(node: EmbeddedNode) -> None:
    await node.restart_kubelet()
    async with ScriptedPlugin(node.plugin_dir):
        await node.wait_registered(RESOURCE)
        await node.wait_ready()
        one = await node.start(pod())
        await node.delete(one)


async def test_restarts_of_the_kubelet_leak_no_task_and_no_descriptor() -> None:
    async with a_node() as node:
        await _one_round(node)
        tasks, files = len(asyncio.all_tasks()), descriptors()
        for _ in range(8):
            await _one_round(node)

        # gRPC ends some of its own a little later; one leaked in each round would be eight.
        assert len(asyncio.all_tasks()) <= tasks + 4
        assert descriptors() <= files + 4


async def test_a_stopped_node_has_no_task_left_even_in_the_middle_of_everything() -> None:
    before = asyncio.all_tasks()
    async with a_node() as node, ScriptedPlugin(node.plugin_dir) as plugin, lister(node):
        await node.wait_registered(RESOURCE)
        plugin.hold.clear()
        admitting = asyncio.create_task(node.admit(pod()))
        await plugin.entered.wait()
        await plugin.register()
        await node.stop_kubelet()
        await admitting
        plugin.hold.set()
    left = asyncio.all_tasks() - before
    if left:
        _, left = await asyncio.wait(left, timeout=5)  # gRPC ends some of its own a little later

    assert left == set()


async def test_only_the_nodes_own_directories_and_the_stale_sockets_are_left() -> None:
    async with a_node(start=False) as node:
        await node.start_kubelet()
        await node.stop_kubelet()
        root = node.plugin_dir.parent

        assert {str(path.relative_to(root)) for path in root.rglob("*")} == {
            "device-plugins",
            "device-plugins/kubelet.sock",
            "pod-resources",
            "pod-resources/kubelet.sock",
        }


async def test_a_second_kubelet_is_refused_and_stopping_none_is_not() -> None:
    async with a_node() as node:
        with pytest.raises(RuntimeError, match="runs already"):
            await node.start_kubelet()
        await node.stop_kubelet()
        await node.stop_kubelet()

        with pytest.raises(RuntimeError, match="does not run"):
            _ = node.kubelet


async def test_a_pod_that_comes_while_no_kubelet_runs_waits_for_the_next() -> None:
    async with a_node(start=False) as node:
        one = await node.admit(pod())
        await node.run(one)
        assert not one.admitted
        await node.start_kubelet()
        await node.until(lambda: one.container("a").running)

        assert one.admitted


async def test_the_same_seed_makes_the_same_choices() -> None:
    async def draw(seed: int) -> list[object]:
        async with a_node(seed=seed) as node, ScriptedPlugin(node.plugin_dir, count=50) as plugin:
            await node.wait_registered(RESOURCE)
            one = await node.admit(pod())
            return [one.uid, *plugin.calls]

    assert await draw(1) == await draw(1)
    assert await draw(1) != await draw(2)
