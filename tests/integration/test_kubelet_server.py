"""The plugin's socket and the server behind it."""
# ruff: noqa: ASYNC240 -- nobody waits while a test looks at the disk

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import pytest
from grpc import aio
from pytest_mock import MockerFixture

from adapters.kubelet.server import NoSocket, PluginServer, selinux_hint, serving
from tests.integration.kubelet import Core, Told, Watcher, a_directory, things, until


def serve(path: Path) -> AbstractAsyncContextManager[PluginServer]:
    return serving(path=str(path), plugin=Core(), reports=Told(), changed=lambda: None, interval=0.0)


@pytest.fixture
def directory() -> Iterator[Path]:
    with a_directory() as made:
        yield made


@pytest.fixture
def path(directory: Path) -> Path:
    return directory / "p.sock"


@pytest.fixture
async def server(path: Path) -> AsyncIterator[PluginServer]:
    async with serve(path) as made:
        yield made


async def test_nobody_but_its_owner_may_connect(server: PluginServer, path: Path) -> None:
    assert server.path == str(path)
    assert path.stat().st_mode & 0o777 == 0o600


async def test_what_is_registered_is_the_bare_name(server: PluginServer) -> None:
    """The kubelet joins it to its own directory."""
    assert server.endpoint == "p.sock"


async def test_it_is_gone_when_the_server_is(path: Path, directory: Path) -> None:
    async with serve(path):
        assert [each.name for each in directory.iterdir()] == ["p.sock"]

    assert list(directory.iterdir()) == []


async def test_who_is_told_to_end_while_the_server_stops_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stop may lose a cancellation: here it always does."""
    kind = type(aio.server())
    stop, stopping = kind.stop, asyncio.Event()

    async def deaf(server: aio.Server, grace: float | None) -> None:
        await stop(server, grace)
        stopping.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)

    async def serve_for_ever() -> None:
        while True:
            with suppress(RuntimeError):
                async with serve(path):
                    raise RuntimeError("the session ends by itself")

    monkeypatch.setattr(kind, "stop", deaf)
    task = asyncio.create_task(serve_for_ever())
    await stopping.wait()
    task.cancel()
    await asyncio.wait((task,), timeout=10)

    assert task.cancelled()


@pytest.mark.parametrize("turns", range(6))
async def test_who_is_told_to_end_while_the_server_starts_ends(path: Path, turns: int) -> None:
    """In whichever turn of the event loop that is; afterwards the path serves another."""

    async def serve_for_ever() -> None:
        async with serve(path):
            await asyncio.Event().wait()

    task = asyncio.create_task(serve_for_ever())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,), timeout=10)
    async with serve(path) as another:
        assert not another.lost

    assert task.cancelled()


async def test_one_that_was_removed_is_lost_although_it_is_still_served(server: PluginServer, path: Path) -> None:
    assert not server.lost
    path.unlink()

    assert server.lost


async def test_one_that_was_replaced_is_lost_too(server: PluginServer, path: Path) -> None:
    path.rename(path.with_name("away"))
    path.touch()

    assert server.lost


async def test_without_its_directory_it_cannot_be_made_and_that_is_said(directory: Path) -> None:
    missing = directory / "missing"

    with pytest.raises(NoSocket, match=f"there is no directory {missing}; the kubelet makes it"):
        async with serve(missing / "p.sock"):
            pytest.fail("it serves")


async def test_a_path_that_is_too_long_for_a_socket_is_said_to_be(directory: Path) -> None:
    path = directory / ("x" * 108)

    with pytest.raises(NoSocket, match=f"a path of {len(str(path))} bytes is too long"):
        async with serve(path):
            pytest.fail("it serves")


async def test_the_same_trouble_has_the_same_words_whatever_the_sockets_name(directory: Path) -> None:
    """A session's socket has another name each time, and its trouble is told once."""
    deep = directory / ("x" * 100)
    deep.mkdir()
    told = set()
    for trouble in (deep / "a.sock", deep / "b.sock"):
        with pytest.raises(NoSocket) as caught:
            async with serve(trouble):
                pytest.fail("it serves")
        told.add(str(caught.value))

    assert len(told) == 1


async def test_a_directory_with_an_odd_name_is_no_obstacle(directory: Path) -> None:
    """gRPC takes a path for a URI, in which some characters mean something else."""
    odd = directory / "a b#c%41?d"
    odd.mkdir()
    async with serve(odd / "p.sock") as server:
        assert (odd / "p.sock").is_socket()
        assert not server.lost

    assert list(odd.iterdir()) == []


async def test_the_mask_for_new_files_is_as_it_was(server: PluginServer, directory: Path) -> None:
    """Other threads make directories for pods, with modes that count."""
    assert server.endpoint
    file = directory / "file"
    file.touch()

    assert file.stat().st_mode & 0o777 != 0o600


async def test_a_server_that_comes_and_goes_leaves_nothing(path: Path) -> None:
    async def live() -> None:
        async with serve(path):
            kubelet = Watcher(str(path))
            kubelet.watch()
            await until(lambda: bool(kubelet.lists))
            await kubelet.close()

    await live()
    before = things()
    for _ in range(10):
        await live()

    await until(lambda: things().within(before))


async def test_a_server_that_cannot_be_made_leaves_nothing(directory: Path) -> None:
    async def fail() -> None:
        with pytest.raises(NoSocket):
            async with serve(directory / "missing" / "p.sock"):
                pytest.fail("it serves")

    await fail()
    before = things()
    for _ in range(50):
        await fail()

    await until(lambda: things().within(before))


def test_where_there_is_selinux_whoever_is_denied_is_told_where_else_to_look(mocker: MockerFixture) -> None:
    mocker.patch("os.path.isdir", side_effect=lambda path: path == "/sys/fs/selinux")

    assert "container_device_plugin_t" in selinux_hint()


def test_elsewhere_selinux_is_not_spoken_of(mocker: MockerFixture) -> None:
    mocker.patch("os.path.isdir", return_value=False)

    assert not selinux_hint()
