"""Reaching a control socket at a path, or being told why not and what to do."""

import asyncio
import errno
import os
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from adapters.memif import dial as module
from adapters.memif.dial import dial, translated
from adapters.memif.errors import (
    AbstractInstead,
    ChannelUnusable,
    LinkInstead,
    NobodyListens,
    NoSocket,
    NotASocket,
    NotPermitted,
    PeerSilent,
    WrongSocketType,
)
from tests.integration.memif import SHORT, bound, left_behind, link, nothing_left, touch, workdir


@pytest.fixture
async def place() -> AsyncIterator[str]:
    """A path for a socket; whatever happens, nothing is left open."""
    with workdir() as directory:
        async with nothing_left():
            yield f"{directory}/memif.sock"


async def reach(path: str, patience: float = 5) -> None:
    """Connect and hang up."""
    (await dial(path, patience=patience)).close()


async def refused(path: str, patience: float = 5) -> ChannelUnusable:
    with pytest.raises(ChannelUnusable) as caught:
        await reach(path, patience)
    assert caught.value.__traceback__ is not None
    return caught.value


class TestReached:
    async def test_a_listening_socket_is_connected_to(self, place: str) -> None:
        with bound(place) as listener:
            await reach(place)
            listener.accept()[0].close()

    async def test_a_relative_path_will_do(self, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(Path(place).parent)
        with bound(place):
            await reach("memif.sock")

    async def test_links_above_the_directory_are_followed(self, place: str) -> None:
        """Such as ``/var/run``, through which every path of ours leads."""
        Path(place).parent.joinpath("real/a").mkdir(parents=True)
        Path(place).parent.joinpath("link").symlink_to("real")
        with bound(f"{Path(place).parent}/real/a/s"):
            await reach(f"{Path(place).parent}/link/a/s")

    async def test_a_path_that_is_too_long_for_an_address_is_reached_all_the_same(
        self, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What others can reach is not the question here."""
        directory = Path(place).parent / ("x" * 120)
        directory.mkdir()
        monkeypatch.chdir(directory)
        with bound("s"):
            await reach(f"{directory}/s")

    async def test_who_is_late_to_accept_is_waited_for(self, place: str) -> None:
        with bound(place, queue=0) as listener, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as first:
            first.connect(place)
            reaching = asyncio.create_task(reach(place))
            await asyncio.sleep(0)
            listener.accept()[0].close()
            await reaching


class TestNothingThere:
    async def test_a_missing_socket_is_not_there_yet_or_an_abstract_one(self, place: str) -> None:
        error = await refused(place)

        assert type(error) is NoSocket
        assert place in str(error)
        assert "socket-abstract=no" in str(error)

    async def test_a_missing_directory_is_no_different(self, place: str) -> None:
        assert type(await refused(f"{place}/no/memif.sock")) is NoSocket

    @pytest.mark.parametrize("padding", [b"", b"\0" * 20])
    async def test_an_abstract_socket_of_that_name_is_noticed(self, place: str, padding: bytes) -> None:
        """DPDK's default; it fills the name with zeros or not, by its version."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(b"\0" + place.encode() + padding)
            listener.listen()
            error = await refused(place)

        assert type(error) is AbstractInstead
        assert "socket-abstract=no" in str(error)

    async def test_an_abstract_socket_of_another_name_is_not_mistaken_for_it(self, place: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(b"\0" + place.encode() + b"2")

            assert type(await refused(place)) is NoSocket

    async def test_without_the_list_of_sockets_nothing_is_claimed(
        self, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_UNIX_SOCKETS", Path(place))

        assert type(await refused(place)) is NoSocket


class TestNobodyThere:
    async def test_a_socket_that_was_left_behind_is_dead(self, place: str) -> None:
        left_behind(place)

        error = await refused(place)

        assert isinstance(error, NobodyListens)
        assert "start the dataplane" in str(error)

    async def test_a_socket_that_does_not_listen_yet_is_no_different(self, place: str) -> None:
        with bound(place, queue=None):
            assert isinstance(await refused(place), NobodyListens)

    async def test_who_accepts_nobody_is_silent(self, place: str) -> None:
        with bound(place, queue=0), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as first:
            first.connect(place)

            error = await refused(place, SHORT)

        assert isinstance(error, PeerSilent)
        assert "accepted no connection within 0.25 s" in str(error)


class TestSomethingElse:
    @pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
    async def test_a_socket_of_another_type_is_no_dataplane(self, place: str, kind: int) -> None:
        with bound(place, kind, queue=4 if kind == socket.SOCK_STREAM else None):
            error = await refused(place)

        assert isinstance(error, WrongSocketType)
        assert "SEQPACKET" in str(error)

    async def test_a_file_is_no_socket(self, place: str) -> None:
        touch(place)

        assert isinstance(await refused(place), NotASocket)

    async def test_a_pipe_is_no_socket_and_nobody_waits_for_its_writer(self, place: str) -> None:
        os.mkfifo(place)

        assert isinstance(await refused(place), NotASocket)

    @pytest.mark.parametrize("path", ["", "/", "/tmp/", "/tmp/..", ".", "/tmp/a\0b"])
    async def test_a_path_that_names_no_socket_is_refused(self, path: str) -> None:
        error = await refused(path)

        assert isinstance(error, NotASocket)
        assert "/run/vpp/memif.sock" in str(error)

    async def test_a_file_in_the_directorys_place_is_named(self, place: str) -> None:
        touch(place)

        assert isinstance(await refused(f"{place}/memif.sock"), NotASocket)


class TestLinks:
    """A pod may write into the directory of its socket; a probe runs as root on the node."""

    async def test_a_link_in_the_sockets_place_is_not_followed(self, place: str) -> None:
        with bound(f"{place}.victim") as victim:
            link(place, f"{place}.victim")
            error = await refused(place)

            with pytest.raises(BlockingIOError):
                victim.accept()
        assert isinstance(error, LinkInstead)

    async def test_a_link_in_the_directorys_place_is_not_followed(self, place: str) -> None:
        directory = Path(place).parent
        (directory / "real").mkdir()
        (directory / "link").symlink_to("real")
        with bound(f"{directory}/real/s"):
            error = await refused(f"{directory}/link/s")

        assert isinstance(error, LinkInstead)
        assert "'real'" in str(error)

    async def test_a_link_that_comes_at_the_last_moment_leads_nowhere(
        self, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connect = module._connected

        async def exchange(opened: int, path: str, patience: float) -> socket.socket:
            os.replace(place, f"{place}.away")  # noqa: PTH105 -- the other form is not for asynchronous code
            link(place, f"{place}.victim")
            return await connect(opened, path, patience)

        monkeypatch.setattr(module, "_connected", exchange)
        with bound(place) as looked_at, bound(f"{place}.victim") as victim:
            await reach(place)

            looked_at.accept()[0].close()
            with pytest.raises(BlockingIOError):
                victim.accept()

    async def test_a_loop_of_links_is_named(self, place: str) -> None:
        link(place, place)

        assert isinstance(await refused(f"{place}/a/memif.sock"), LinkInstead)


class TestErrorsOfTheSystem:
    @pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
    async def test_a_missing_right_names_the_socket_and_selinux(
        self, place: str, mocker: MockerFixture, number: int
    ) -> None:
        with bound(place):
            mocker.patch.object(socket.socket, "connect", side_effect=OSError(number, os.strerror(number)))
            error = await refused(place)

        assert isinstance(error, NotPermitted)
        assert "write permission" in str(error)
        assert "SELinux" in str(error)

    @pytest.mark.parametrize("number", sorted(errno.errorcode))
    def test_every_error_is_translated_with_the_path_and_something_to_do(self, number: int) -> None:
        error = translated(OSError(number, os.strerror(number)), "/run/{vpp}/memif.sock")

        assert "/run/{vpp}/memif.sock" in str(error)
        assert re.search(r"; |: ", str(error))

    async def test_an_error_that_nobody_expects_is_told_as_it_is(self, place: str, mocker: MockerFixture) -> None:
        with bound(place):
            mocker.patch.object(socket.socket, "connect", side_effect=OSError(errno.ENOMEM, "x"))
            error = await refused(place)

        assert type(error) is ChannelUnusable
        assert "Cannot allocate memory" in str(error)
        assert isinstance(error.__cause__, OSError)
