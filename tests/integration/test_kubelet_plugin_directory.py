"""The kubelet's plugin directory on disk: whose sockets lie there, and who answers on them."""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from adapters.kubelet.directory import PluginDirectory, reply
from domain.reply import Reply
from tests.integration.kubelet import a_directory

OURS = "contiv-vpp.abcdefgh-0.sock"


class Sockets:
    """Sockets of all kinds in one directory."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path = path
        self._stack = stack

    def alive(self, name: str) -> None:
        listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(self.path / name))
        listener.listen()

    def dead(self, name: str) -> None:
        with socket.socket(socket.AF_UNIX) as gone:
            gone.bind(str(self.path / name))

    def busy(self, name: str) -> None:
        """Somebody listens and has not accepted for so long that the queue is full."""
        listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(self.path / name))
        listener.listen(0)
        for _ in range(3):
            waiting = self._stack.enter_context(
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            )
            waiting.connect_ex(str(self.path / name))


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    with a_directory() as path, ExitStack() as stack:
        yield Sockets(path, stack)


@pytest.fixture
def directory(sockets: Sockets) -> PluginDirectory:
    return PluginDirectory(path=str(sockets.path), kubelet_socket="kubelet.sock", endpoint="contiv-vpp.sock")


class TestReply:
    def test_somebody_listens(self, sockets: Sockets) -> None:
        sockets.alive("a.sock")

        assert reply(str(sockets.path / "a.sock")) is Reply.ANSWERS

    def test_somebody_listens_and_is_busy(self, sockets: Sockets) -> None:
        sockets.busy("a.sock")

        assert reply(str(sockets.path / "a.sock")) is Reply.ANSWERS

    def test_nobody_listens_any_more(self, sockets: Sockets) -> None:
        sockets.dead("a.sock")

        assert reply(str(sockets.path / "a.sock")) is Reply.REFUSES

    def test_there_is_nothing(self, sockets: Sockets) -> None:
        assert reply(str(sockets.path / "a.sock")) is Reply.ABSENT

    def test_there_is_no_directory(self) -> None:
        assert reply("/nowhere/a.sock") is Reply.ABSENT

    def test_a_regular_file_refuses(self, sockets: Sockets) -> None:
        (sockets.path / "a.sock").touch()

        assert reply(str(sockets.path / "a.sock")) is Reply.REFUSES

    @pytest.mark.parametrize("error", ["EACCES", "EPERM"])
    def test_permission_is_denied(self, mocker: MockerFixture, error: str) -> None:
        mocker.patch("socket.socket.connect_ex", return_value=getattr(__import__("errno"), error))

        assert reply("/d/a.sock") is Reply.DENIED


class TestKubelet:
    def test_without_its_socket_there_is_no_kubelet(self, directory: PluginDirectory) -> None:
        assert directory.kubelet() is None
        assert directory.kubelet_reply() is Reply.ABSENT

    def test_one_incarnation_stays_the_same(self, sockets: Sockets, directory: PluginDirectory) -> None:
        sockets.alive("kubelet.sock")

        assert directory.kubelet() == directory.kubelet()
        assert directory.kubelet_reply() is Reply.ANSWERS

    def test_a_new_socket_is_a_new_incarnation_although_it_has_the_old_ones_inode(
        self, sockets: Sockets, directory: PluginDirectory, mocker: MockerFixture
    ) -> None:
        """File systems give a freed number to the next file at once."""
        sockets.dead("kubelet.sock")
        before = directory.kubelet()
        old = os.stat(directory.kubelet_path)  # noqa: PTH116 -- it is patched below
        later = mocker.Mock(st_dev=old.st_dev, st_ino=old.st_ino, st_ctime_ns=old.st_ctime_ns + 1)
        mocker.patch("os.stat", return_value=later)

        assert directory.kubelet() != before

    def test_a_stale_socket_is_an_incarnation_that_refuses(self, sockets: Sockets, directory: PluginDirectory) -> None:
        sockets.dead("kubelet.sock")

        assert directory.kubelet() is not None
        assert directory.kubelet_reply() is Reply.REFUSES


class TestLeftovers:
    def test_dead_sockets_of_our_pattern_are_leftovers(self, sockets: Sockets, directory: PluginDirectory) -> None:
        for name in (OURS, "contiv-vpp.zzzzzz77-12.sock"):
            sockets.dead(name)

        assert directory.leftovers() == (OURS, "contiv-vpp.zzzzzz77-12.sock")

    @pytest.mark.parametrize(
        "name",
        [
            "contiv-vpp.sock",
            "kubelet.sock",
            "nvidia-gpu.sock",
            "contiv-vpp.abcdefg-0.sock",
            "contiv-vpp.abcdefghi-0.sock",
            "contiv-vpp.abcdefg1-0.sock",
            "contiv-vpp.ABCDEFGH-0.sock",
            "contiv-vpp.abcdefgh-.sock",
            "contiv-vpp.abcdefgh-0.sock.old",
            "contiv-vpp_abcdefgh-0.sock",
            "xcontiv-vpp.abcdefgh-0.sock",
        ],
    )
    def test_a_dead_socket_of_another_name_is_none_of_our_business(
        self, sockets: Sockets, directory: PluginDirectory, name: str
    ) -> None:
        sockets.dead(name)

        assert directory.leftovers() == ()

    def test_a_living_socket_of_our_pattern_is_no_leftover(self, sockets: Sockets, directory: PluginDirectory) -> None:
        sockets.alive(OURS)
        sockets.busy("contiv-vpp.abcdefgh-1.sock")

        assert directory.leftovers() == ()

    def test_what_is_no_socket_is_no_leftover_whatever_its_name(
        self, sockets: Sockets, directory: PluginDirectory
    ) -> None:
        sockets.dead("contiv-vpp.sock")
        (sockets.path / OURS).touch()
        (sockets.path / "contiv-vpp.abcdefgh-1.sock").mkdir()
        (sockets.path / "contiv-vpp.abcdefgh-2.sock").symlink_to("contiv-vpp.sock")

        assert directory.leftovers() == ()

    def test_unlinking_one_that_is_gone_already_is_fine(self, sockets: Sockets, directory: PluginDirectory) -> None:
        sockets.dead(OURS)
        directory.unlink(OURS)
        directory.unlink(OURS)

        assert list(sockets.path.iterdir()) == []


class TestForeigners:
    def test_a_living_socket_with_the_base_name_is_an_old_agents(
        self, sockets: Sockets, directory: PluginDirectory
    ) -> None:
        sockets.alive("contiv-vpp.sock")

        assert directory.foreigners() == ("contiv-vpp.sock",)

    def test_a_living_socket_of_our_pattern_is_another_processs(
        self, sockets: Sockets, directory: PluginDirectory
    ) -> None:
        sockets.alive(OURS)
        sockets.busy("contiv-vpp.abcdefgh-1.sock")

        assert directory.foreigners() == (OURS, "contiv-vpp.abcdefgh-1.sock")

    def test_dead_sockets_and_other_plugins_are_no_foreigners(
        self, sockets: Sockets, directory: PluginDirectory
    ) -> None:
        sockets.dead("contiv-vpp.sock")
        sockets.dead(OURS)
        sockets.alive("nvidia-gpu.sock")
        sockets.alive("kubelet.sock")

        assert directory.foreigners() == ()

    def test_a_socket_that_we_may_not_connect_to_is_taken_for_alive(
        self, sockets: Sockets, directory: PluginDirectory, mocker: MockerFixture
    ) -> None:
        sockets.dead(OURS)
        mocker.patch("adapters.kubelet.directory.reply", return_value=Reply.DENIED)

        assert directory.foreigners() == (OURS,)

    def test_a_socket_that_vanishes_under_our_eyes_is_no_foreigner(
        self, sockets: Sockets, directory: PluginDirectory, mocker: MockerFixture
    ) -> None:
        sockets.alive(OURS)
        mocker.patch("adapters.kubelet.directory.reply", return_value=Reply.ABSENT)

        assert directory.foreigners() == ()

    def test_a_file_that_vanishes_under_our_eyes_hides_no_foreigner(
        self, sockets: Sockets, directory: PluginDirectory, mocker: MockerFixture
    ) -> None:
        """The kubelet makes and renames a temporary file at each writing of its record."""
        sockets.alive(OURS)
        gone = mocker.Mock()
        gone.name = ".123456789"
        gone.stat.side_effect = FileNotFoundError
        with os.scandir(sockets.path) as entries:
            found = [gone, *entries, gone]
        scan = mocker.patch("os.scandir")
        scan.return_value.__enter__.return_value = found

        assert directory.foreigners() == (OURS,)

    @pytest.mark.parametrize("error", [FileNotFoundError(2, "missing"), PermissionError(13, "denied")])
    def test_in_a_directory_that_cannot_be_read_there_is_nobody(
        self, directory: PluginDirectory, mocker: MockerFixture, error: OSError
    ) -> None:
        """No socket of ours can be made there either, and that is told with its reason."""
        mocker.patch("os.scandir", side_effect=error)

        assert directory.foreigners() == ()
        assert directory.leftovers() == ()


def test_looking_touches_nothing(sockets: Sockets, directory: PluginDirectory) -> None:
    sockets.alive(OURS)
    sockets.dead("contiv-vpp.abcdefgh-1.sock")
    sockets.dead("kubelet.sock")
    before = {each.name: each.stat().st_ino for each in sockets.path.iterdir()}
    directory.kubelet()
    directory.kubelet_reply()
    directory.leftovers()
    directory.foreigners()
    directory.new_socket(0)

    after = {each.name: each.stat().st_ino for each in sockets.path.iterdir()}
    assert after == before
    assert all(stat.S_ISSOCK(each.stat().st_mode) for each in sockets.path.iterdir())
