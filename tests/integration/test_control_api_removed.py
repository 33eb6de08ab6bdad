"""The control sockets when somebody removes their files while the daemon runs."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from grpc import aio

from adapters._pb.memif.v1 import memif_pb2
from adapters.control.server import ControlServer
from adapters.control.sockets import Place
from app.settings import ControlSettings
from domain.resource import ResourceName
from tests.integration.control import client, types
from tests.integration.daemon import RESOURCE, House, Stand, a_stand

AGAIN = "a control socket was gone and was made again"
NOT_YET = "a control socket is gone and cannot be made again yet"


class Served:
    """A daemon with both sockets in a directory of their own, which looks after them at every opportunity."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.place = stand.root / "run"
        self.sockets = self.place / "control.sock", self.place / "agent.sock"
        control, agent = map(str, self.sockets)
        settings = stand.settings().model_copy(
            update={"control": ControlSettings(socket=control, agent_socket=agent)},
        )
        self.house: House = stand.begin(settings)
        self.house.container.control.add_kwargs(look=0.01)

    async def made_again(self, times: int = 1) -> None:
        """Wait until sockets were made again so many times."""
        await self.house.until(lambda: self.house.heard.warned.count(AGAIN) >= times)

    async def answers(self, path: Path) -> str:
        """Ask for the status through a socket, and return the name of the process."""
        async with client(path) as stub:
            return (await stub.GetStatus(memif_pb2.GetStatusRequest())).instance


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with a_stand() as stand:
        made = Served(stand)
        await made.house.heard_of("registered with the kubelet")
        await made.house.until(lambda: all(path.is_socket() for path in made.sockets))
        yield made


@pytest.mark.parametrize("number", [0, 1], ids=["control", "agent"])
async def test_one_that_is_removed_is_there_again_and_the_other_stays(served: Served, number: int) -> None:
    removed, other = served.sockets[number], served.sockets[1 - number]
    before = other.stat().st_ino
    mode = removed.stat().st_mode
    removed.unlink()
    await served.made_again()

    assert await served.answers(removed) == await served.answers(other) == "one"
    assert removed.stat().st_mode == mode
    assert other.stat().st_ino == before
    facts = served.house.heard.facts(AGAIN)
    assert facts["socket"] == str(removed)


async def test_so_is_their_directory(served: Served) -> None:
    shutil.rmtree(served.place)
    await served.made_again(2)

    assert [await served.answers(path) for path in served.sockets] == ["one", "one"]


async def test_a_watcher_is_told_to_connect_again_and_misses_nothing(served: Served) -> None:
    async with client(served.sockets[0]) as stub:
        call = stub.Watch(memif_pb2.WatchRequest())
        synced = await call.read()
        assert isinstance(synced, memif_pb2.WatchResponse)
        served.sockets[0].unlink()
        await served.made_again()
        await served.house.container.allocate()(
            served.house.container.state().pools[ResourceName(RESOURCE)], [[f"{RESOURCE}/0"]]
        )
        with pytest.raises(aio.AioRpcError) as ended:
            await call.read()
    assert ended.value.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    async with client(served.sockets[0]) as stub:
        call = stub.Watch(memif_pb2.WatchRequest(since_seq=synced.seq, instance=synced.instance))
        missed = await call.read()

    assert isinstance(missed, memif_pb2.WatchResponse)
    assert types([missed]) == ["ALLOCATED"]


async def test_what_stands_in_its_place_is_left_alone_and_told_until_it_is_gone(served: Served) -> None:
    path = served.sockets[0]
    path.unlink()
    path.write_text("something", encoding="utf-8")
    await served.house.until(lambda: NOT_YET in served.house.heard.warned)
    assert path.read_text(encoding="utf-8") == "something"
    path.unlink()
    await served.made_again()

    assert await served.answers(path) == "one"


async def test_the_daemon_stops_as_ever_while_it_cannot_be_made(served: Served) -> None:
    shutil.rmtree(served.place)
    served.place.write_text("no directory", encoding="utf-8")
    await served.house.until(lambda: NOT_YET in served.house.heard.warned)
    await served.house.stop()

    assert "stopped" in served.house.heard.noted


async def test_one_that_is_there_is_left_as_it_is(served: Served) -> None:
    """The look must not touch a living socket, least of all connect to it."""
    before = [path.stat().st_ino for path in served.sockets]
    with socket.socket(socket.AF_UNIX) as held:
        held.connect(str(served.sockets[0]))
        for _ in range(5):
            await served.house.reconcile()
    assert [path.stat().st_ino for path in served.sockets] == before
    assert served.house.heard.warned == []


@pytest.mark.parametrize("turns", range(8))
async def test_a_server_that_is_told_to_end_while_it_starts_ends(served: Served, turns: int) -> None:
    """In whichever turn of the event loop that is, as when the daemon is stopped at once."""
    path = served.place / "another.sock"
    place = Place(path=str(path), mode=0o600)
    server = ControlServer(core=served.house.container.control()._core, reports=served.house.heard, control=place)
    task = asyncio.create_task(server.run())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,), timeout=10)

    assert task.cancelled()
    assert not path.exists()
