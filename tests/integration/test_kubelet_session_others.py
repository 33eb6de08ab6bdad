"""Others in the plugin directory: dead processes of ours, living ones, and an old agent."""
# ruff: noqa: ASYNC240 -- nobody waits while a test looks at the disk

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from adapters.memory.node import EmbeddedNode
from adapters.memory.node.front import leave_stale_socket
from tests.integration.kubelet import RESOURCE, ScriptedKubelet, a_directory, a_side
from tests.integration.nodes import a_node

BASE_NAME = "contiv-vpp.sock"
OF_OUR_PATTERN = "contiv-vpp.abcdefgh-0.sock"


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


@contextmanager
def living(path: Path) -> Iterator[None]:
    """Somebody who listens, and takes his socket with him when he goes."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield
    path.unlink(missing_ok=True)


class TestDeadOnes:
    async def test_what_dead_processes_of_ours_left_is_cleared_away_and_told(
        self, directory: Path, kubelet: ScriptedKubelet
    ) -> None:
        names = [OF_OUR_PATTERN, "contiv-vpp.zzzzzzzz-3.sock"]
        for name in names:
            leave_stale_socket(directory / name)
        async with a_side(directory) as side:
            await side.watched()

            assert side.sockets() == [side.endpoint]
            assert [facts["socket"] for facts in side.told.noted("the socket of a dead process was removed")] == names
        assert len(kubelet.requests) == 1

    async def test_everything_else_stays_as_it_was(self, directory: Path, kubelet: ScriptedKubelet) -> None:
        leave_stale_socket(directory / BASE_NAME)
        leave_stale_socket(directory / "nvidia-gpu.sock")
        (directory / OF_OUR_PATTERN).write_text("a file", encoding="utf-8")
        (directory / "contiv-vpp.abcdefgh-1.sock").mkdir()
        (directory / "kubelet_internal_checkpoint").write_text("{}", encoding="utf-8")
        with living(directory / "intel-qat.sock"):
            before = {each.name: each.lstat().st_ino for each in directory.iterdir()}
            async with a_side(directory) as side:
                await side.watched()
            after = {each.name: each.lstat().st_ino for each in directory.iterdir()}

        assert after == before
        assert kubelet.requests

    async def test_one_that_cannot_be_removed_is_told_and_stops_nobody(
        self, directory: Path, kubelet: ScriptedKubelet, mocker: MockerFixture
    ) -> None:
        leave_stale_socket(directory / OF_OUR_PATTERN)
        mocker.patch("os.unlink", side_effect=PermissionError(13, "Permission denied"))
        async with a_side(directory) as side:
            await side.watched()
            mocker.stopall()

            ((event, facts),) = side.told.warnings
            assert event == "the socket of a dead process cannot be removed"
            assert facts["socket"] == OF_OUR_PATTERN
        assert (directory / OF_OUR_PATTERN).is_socket()
        assert len(kubelet.requests) == 1


@pytest.mark.parametrize("name", [BASE_NAME, OF_OUR_PATTERN], ids=["an old agent", "another process of ours"])
class TestLivingOnes:
    async def test_as_long_as_one_serves_we_wait_and_say_so_once(
        self, directory: Path, kubelet: ScriptedKubelet, mocker: MockerFixture, name: str
    ) -> None:
        """A second plugin for one resource takes the devices from the first, and in the end both are cut off."""
        with living(directory / name):
            inode = (directory / name).stat().st_ino
            async with a_side(directory) as side:
                await side.until(lambda: bool(side.told.warnings))
                looks = mocker.spy(side.directory, "foreigners")
                await side.until(lambda: looks.call_count >= 2)

                assert side.told.reasons("not registering") == [side.plugins.obstacle]
                assert side.plugins.obstacle == f"another device plugin serves {name} in {directory}"
                assert "--take-over" in str(side.told.warned("not registering")[0]["cure"])
                assert side.sockets() == [each for each in (name,) if each != BASE_NAME]
                assert kubelet.requests == []
            assert (directory / name).stat().st_ino == inode

    async def test_when_it_is_gone_we_go_on(self, directory: Path, kubelet: ScriptedKubelet, name: str) -> None:
        with ExitStack() as others:
            others.enter_context(living(directory / name))
            async with a_side(directory) as side:
                await side.until(lambda: bool(side.told.warnings))
                others.close()
                await side.watched()

                assert side.plugins.obstacle is None
                assert len(side.told.warnings) == 1
        assert len(kubelet.requests) == 1

    async def test_when_it_dies_and_leaves_its_socket_we_go_on(
        self, directory: Path, kubelet: ScriptedKubelet, name: str
    ) -> None:
        with ExitStack() as others:
            listener = others.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(directory / name))
            listener.listen()
            async with a_side(directory) as side:
                await side.until(lambda: bool(side.told.warnings))
                others.close()
                await side.watched()

        assert len(kubelet.requests) == 1

    async def test_with_take_over_it_is_overridden_told_and_left_alone(
        self, directory: Path, kubelet: ScriptedKubelet, name: str
    ) -> None:
        with living(directory / name):
            inode = (directory / name).stat().st_ino
            async with a_side(directory, take_over=True) as side:
                await side.watched()

                assert side.told.warned("other device plugins are overridden") == [{"sockets": [name]}]
                assert side.plugins.obstacle is None
            assert (directory / name).stat().st_ino == inode
        assert len(kubelet.requests) == 1


async def test_another_set_of_others_is_told_anew(directory: Path, kubelet: ScriptedKubelet) -> None:
    with ExitStack() as others, living(directory / BASE_NAME):
        others.enter_context(living(directory / OF_OUR_PATTERN))
        async with a_side(directory) as side:
            await side.until(lambda: bool(side.told.warnings))
            others.close()
            await side.until(lambda: len(side.told.warnings) == 2)

            assert side.told.reasons("not registering") == [
                f"another device plugin serves {OF_OUR_PATTERN}, {BASE_NAME} in {directory}",
                f"another device plugin serves {BASE_NAME} in {directory}",
            ]
    assert kubelet.requests == []


async def test_with_take_over_and_nobody_there_nothing_is_told(directory: Path, kubelet: ScriptedKubelet) -> None:
    async with a_side(directory, take_over=True) as side:
        await side.watched()

        assert side.told.warnings == []
    assert len(kubelet.requests) == 1


class TestTwoProcesses:
    """One configuration, one directory; gRPC takes over a living socket silently, and unlinks by name when it stops."""

    async def test_a_second_one_waits_and_the_first_is_not_disturbed(
        self, node: EmbeddedNode, mocker: MockerFixture
    ) -> None:
        async with a_side(node.plugin_dir) as first:
            await first.watched()
            before = first.status()
            async with a_side(node.plugin_dir) as second:
                await second.until(lambda: bool(second.told.warnings))
                looks = mocker.spy(second.directory, "foreigners")
                await second.until(lambda: looks.call_count >= 2)

                assert first.endpoint in str(second.plugins.obstacle)
                assert first.status() == before
                assert [call.rpc for call in node.calls].count("Register") == 1
                assert node.registered(RESOURCE)

    async def test_the_second_one_takes_over_when_the_first_is_stopped(self, node: EmbeddedNode) -> None:
        async with a_side(node.plugin_dir) as first:
            await first.watched()
            async with a_side(node.plugin_dir) as second:
                await second.until(lambda: bool(second.told.warnings))
                await first.stop()
                await second.watched()
                await node.wait_registered(RESOURCE)

                assert second.sockets() == [second.endpoint]

    async def test_the_end_of_the_first_one_takes_nothing_from_a_second_that_took_over(
        self, node: EmbeddedNode
    ) -> None:
        """The kubelet tears the newer stream down when the older ends, so it is registered once more."""
        async with a_side(node.plugin_dir) as first:
            await first.watched()
            async with a_side(node.plugin_dir, take_over=True) as second:
                await second.watched()
                await node.until(lambda: node.streams(RESOURCE) == 2)
                await first.stop()
                await second.watched(2)
                await node.wait_registered(RESOURCE)

                assert second.sockets() == [second.endpoint]
                assert node.streams(RESOURCE) == 1
