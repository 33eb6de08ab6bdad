"""The dataplane's end on a real socket: links, refusals, and clients that mean harm."""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from pytest_mock import MockerFixture

from adapters.memif.client import connect, probe
from adapters.memif.codec import SIZE, Ack, AddRegion, Connect, Disconnect, Hello, Init, Message, Mode
from adapters.memif.errors import NobodyListens, PlaceTaken, Refused
from adapters.memif.handshake import Interface
from adapters.memif.server import MemifServer
from tests.integration.memif import (
    SECRET,
    SHORT,
    WRONG,
    bound,
    calling,
    left_behind,
    link,
    nothing_left,
    touch,
    workdir,
)

INTERFACES = (
    Interface(id=1, secret=SECRET, name="memif0/1"),
    Interface(id=2, secret=SECRET, name="memif0/2"),
    Interface(id=3, secret=None, mode=Mode.IP),
)
INIT = Init(id=1, secret=SECRET, name="x")


@pytest.fixture
async def place() -> AsyncIterator[str]:
    """A path for a socket; whatever happens, nothing is left open."""
    with workdir() as directory:
        async with nothing_left():
            yield f"{directory}/memif.sock"


@pytest.fixture
async def server(place: str) -> AsyncIterator[MemifServer]:
    async with MemifServer(place, INTERFACES) as made:
        yield made


async def until_free(server: MemifServer) -> None:
    """Wait until nobody has a link."""
    async with asyncio.timeout(5):
        await server.until(lambda now: not now.links)


def mode_of(path: str) -> int:
    return os.lstat(path).st_mode


class TestLinks:
    async def test_every_interface_of_a_socket_has_a_link_of_its_own(self, place: str, server: MemifServer) -> None:
        async with (
            await connect(place, interface=1, secret=SECRET, name="one") as first,
            await connect(place, interface=2, secret=SECRET, name="two") as second,
            await connect(place, interface=3, mode=Mode.IP) as third,
        ):
            assert server.links == {1: "one", 2: "two", 3: "memif3"}
            assert [each.up for each in (first, second, third)] == [True] * 3
            assert [each.peer_interface for each in (first, second)] == ["memif0/1", "memif0/2"]

    async def test_a_client_that_goes_makes_room_for_the_next(self, place: str, server: MemifServer) -> None:
        async with await connect(place, secret=SECRET):
            with pytest.raises(Refused, match="already connected"):
                await connect(place, secret=SECRET)
        await until_free(server)

        async with await connect(place, secret=SECRET, name="next"):
            assert server.links == {1: "next"}

    async def test_a_client_that_dies_makes_room_too(self, place: str, server: MemifServer) -> None:
        link = await connect(place, secret=SECRET)
        link._connection.close()
        await until_free(server)
        link.close()

        assert (await probe(place, secret=SECRET)).accepted

    async def test_a_probe_leaves_the_interface_free(self, place: str, server: MemifServer) -> None:
        assert (await probe(place, secret=SECRET)).accepted

        async with await connect(place, secret=SECRET):
            assert list(server.turned) == []

    @pytest.mark.usefixtures("server")
    async def test_clients_are_told_who_it_is_and_why_it_refuses(self, place: str) -> None:
        probed = await probe(place, secret=WRONG)

        assert probed.hello.name == "memif-device-plugin"
        assert probed.refusal == "incorrect secret"
        assert (await probe(place)).refusal == "secret required"
        assert (await probe(place, interface=9, secret=SECRET)).refusal == "unmatched interface id"
        assert (await probe(place, mode=Mode.IP, secret=SECRET)).refusal == "mode mismatch"

    async def test_its_end_is_told_to_everybody(self, place: str) -> None:
        async with MemifServer(place, INTERFACES):
            link = await connect(place, secret=SECRET)

        assert await link.ended() == "the dataplane ends"
        link.close()
        with pytest.raises(NobodyListens):
            await connect(place, secret=SECRET)

    async def test_a_client_comes_back_to_the_next_dataplane_at_the_same_path(self, place: str) -> None:
        """Path and secret of an allocation never change, for that reason."""
        for _ in range(2):
            async with MemifServer(place, INTERFACES) as server, await connect(place, secret=SECRET):
                assert list(server.links) == [1]


class TestPlace:
    @pytest.mark.parametrize("umask", [0o077, 0o022, 0o000])
    async def test_the_sockets_mode_is_vpps(self, place: str, umask: int) -> None:
        before = os.umask(umask)
        try:
            async with MemifServer(place, INTERFACES):
                mode = mode_of(place)
        finally:
            assert os.umask(before) == umask

        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o775

    async def test_the_socket_stays_when_it_ends(self, place: str) -> None:
        async with MemifServer(place, INTERFACES):
            pass

        assert stat.S_ISSOCK(mode_of(place))

    @pytest.mark.parametrize("kind", [socket.SOCK_SEQPACKET, socket.SOCK_STREAM])
    async def test_a_dead_socket_is_replaced(self, place: str, kind: int) -> None:
        with bound(place, kind):
            pass

        async with MemifServer(place, INTERFACES):
            assert (await probe(place, secret=SECRET)).accepted

    @pytest.mark.parametrize("kind, queue", [(socket.SOCK_SEQPACKET, 0), (socket.SOCK_STREAM, 4)])
    async def test_a_living_socket_is_left_alone(self, place: str, kind: int, queue: int) -> None:
        with bound(place, kind, queue=queue), socket.socket(socket.AF_UNIX, kind) as caller:
            caller.connect(place)
            with pytest.raises(PlaceTaken, match="somebody lives at"):
                await MemifServer(place, INTERFACES).__aenter__()

    async def test_another_server_is_left_alone(self, place: str, server: MemifServer) -> None:
        with pytest.raises(PlaceTaken, match="somebody lives at"):
            await MemifServer(place, INTERFACES).__aenter__()

        async with await connect(place, secret=SECRET):
            assert list(server.links) == [1]

    async def test_what_is_no_socket_is_left_alone(self, place: str) -> None:
        touch(place)

        with pytest.raises(PlaceTaken, match="no socket"):
            await MemifServer(place, INTERFACES).__aenter__()

        assert stat.S_ISREG(mode_of(place))

    async def test_a_link_is_left_alone_and_so_is_where_it_leads(self, place: str) -> None:
        left_behind(f"{place}.other")
        link(place, f"{place}.other")

        with pytest.raises(PlaceTaken, match="no socket"):
            await MemifServer(place, INTERFACES).__aenter__()

        assert stat.S_ISLNK(mode_of(place))
        assert stat.S_ISSOCK(mode_of(f"{place}.other"))

    @pytest.mark.parametrize("rest", ["missing/memif.sock", "x" * 100])
    async def test_a_place_that_cannot_be_had_is_told(self, place: str, rest: str) -> None:
        """VPP does not make the directory either."""
        with pytest.raises(PlaceTaken, match="its directory must exist"):
            await MemifServer(f"{place}.{rest}", INTERFACES).__aenter__()


class TestHarm:
    @pytest.mark.parametrize(
        "said, reason",
        [
            ([b"\x01"], "malformed message"),
            ([b"\0" * SIZE], "malformed message"),
            ([b"\xff" * SIZE], "malformed message"),
            ([b"\x03" * 4096], "malformed message"),
            ([b"\x03".ljust(9, b"\0").ljust(SIZE, b"\xff")], "malformed message"),
            ([Ack()], "unexpected message"),
            ([Connect("x")], "unexpected message"),
            ([INIT, INIT], "unexpected message"),
            ([INIT, b"\x01"], "malformed message"),
            ([INIT, AddRegion(0, 1)], "the region's descriptor is missing"),
            ([INIT, Connect("x")], "a ring is missing: each direction takes one"),
        ],
    )
    async def test_a_client_that_breaks_the_rules_is_told_and_harms_nobody(
        self, place: str, server: MemifServer, said: list[Message | bytes], reason: str
    ) -> None:
        with calling(place) as client:
            for each in said:
                await client.send(each)
            heard = [message async for message in everything(client)]

        assert isinstance(heard[0], Hello)
        assert heard[-1] == Disconnect(0, reason)
        assert list(server.turned) == [reason]
        async with await connect(place, secret=SECRET):
            assert list(server.links) == [1]

    async def test_a_client_that_says_anything_over_an_agreed_link_loses_it(
        self, place: str, server: MemifServer
    ) -> None:
        link = await connect(place, secret=SECRET)
        await link._connection.send(Ack())

        assert await link.ended() == "unexpected message"
        await until_free(server)
        link.close()

    async def test_a_client_that_hangs_up_half_way_is_forgotten(self, place: str, server: MemifServer) -> None:
        for data in (b"", INIT):
            with calling(place) as client:
                await client.receive()
                await client.send(data)

        assert (await probe(place, secret=SECRET)).accepted
        assert list(server.turned) == []

    @pytest.mark.parametrize("number", [1, 2, 200])
    async def test_descriptors_of_clients_are_not_collected(self, place: str, server: MemifServer, number: int) -> None:
        with calling(place) as client:
            await client.send(INIT, *[2] * number)
            await client.send(AddRegion(0, 1), *[2] * number)
            heard = [message async for message in everything(client)]

        assert isinstance(heard[-1], Disconnect)
        assert len(server.turned) == 1

    async def test_a_silent_client_is_told_that_it_took_too_long(self, place: str) -> None:
        async with MemifServer(place, INTERFACES, patience=SHORT):
            with calling(place) as client:
                await client.send(INIT)
                heard = [message async for message in everything(client)]
            assert (await probe(place, secret=SECRET)).accepted

        assert heard[1:] == [Ack(), Disconnect(0, "the handshake took too long")]

    async def test_a_client_that_dribbles_has_no_more_time_than_another(self, place: str) -> None:
        memory = os.memfd_create("m")
        os.ftruncate(memory, 4096)
        async with MemifServer(place, INTERFACES, patience=SHORT):
            with calling(place) as client:
                await client.send(INIT)
                with suppress(BrokenPipeError):
                    for index in range(16):
                        await client.send(AddRegion(index, 4096), memory)
                        await asyncio.sleep(SHORT / 4)  # each one well within the patience
                heard = [message async for message in everything(client)]
        os.close(memory)

        assert heard.count(Ack()) < 16
        assert heard[-1] == Disconnect(0, "the handshake took too long")

    async def test_a_flood_of_silent_clients_passes(self, place: str) -> None:
        async with MemifServer(place, INTERFACES, patience=SHORT), asyncio.timeout(20):
            flood = [asyncio.create_task(hold_on(place)) for _ in range(200)]
            probed = await probe(place, secret=SECRET, patience=10)
            await asyncio.gather(*flood)

        assert probed.accepted

    async def test_a_server_that_ends_amid_a_flood_leaves_nothing(self, place: str) -> None:
        callers = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(10)]
        async with MemifServer(place, INTERFACES) as server:
            for each in callers:
                each.connect(place)
            while not server._tasks:  # noqa: ASYNC110 -- it is to end in the turn in which a conversation is made
                await asyncio.sleep(0)
        for each in callers:
            each.close()

    async def test_a_system_without_descriptors_is_waited_for(self, place: str, mocker: MockerFixture) -> None:
        accept, calls = socket.socket.accept, 0

        def scarce(self: socket.socket) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise OSError(errno.EMFILE, "Too many open files")
            return accept(self)

        mocker.patch.object(socket.socket, "accept", scarce)
        async with MemifServer(place, INTERFACES):
            assert (await probe(place, secret=SECRET)).accepted

        assert calls == 2


async def everything(client: Any) -> AsyncIterator[Message]:
    """Yield what a server says until it hangs up."""
    async with asyncio.timeout(5):
        while (message := await client.receive()) is not None:
            yield message


async def hold_on(place: str) -> None:
    """Connect as soon as there is a place, say nothing, and wait for the end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as sock:
        while sock.connect_ex(place) == errno.EAGAIN:  # noqa: ASYNC110 -- nothing tells when there is room
            await asyncio.sleep(0.01)
        while await asyncio.get_running_loop().sock_recv(sock, SIZE):
            pass
