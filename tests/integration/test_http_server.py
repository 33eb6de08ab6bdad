"""The HTTP server on real sockets, and clients that mean no good."""

import asyncio
import http.client
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest

from adapters.http import server as module
from adapters.http.messages import LONGEST_HEAD, Page
from adapters.http.server import MOST, HttpServer, Times
from tests.integration.kubelet import things
from tests.unit.house import Heard

HOST = "127.0.0.1"
NEVER = 3600.0
PATIENT = Times(turn=NEVER, request=NEVER, page=NEVER, response=NEVER, farewell=NEVER, retry=0.01)
"""Nothing ends by itself."""

ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Site:
    """Pages, one of which goes wrong and one of which can be held."""

    def __init__(self) -> None:
        self.asked = 0
        self.go_on = asyncio.Event()
        self.big = b"x" * 10

    async def healthz(self) -> Page:
        self.asked += 1
        return Page(body=b"ok\n")

    async def broken(self) -> Page:
        raise RuntimeError("hush")

    async def slow(self) -> Page:
        await self.go_on.wait()
        return Page(body=b"at last\n")

    async def large(self) -> Page:
        return Page(body=self.big)


class Stand:
    """A server that runs."""

    def __init__(self, times: Times, *, host: str = HOST, port: int = 0) -> None:
        self.site, self.heard = Site(), Heard()
        pages = {name: getattr(self.site, name[1:]) for name in ("/healthz", "/broken", "/slow", "/large")}
        self.host = host
        self.server = HttpServer(address=(host, port), pages=pages, reports=self.heard, times=times)

    @property
    def port(self) -> int:
        assert self.server.port is not None
        return self.server.port

    @property
    def connections(self) -> int:
        return len(self.server._open)

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, and say nothing."""
        return await asyncio.open_connection(self.host, self.port)

    async def says(self, *pieces: bytes) -> bytes:
        """Say something, piece by piece, and return everything that is answered until the server closes."""
        reader, writer = await self.dial()
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(10):
                return await reader.read()
        finally:
            writer.close()

    async def status(self, *pieces: bytes) -> int:
        """Say something and return the answer's status."""
        return int((await self.says(*pieces)).split(b" ")[1])


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 -- the other end of a socket has no event
            await asyncio.sleep(0.002)


@asynccontextmanager
async def serving(times: Times = PATIENT, **where: Any) -> AsyncIterator[Stand]:
    """A server for the length of a block; afterwards nothing of it is left."""
    before = things()
    stand = Stand(times, **where)
    task = asyncio.create_task(stand.server.run())
    try:
        await until(lambda: stand.server.port is not None or task.done())
        yield stand
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    # A thread of the event loop that looked up a name, if there is one, stays for the next name.
    await until(lambda: replace(things(), threads=0).within(before))


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with serving() as made:
        yield made


class TestPages:
    async def test_a_page_is_served_and_the_connection_ends(self, stand: Stand) -> None:
        answer = await stand.says(ASK)

        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\nok\n")
        assert b"\r\nConnection: close\r\n" in answer

    async def test_a_common_client_reads_it(self, stand: Stand) -> None:
        def ask() -> tuple[int, bytes, str | None]:
            connection = http.client.HTTPConnection(HOST, stand.port, timeout=10)
            connection.request("GET", "/healthz")
            response = connection.getresponse()
            try:
                return response.status, response.read(), response.getheader("Content-Type")
            finally:
                connection.close()

        assert await asyncio.to_thread(ask) == (200, b"ok\n", "text/plain; charset=utf-8")

    async def test_a_head_has_no_body(self, stand: Stand) -> None:
        answer = await stand.says(b"HEAD /healthz HTTP/1.0\r\n\r\n")

        assert b"\r\nContent-Length: 3\r\n" in answer
        assert answer.endswith(b"\r\n\r\n")

    async def test_elsewhere_is_nothing(self, stand: Stand) -> None:
        answer = await stand.says(b"GET /etc/passwd HTTP/1.0\r\n\r\n")

        assert answer.startswith(b"HTTP/1.1 404 Not Found\r\n")
        assert answer.endswith(b"there is nothing here; try /broken /healthz /large /slow\n")

    async def test_nothing_can_be_sent(self, stand: Stand) -> None:
        answer = await stand.says(b"POST /healthz HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc")

        assert answer.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
        assert b"\r\nAllow: GET, HEAD\r\n" in answer
        assert stand.site.asked == 0

    async def test_a_page_that_cannot_be_made_says_so_without_the_details(self, stand: Stand) -> None:
        answer = await stand.says(b"GET /broken HTTP/1.0\r\n\r\n")

        assert answer.startswith(b"HTTP/1.1 500 ")
        assert b"hush" not in answer
        assert stand.heard.warnings == [("a page could not be made", {"path": "/broken", "fault": "RuntimeError"})]
        assert await stand.status(ASK) == 200

    async def test_a_page_that_takes_too_long_is_given_up(self) -> None:
        async with serving(Times(page=0.05)) as stand:
            assert await stand.status(b"GET /slow HTTP/1.0\r\n\r\n") == 500
            assert stand.heard.facts("a page could not be made")["fault"] == "TimeoutError"

    async def test_one_client_is_served_while_others_wait_for_theirs(self, stand: Stand) -> None:
        slow = asyncio.create_task(stand.says(b"GET /slow HTTP/1.0\r\n\r\n"))
        await until(lambda: stand.connections == 1)

        assert await stand.status(ASK) == 200
        stand.site.go_on.set()
        assert (await slow).endswith(b"at last\n")


class TestClients:
    async def test_one_that_says_it_byte_by_byte_is_served(self, stand: Stand) -> None:
        assert await stand.status(*(bytes([each]) for each in ASK)) == 200

    async def test_one_that_says_nothing_is_let_go(self) -> None:
        async with serving(Times(request=0.05)) as stand:
            assert await stand.says() == b""
            assert stand.heard.warnings == []

    async def test_one_that_never_ends_its_request_is_told_that_it_took_too_long(self) -> None:
        async with serving(Times(request=0.05)) as stand:
            assert await stand.status(ASK[:-2]) == HTTPStatus.REQUEST_TIMEOUT

    async def test_one_that_drips_has_no_more_time_than_one_that_waits(self) -> None:
        """The time is for the whole request, or a byte a second would hold a connection for hours."""
        async with serving(Times(request=0.2, farewell=0.1)) as stand:
            reader, writer = await stand.dial()
            writer.write(b"GET / HTTP/1.0\r\nX: ")
            while stand.connections or not reader._buffer:  # type: ignore[attr-defined]  # asyncio's own
                with suppress(ConnectionError):
                    writer.write(b"a")
                    await writer.drain()
                await asyncio.sleep(0.01)
                if reader.at_eof():
                    break
            writer.close()

            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")

    async def test_one_that_says_too_much_is_told_so_and_gets_to_read_it(self, stand: Stand) -> None:
        head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * LONGEST_HEAD

        assert await stand.status(head) == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE

    async def test_one_that_never_stops_talking_is_left(self, stand: Stand) -> None:
        _, writer = await stand.dial()

        async def talk() -> None:
            while True:
                writer.write(b"a" * 4096)
                await writer.drain()

        with pytest.raises(ConnectionError):
            await talk()
        writer.close()

        await until(lambda: stand.connections == 0)
        assert await stand.status(ASK) == 200

    async def test_one_that_does_not_close_is_left(self) -> None:
        async with serving(Times(farewell=0.05)) as stand:
            reader, writer = await stand.dial()
            writer.write(ASK)
            await reader.read()
            await until(lambda: stand.connections == 0)
            writer.close()

    async def test_one_that_does_not_read_is_left(self) -> None:
        async with serving(Times(response=0.05)) as stand:
            stand.site.big = b"x" * 16 * 1024 * 1024
            _, writer = await stand.dial()
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport of sockets has it
            writer.write(b"GET /large HTTP/1.0\r\n\r\n")
            await until(lambda: stand.connections == 1)
            await until(lambda: stand.connections == 0)
            writer.transport.abort()

            assert await stand.status(ASK) == 200
            assert stand.heard.warnings == []

    async def test_one_that_hangs_up_in_the_middle_is_nothing_to_tell(self, stand: Stand) -> None:
        for said in (b"", ASK[:10], ASK):
            _, writer = await stand.dial()
            writer.write(said)
            await writer.drain()
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            writer.transport.abort()  # a reset
        await until(lambda: stand.connections == 0)

        assert await stand.status(ASK) == 200
        assert stand.heard.warnings == []

    async def test_one_that_has_said_half_and_closes_its_side_is_refused(self, stand: Stand) -> None:
        reader, writer = await stand.dial()
        writer.write(b"GET / HT")
        writer.write_eof()

        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()

    async def test_garbage_is_refused(self, stand: Stand) -> None:
        for garbage in (b"\x16\x03\x01\x02\x00\r\n\r\n", b"\0" * 100 + b"\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
            assert await stand.status(garbage) == HTTPStatus.BAD_REQUEST


class TestCrowds:
    async def test_more_than_there_is_room_for_take_turns(self) -> None:
        """Whoever came first and says nothing makes room, so that an honest client is served."""
        async with serving(Times(turn=0.01, request=NEVER)) as stand:
            idle = [await stand.dial() for _ in range(MOST)]
            await until(lambda: stand.connections == MOST)

            assert await stand.status(ASK) == 200
            await until(lambda: stand.connections == MOST - 1)
            assert await idle[0][0].read() == b""
            for _, writer in idle:
                writer.close()

    async def test_nobody_makes_room_before_having_had_a_turn(self, stand: Stand) -> None:
        idle = [await stand.dial() for _ in range(MOST)]
        await until(lambda: stand.connections == MOST)
        waiting = asyncio.create_task(stand.says(ASK))
        await asyncio.sleep(0.05)  # to see that nothing happens
        assert stand.connections == MOST
        assert not waiting.done()
        idle[7][1].close()

        assert (await waiting).startswith(b"HTTP/1.1 200 ")
        for _, writer in idle:
            writer.close()

    async def test_hundreds_cost_no_more_than_the_room_that_there_is(self) -> None:
        async with serving(Times(turn=0.0005, request=NEVER)) as stand:
            most = 0

            async def crowd() -> None:
                for _ in range(75):
                    with suppress(OSError):
                        _, writer = await stand.dial()
                        writer.write(b"GET /")
                        crowds.append(writer)

            async def honest() -> int:
                nonlocal most
                served = 0
                while not all(each.done() for each in tasks):
                    most = max(most, stand.connections)
                    served += await stand.status(ASK) == 200
                return served

            crowds: list[asyncio.StreamWriter] = []
            tasks = [asyncio.create_task(crowd()) for _ in range(4)]
            await asyncio.sleep(0)
            served = await honest()

            assert served > 0
            assert most <= MOST
            assert len(crowds) == 300
            for writer in crowds:
                writer.transport.abort()

    async def test_without_descriptors_it_says_so_and_goes_on_when_there_are_some(
        self, stand: Stand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loop = asyncio.get_running_loop()
        accept, failures = loop.sock_accept, [OSError(24, "Too many open files")]

        async def failing(listener: socket.socket) -> tuple[socket.socket, Any]:
            if failures:
                raise failures.pop()
            return await accept(listener)

        assert await stand.status(ASK) == 200
        monkeypatch.setattr(loop, "sock_accept", failing)
        await stand.status(ASK)  # which is accepted by the call that was going on

        assert await stand.status(ASK) == 200
        assert stand.heard.facts("an HTTP connection cannot be accepted") == {"reason": "Too many open files"}


class TestListening:
    async def test_an_address_that_is_taken_is_waited_for_and_told_once(self) -> None:
        with socket.create_server((HOST, 0)) as other:
            port = other.getsockname()[1]
            stand = Stand(PATIENT, port=port)
            task = asyncio.create_task(stand.server.run())
            await until(lambda: bool(stand.heard.notes))
            await asyncio.sleep(0.1)  # some attempts more
            assert stand.heard.notes == [
                ("the address for HTTP is taken; waiting until it is free", {"address": f"{HOST}:{port}"})
            ]
        await until(lambda: stand.server.port == port)

        assert await stand.status(ASK) == 200
        assert stand.heard.facts("serving HTTP")["address"] == f"{HOST}:{port}"
        assert stand.heard.warnings == []
        task.cancel()
        await asyncio.wait((task,))

    async def test_a_server_that_ended_leaves_the_address_to_the_next_at_once(self) -> None:
        """Its connections linger in the kernel for a minute."""
        async with serving() as first:
            port = first.port
            await first.status(ASK)
        async with serving(port=port) as second:
            assert await second.status(ASK) == 200
            assert second.heard.noted == ["serving HTTP"]

    async def test_an_address_that_cannot_be_had_is_told_with_its_cure(self) -> None:
        stand = Stand(PATIENT, host="192.0.2.1", port=9599)  # an address for documentation, nobody's
        task = asyncio.create_task(stand.server.run())
        await until(lambda: bool(stand.heard.warnings))
        task.cancel()
        await asyncio.wait((task,))

        facts = stand.heard.facts("HTTP is not served")
        assert facts["address"] == "192.0.2.1:9599"
        assert facts["reason"] == "Cannot assign requested address"

    async def test_a_name_without_an_address_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def nobody(*_: object) -> Any:
            raise socket.gaierror(-2, "Name or service not known")

        monkeypatch.setattr(module, "_addresses", nobody)
        stand = Stand(PATIENT, host="node.invalid", port=1)
        task = asyncio.create_task(stand.server.run())
        await until(lambda: bool(stand.heard.warnings))
        task.cancel()
        await asyncio.wait((task,))

        assert stand.heard.facts("HTTP is not served")["reason"] == "Name or service not known"

    async def test_a_name_is_served_on_each_of_its_addresses(self) -> None:
        async with serving(host="localhost") as stand:
            assert await stand.status(ASK) == 200

    async def test_the_new_kind_of_addresses_is_served(self) -> None:
        async with serving(host="::1") as stand:
            assert await stand.status(ASK) == 200
            assert stand.heard.facts("serving HTTP")["address"] == f"[::1]:{stand.port}"

    async def test_it_is_reached_on_its_address_only(self, stand: Stand) -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.2", stand.port)

    async def test_nothing_is_served_where_nothing_is_to_be_served(self) -> None:
        heard = Heard()
        await HttpServer(address=None, pages={}, reports=heard).run()

        assert heard.notes == []

    async def test_connections_end_with_it(self) -> None:
        async with serving() as stand:
            talking = [await stand.dial() for _ in range(3)]
            talking[0][1].write(ASK[:5])
            talking[1][1].write(b"GET /slow HTTP/1.0\r\n\r\n")
            await until(lambda: stand.connections == 3)
            # The test's own ends of the connections are not the server's to close.
            for _, writer in talking:
                writer.close()
                await writer.wait_closed()
