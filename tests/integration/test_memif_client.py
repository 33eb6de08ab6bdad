"""The client's end against peers that do as the protocol says, and against those that do not."""

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

import pytest

from adapters.memif.client import connect, probe
from adapters.memif.codec import (
    SIZE,
    Ack,
    AddRegion,
    AddRing,
    Connect,
    Connected,
    Disconnect,
    Hello,
    Init,
    Message,
    Mode,
    decode,
)
from adapters.memif.connection import readable
from adapters.memif.errors import (
    ChannelUnusable,
    NobodyListens,
    NotMemif,
    PeerClosed,
    PeerSilent,
    Refused,
    Unencodable,
    VersionMismatch,
)
from domain.secret import Secret
from tests.integration.memif import SECRET, SHORT, Raw, left_behind, nothing_left, playing, workdir

HELLO = Hello(
    name="VPP 24.06",
    max_region=255,
    max_server_to_client=255,
    max_client_to_server=255,
    max_log2_ring_size=14,
)

Play = Callable[[Raw], Awaitable[None]]


class Attempt(Protocol):
    """What probe and client have in common."""

    async def __call__(self, path: str, *, secret: Secret, patience: float) -> object: ...


@pytest.fixture
async def place() -> AsyncIterator[str]:
    """A path for a socket; whatever happens, nothing is left open."""
    with workdir() as directory:
        async with nothing_left():
            yield f"{directory}/memif.sock"


def saying(*said: Message | bytes, after_init: tuple[Message | bytes, ...] = ()) -> Play:
    """A peer that says something, waits for INIT if there is more to say, says it, and hangs up."""

    async def play(client: Raw) -> None:
        for each in said:
            await client.send(each)
        if after_init:
            assert isinstance(await client.receive(), Init)
        for each in after_init:
            await client.send(each)

    return play


async def silence(client: Raw) -> None:
    """A peer that says nothing and waits until the client goes."""
    while await client.receive() is not None:
        pass


async def failure(place: str, play: Play, *, patience: float = 5) -> ChannelUnusable:
    """Return what both probe and client make of a peer, which must be the same."""
    first, second = [await failure_of(attempt, place, play, patience) for attempt in (probe, connect)]
    assert type(first) is type(second)
    return second


async def failure_of(attempt: Attempt, place: str, play: Play, patience: float) -> ChannelUnusable:
    async with playing(place, play):
        try:
            await attempt(place, secret=SECRET, patience=patience)
        except ChannelUnusable as error:
            caught = error
        else:
            pytest.fail("it made no difference")
    os.unlink(place)  # noqa: PTH108 -- the other form is not for asynchronous code
    assert SECRET.reveal() not in f"{caught}{caught.__cause__}"
    assert place in str(caught)
    return caught


class TestProbe:
    async def test_it_goes_as_far_as_the_answer_to_init_and_takes_leave(self, place: str) -> None:
        heard: list[Message | None] = []

        async def play(client: Raw) -> None:
            await client.send(HELLO)
            heard.append(await client.receive())
            await client.send(Ack())
            heard.append(await client.receive())
            heard.append(await client.receive())

        async with playing(place, play):
            probed = await probe(place, interface=7, secret=SECRET, mode=Mode.IP)

        assert probed.hello == HELLO
        assert probed.accepted
        assert probed.refusal is None
        assert heard == [
            Init(id=7, mode=Mode.IP, secret=SECRET, name="memif-device-plugin"),
            Disconnect(0, "the probe is done"),
            None,
        ]

    async def test_a_refusal_is_an_answer_in_the_peers_own_words(self, place: str) -> None:
        async with playing(place, saying(HELLO, after_init=(Disconnect(3, "Incorrect secret"),))):
            probed = await probe(place, secret=SECRET)

        assert (probed.accepted, probed.refusal) == (False, "Incorrect secret")

    async def test_a_refusal_without_words_is_one(self, place: str) -> None:
        async with playing(place, saying(HELLO, after_init=(Disconnect(0, ""),))):
            probed = await probe(place, secret=SECRET)

        assert (probed.accepted, probed.refusal) == (False, "")

    async def test_no_secret_is_given_unless_there_is_one(self, place: str) -> None:
        heard: list[Message | None] = []

        async def play(client: Raw) -> None:
            await client.send(HELLO)
            heard.append(await client.receive())
            await client.send(Disconnect(0, "secret required"))

        async with playing(place, play):
            await probe(place)

        assert heard == [Init(id=1, secret=None, name="memif-device-plugin")]

    @pytest.mark.parametrize("lowest, highest", [(0x0100, 0x0200), (0x0200, 0x0300), (0, 0xFFFF)])
    async def test_a_range_that_holds_our_version_will_do(self, place: str, lowest: int, highest: int) -> None:
        hello = a_hello(lowest, highest)
        async with playing(place, saying(hello, after_init=(Ack(),))):
            probed = await probe(place)

        assert probed.hello == hello

    @pytest.mark.parametrize("number", [-1, 1 << 32])
    async def test_an_impossible_id_is_told_and_the_peer_is_left(self, place: str, number: int) -> None:
        async with playing(place, saying(HELLO)):
            with pytest.raises(Unencodable):
                await probe(place, interface=number)

    async def test_a_secret_that_is_too_long_is_told_and_the_peer_is_left(self, place: str) -> None:
        async with playing(place, saying(HELLO)):
            with pytest.raises(Unencodable, match="23 bytes"):
                await probe(place, secret=Secret("x" * 24))

    async def test_a_path_without_a_peer_is_told_as_dialing_tells_it(self, place: str) -> None:
        left_behind(place)

        with pytest.raises(NobodyListens):
            await probe(place)


class TestConnect:
    async def test_it_says_everything_in_order_with_a_descriptor_where_one_belongs(self, place: str) -> None:
        heard: list[Message] = []
        sizes: list[int] = []

        async def play(client: Raw) -> None:
            await client.send(HELLO)
            for answer in (Ack(), Ack(), Ack(), Ack(), Connected("memif0/1")):
                message, passed = await receive_with_descriptors(client)
                heard.append(message)
                sizes.extend(os.fstat(each).st_size for each in passed)
                for each in passed:
                    os.close(each)
                await client.send(answer)
            assert await client.receive() == Disconnect(0, "the client ends")

        async with playing(place, play), await connect(place, interface=1, secret=SECRET, name="memif0/0") as link:
            assert link.peer_interface == "memif0/1"
            assert link.hello == HELLO
            assert link.up

        init, region, to_server, to_client, last = heard
        assert isinstance(init, Init)
        assert isinstance(region, AddRegion)
        assert isinstance(to_server, AddRing)
        assert isinstance(to_client, AddRing)
        assert (to_server.flags, to_client.flags) == (1, 0)
        assert last == Connect("memif0/0")
        assert sizes == [region.size, 0, 0]

    @pytest.mark.parametrize("step", range(5))
    async def test_a_refusal_at_any_step_is_told_and_nothing_is_left(self, place: str, step: int) -> None:
        async def play(client: Raw) -> None:
            await client.send(HELLO)
            for _ in range(step):
                await client.receive()
                await client.send(Ack())
            await client.receive()
            await client.send(Disconnect(9, "no"))

        async with playing(place, play):
            with pytest.raises(Refused, match="it says 'no'") as caught:
                await connect(place, secret=SECRET)

        assert (caught.value.reason, caught.value.code) == ("no", 9)

    async def test_the_peers_reason_to_hang_up_is_heard(self, place: str) -> None:
        async def play(client: Raw) -> None:
            await client.send(HELLO)
            for answer in (Ack(), Ack(), Ack(), Ack(), Connected("x"), Ack(), Disconnect(0, "interface deleted")):
                await client.send(answer)

        async with playing(place, play), await connect(place) as link:
            assert await link.ended() == "interface deleted"
            assert not link.up

    @pytest.mark.parametrize("last", [b"", b"garbage"])
    async def test_a_peer_that_hangs_up_without_a_reason_gave_none(self, place: str, last: bytes) -> None:
        async def play(client: Raw) -> None:
            await client.send(HELLO)
            for answer in (Ack(), Ack(), Ack(), Ack(), Connected("x")):
                await client.receive()
                await client.send(answer)
            await client.send(last)

        async with playing(place, play), await connect(place) as link:
            assert await link.ended() == ""

    async def test_a_client_that_is_cut_off_leaves_nothing(self, place: str) -> None:
        async def play(client: Raw) -> None:
            await client.send(HELLO)
            for _ in range(2):
                await client.receive()
                await client.send(Ack())
            assert isinstance(await client.receive(), AddRing)
            # Memory and an interrupt are in the client's hands now, and it waits.
            assert await client.receive() == Disconnect(0, "the client gives up")

        async with playing(place, play):
            with pytest.raises(PeerSilent):
                await connect(place, secret=SECRET, patience=SHORT)


class TestPeersThatDoNotFit:
    @pytest.mark.parametrize("lowest, highest", [(0x0100, 0x0113), (0x0201, 0x0300), (0x0300, 0x0100)])
    async def test_other_versions_are_named(self, place: str, lowest: int, highest: int) -> None:
        error = await failure(place, saying(a_hello(lowest, highest)))

        assert isinstance(error, VersionMismatch)
        assert (error.lowest, error.highest) == (lowest, highest)
        assert "'VPP 24.06'" in str(error)
        assert f"{lowest >> 8}.{lowest & 255} to {highest >> 8}.{highest & 255}" in str(error)

    async def test_who_does_not_greet_is_silent(self, place: str) -> None:
        assert isinstance(await failure(place, silence, patience=SHORT), PeerSilent)

    async def test_who_does_not_answer_is_silent(self, place: str) -> None:
        async def play(client: Raw) -> None:
            await client.send(HELLO)
            await silence(client)

        assert isinstance(await failure(place, play, patience=SHORT), PeerSilent)

    async def test_who_hangs_up_at_once_is_gone(self, place: str) -> None:
        assert isinstance(await failure(place, saying()), PeerClosed)

    async def test_who_hangs_up_after_init_is_gone_and_the_version_is_suspected(self, place: str) -> None:
        """VPP answers an INIT of a version that it does not speak by closing."""

        async def play(client: Raw) -> None:
            await client.send(HELLO)
            await client.receive()

        error = await failure(place, play)

        assert isinstance(error, PeerClosed)
        assert "version" in str(error)

    async def test_who_refuses_instead_of_greeting_has_its_reason_told(self, place: str) -> None:
        error = await failure(place, saying(Disconnect(0, "busy")))

        assert isinstance(error, Refused)
        assert "'busy'" in str(error)

    @pytest.mark.parametrize(
        "said",
        [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0", b"\0" * SIZE, b"\xff" * SIZE, b"\x02".ljust(5000, b"\0"), Ack()],
    )
    async def test_who_greets_in_another_way_does_not_speak_memif(self, place: str, said: Message | bytes) -> None:
        error = await failure(place, saying(said))

        assert isinstance(error, NotMemif)
        assert "ss -xlp" in str(error)

    @pytest.mark.parametrize("said", [HELLO, Connected("x"), Init(id=1, secret=None, name=""), b"\x01"])
    async def test_who_answers_init_in_another_way_does_not_either(self, place: str, said: Message | bytes) -> None:
        assert isinstance(await failure(place, saying(HELLO, after_init=(said,))), NotMemif)

    async def test_descriptors_that_a_peer_slips_in_never_become_ours(self, place: str) -> None:
        async def play(client: Raw) -> None:
            await client.send(HELLO, 2, 2, 2)
            await client.receive()
            await client.send(Ack(), *[2] * 200)

        async with playing(place, play):
            probed = await probe(place)

        assert probed.accepted

    async def test_what_a_peer_says_cannot_drive_a_terminal(self, place: str) -> None:
        error = await failure(place, saying(Disconnect(0, "\x1b[2J\r\n")))

        assert isinstance(error, Refused)
        assert str(error).isprintable()


def a_hello(lowest: int, highest: int) -> Hello:
    return Hello(
        name=HELLO.name,
        lowest=lowest,
        highest=highest,
        max_region=255,
        max_server_to_client=255,
        max_client_to_server=255,
        max_log2_ring_size=14,
    )


async def receive_with_descriptors(client: Raw) -> tuple[Message, list[int]]:
    """Receive as a dataplane does."""
    await readable(client.sock)
    data, passed, _, _ = socket.recv_fds(client.sock, SIZE, 4)
    return decode(data), passed
