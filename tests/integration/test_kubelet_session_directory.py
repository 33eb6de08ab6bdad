"""A plugin directory that is missing, goes, or cannot be used."""

import asyncio
import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from adapters.memory.node.front import leave_stale_socket
from tests.integration.kubelet import NEVER, QUICK, RESOURCE, ScriptedKubelet, a_directory, a_side, things, until
from tests.integration.nodes import a_node

ROOT = Path(__file__).parents[2]

PATIENT = replace(QUICK, shortest_pause=NEVER, longest_pause=NEVER)
"""Times with which only a new kubelet brings the next attempt."""


@pytest.mark.parametrize("inotify", [True, False], ids=["inotify", "polling"])
class TestDirectory:
    async def test_missing_it_is_waited_for_until_the_kubelet_makes_it(self, *, inotify: bool) -> None:
        async with a_node(start=False) as node:
            async with a_side(node.plugin_dir, times=PATIENT, inotify=inotify) as side:
                await side.until(lambda: bool(side.told.warnings))
                assert f"there is no directory {node.plugin_dir}" in side.told.reasons()[0]
                await node.start_kubelet()
                await side.watched()

            assert len(side.told.warnings) <= 2

    async def test_made_before_the_kubelets_socket_it_is_used_as_soon_as_that_is_there(self, *, inotify: bool) -> None:
        async with a_node(start=False) as node, a_side(node.plugin_dir, inotify=inotify) as side:
            await side.until(lambda: bool(side.told.warnings))
            node.plugin_dir.mkdir()
            await side.until(lambda: len(side.sockets()) == 1)
            await node.start_kubelet()
            await side.watched()

    async def test_removed_while_it_runs_it_is_used_again_after_the_next_start_of_the_kubelet(
        self, *, inotify: bool
    ) -> None:
        """A living kubelet makes at most the directory again, for its record, and never its socket."""
        async with a_node() as node, a_side(node.plugin_dir, inotify=inotify) as side:
            for times in range(1, 4):
                await side.watched(times)
                await node.wait_registered(RESOURCE)
                shutil.rmtree(node.plugin_dir)
                await side.until(lambda: f"no directory {node.plugin_dir}" in str(side.status().reason))
                await node.restart_kubelet()
            await side.watched(4)
            await node.wait_registered(RESOURCE)

            await node.restart_kubelet()
            await side.watched(5)

    async def test_made_anew_at_once_it_is_used_as_soon_as_a_kubelet_is_there(self, *, inotify: bool) -> None:
        async with a_node() as node, a_side(node.plugin_dir, inotify=inotify) as side:
            await side.watched()
            shutil.rmtree(node.plugin_dir)
            node.plugin_dir.mkdir()
            await side.until(lambda: len(side.sockets()) == 1 and not side.status().watched)
            await node.restart_kubelet()
            await side.watched(2)

    async def test_replaced_by_another_it_is_used_as_soon_as_a_kubelet_is_there(self, *, inotify: bool) -> None:
        async with a_node() as node, a_side(node.plugin_dir, inotify=inotify) as side:
            await side.watched()
            away = node.plugin_dir.rename(node.plugin_dir.with_name("away"))
            node.plugin_dir.mkdir()
            await side.until(lambda: len(side.sockets()) == 1 and not side.status().watched)
            await node.restart_kubelet()
            await side.watched(2)

            assert away.is_dir()


async def test_a_directory_that_stays_missing_costs_nothing_but_the_trying(mocker: MockerFixture) -> None:
    with a_directory() as directory:
        async with a_side(directory / "missing", times=replace(QUICK, longest_pause=0.01)) as side:
            attempts = mocker.spy(side.directory, "new_socket")
            await side.until(lambda: attempts.call_count > 5)
            before = things()
            await side.until(lambda: attempts.call_count > 100)
            await until(lambda: things().within(before))

            assert len(side.told.warnings) == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
async def test_without_inotify_everything_works_and_one_warning_is_given(mocker: MockerFixture, number: int) -> None:
    mocker.patch("adapters.kubelet.watch.Inotify", side_effect=OSError(number, "no inotify"))
    async with a_node() as node, a_side(node.plugin_dir) as side:
        for times in range(1, 6):
            await side.watched(times)
            await node.wait_registered(RESOURCE)
            await node.restart_kubelet()
        await side.watched(6)

        assert [facts["reason"] for _, facts in side.told.warnings] == ["no inotify"]


async def test_a_directory_behind_a_symlink_is_as_good_as_any() -> None:
    """Distributions move the kubelet's root and leave a link behind."""
    async with a_node() as node:
        link = node.plugin_dir.with_name("link")
        link.symlink_to(node.plugin_dir, target_is_directory=True)
        async with a_side(link) as side:
            await side.watched()
            await node.restart_kubelet()
            await side.watched(2)

            assert side.told.warnings == []


# -- permissions -------------------------------------------------------------------------------------------------

AS_NOBODY = """
import asyncio, json, os, sys
from pathlib import Path
from adapters.kubelet.pod_resources import KubeletPodResources
from domain.ports.kubelet import KubeletUnavailable
from tests.integration.kubelet import a_side

async def main(path, warnings):
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    if warnings == "0":
        try:
            await KubeletPodResources(path=path).pods()
        except KubeletUnavailable as error:
            print(json.dumps([["pod-resources", {"reason": str(error)}]]))
        return
    async with a_side(Path(path)) as side:
        await side.until(lambda: len(side.told.warnings) >= int(warnings))
        print(json.dumps(side.told.warnings))

asyncio.run(main(*sys.argv[1:]))
"""


async def _told_as_nobody(path: Path, warnings: int) -> list[tuple[str, dict[str, str]]]:
    """Run a plugin that is not root until it has warned so many times; with none, ask pod-resources."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", AS_NOBODY, str(path), str(warnings), cwd=ROOT, stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    told: list[tuple[str, dict[str, str]]] = [(event, facts) for event, facts in json.loads(output)]
    return told


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody without permission")
class TestPermissions:
    """Each of four things that may be forbidden has words of its own."""

    async def test_to_remove_and_to_make_a_socket(self) -> None:
        with a_directory() as directory:
            directory.chmod(0o755)
            leave_stale_socket(directory / "contiv-vpp.abcdefgh-0.sock")
            (directory / "contiv-vpp.abcdefgh-0.sock").chmod(0o777)
            (unlink, unlink_facts), (_, bind_facts) = await _told_as_nobody(directory, 2)

            assert unlink == "the socket of a dead process cannot be removed"
            assert unlink_facts["socket"] == "contiv-vpp.abcdefgh-0.sock"
            assert unlink_facts["reason"] == "Permission denied"
            assert "run as root" in unlink_facts["cure"]
            assert f"no permission to write in {directory}; run as root" in bind_facts["reason"]

    async def test_to_connect_to_the_kubelet(self) -> None:
        with a_directory() as directory:
            directory.chmod(0o777)
            async with ScriptedKubelet(directory):
                (directory / "kubelet.sock").chmod(0o700)
                ((_, facts),) = await _told_as_nobody(directory, 1)

            assert facts["reason"].startswith(f"no permission to connect to {directory}/kubelet.sock; run as root")

    async def test_to_connect_to_pod_resources(self) -> None:
        async with a_node() as node:
            node.plugin_dir.parent.chmod(0o755)
            node.pod_resources_socket.parent.chmod(0o755)
            node.pod_resources_socket.chmod(0o700)
            ((_, facts),) = await _told_as_nobody(node.pod_resources_socket, 0)

            assert f"pod-resources service at {node.pod_resources_socket} does not answer" in facts["reason"]
            assert "Permission denied; run as root" in facts["reason"]
