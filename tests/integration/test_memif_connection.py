"""One end of a control channel on a real socket, with a peer that keeps no rules."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator

import pytest

from adapters.memif.codec import Ack, AddRegion, Connect, Disconnect
from adapters.memif.connection import Connection, Received
from adapters.memif.errors import Malformed, PeerClosed, PeerSilent, Unencodable
from tests.integration.memif import SHORT, Raw, descriptors, nothing_left


class Ends:
    """A connection and what is at its other end."""

    def __init__(self, patience: float) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.setblocking(False)  # noqa: FBT003 -- the library's form
        self.connection = Connection(ours, peer="the peer", patience=patience)
        self.peer = Raw(theirs)

    def close(self) -> None:
        self.connection.close()
        self.peer.sock.close()


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    async with nothing_left():
        made = Ends(patience=5)
        yield made
        made.close()


@pytest.fixture
async def hasty() -> AsyncIterator[Ends]:
    """Ends, of which ours waits for a moment only."""
    async with nothing_left():
        made = Ends(patience=SHORT)
        yield made
        made.close()


class TestMessages:
    async def test_messages_cross_in_both_directions(self, ends: Ends) -> None:
        await ends.connection.send(Connect("memif1"))
        await ends.peer.send(Ack())

        assert await ends.peer.receive() == Connect("memif1")
        assert await ends.connection.receive() == Received(Ack())

    async def test_a_message_that_comes_later_is_waited_for(self, ends: Ends) -> None:
        receiving = asyncio.create_task(ends.connection.receive())
        await asyncio.sleep(0)
        await ends.peer.send(Ack())

        assert await receiving == Received(Ack())

    async def test_a_peer_that_is_slow_to_read_gets_everything(self, ends: Ends) -> None:
        async def flood() -> None:
            for number in range(2000):
                await ends.connection.send(AddRegion(number, 0))

        flooding = asyncio.create_task(flood())
        await asyncio.sleep(0)
        got = [await ends.peer.receive() for _ in range(2000)]
        await flooding

        assert got == [AddRegion(number, 0) for number in range(2000)]

    @pytest.mark.parametrize("size", [1, 127, 129, 4096])
    async def test_a_message_of_another_size_is_malformed(self, ends: Ends, size: int) -> None:
        await ends.peer.send(b"\x01".ljust(size, b"\0"))

        with pytest.raises(Malformed, match="bytes"):
            await ends.connection.receive()

    async def test_what_has_no_form_is_not_sent(self, ends: Ends) -> None:
        with pytest.raises(Unencodable):
            await ends.connection.send(AddRegion(-1, 0))

        assert ends.connection.open


class TestDescriptors:
    async def test_a_descriptor_goes_along_and_stays_the_senders(self, ends: Ends) -> None:
        reader, writer = os.pipe()
        try:
            await ends.connection.send(AddRegion(0, 1), writer)
            _, passed, _, _ = socket.recv_fds(ends.peer.sock, 128, 4)
            os.write(passed[0], b"x")
            os.close(passed[0])
            os.write(writer, b"y")

            assert os.read(reader, 2) == b"xy"
        finally:
            os.close(reader)
            os.close(writer)

    async def test_one_that_is_wanted_is_handed_over_and_no_child_inherits_it(self, ends: Ends) -> None:
        await ends.peer.send(AddRegion(0, 1), 2)

        received = await ends.connection.receive(keep=True)

        assert received.message == AddRegion(0, 1)
        assert received.descriptor is not None
        assert not os.get_inheritable(received.descriptor)
        assert os.fstat(received.descriptor) == os.fstat(2)
        os.close(received.descriptor)

    @pytest.mark.parametrize("number", [1, 2, 200])
    async def test_those_that_nobody_wants_are_counted_and_never_become_ours(self, ends: Ends, number: int) -> None:
        before = descriptors()
        await ends.peer.send(Ack(), *[2] * number)

        assert await ends.connection.receive() == Received(Ack())
        assert descriptors() <= before
        assert ends.connection.unwanted == 1

    @pytest.mark.parametrize("number", [2, 3, 200])
    async def test_more_than_one_with_a_message_is_malformed_and_none_is_kept(self, ends: Ends, number: int) -> None:
        before = descriptors()
        await ends.peer.send(AddRegion(0, 1), *[2] * number)

        with pytest.raises(Malformed, match="more than one descriptor"):
            await ends.connection.receive(keep=True)

        assert descriptors() <= before

    @pytest.mark.parametrize("data", [b"", b"\x01", b"\x63".ljust(128, b"\0"), b"\0" * 500])
    async def test_one_that_comes_with_no_message_is_closed(self, ends: Ends, data: bytes) -> None:
        before = descriptors()
        await ends.peer.send(data, 2)

        with pytest.raises((Malformed, PeerClosed)):
            await ends.connection.receive(keep=True)

        assert descriptors() <= before


class TestTheEnd:
    async def test_a_silent_peer_is_waited_for_a_while(self, hasty: Ends) -> None:
        with pytest.raises(PeerSilent, match=r"the peer said nothing within 0\.25 s"):
            await hasty.connection.receive()

    async def test_after_silence_the_channel_can_still_be_used(self, hasty: Ends) -> None:
        with pytest.raises(PeerSilent):
            await hasty.connection.receive()
        await hasty.peer.send(Ack())

        assert await hasty.connection.receive() == Received(Ack())

    async def test_who_waits_endlessly_is_patient(self, hasty: Ends) -> None:
        receiving = asyncio.create_task(hasty.connection.receive(endless=True))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2 * SHORT):
                await asyncio.shield(receiving)
        await hasty.peer.send(Ack())

        assert await receiving == Received(Ack())

    async def test_a_peer_that_takes_nothing_is_silent_too(self, hasty: Ends) -> None:
        async def flood() -> None:
            while True:
                await hasty.connection.send(Ack())

        with pytest.raises(PeerSilent, match="the peer took no Ack"):
            await flood()

    async def test_a_peer_that_hangs_up_is_gone(self, ends: Ends) -> None:
        receiving = asyncio.create_task(ends.connection.receive())
        await asyncio.sleep(0)
        ends.peer.sock.close()

        with pytest.raises(PeerClosed, match="without saying why"):
            await receiving
        with pytest.raises(PeerClosed):
            await ends.connection.send(Ack())

    async def test_the_last_words_of_a_peer_that_did_not_listen_arrive(self, ends: Ends) -> None:
        """The system reports the reset before it hands over what was said."""
        await ends.connection.send(Connect("unread"))
        await ends.peer.send(Disconnect(0, "why"))
        ends.peer.sock.close()

        assert await ends.connection.receive() == Received(Disconnect(0, "why"))
        with pytest.raises(PeerClosed):
            await ends.connection.receive()

    async def test_an_empty_packet_is_the_end(self, ends: Ends) -> None:
        await ends.peer.send(b"")

        with pytest.raises(PeerClosed):
            await ends.connection.receive()

    async def test_parting_says_why(self, ends: Ends) -> None:
        ends.connection.part("enough", 7)
        ends.connection.part("again")

        assert await ends.peer.receive() == Disconnect(7, "enough")
        assert await ends.peer.receive() is None

    async def test_parting_from_who_is_gone_is_fine(self, ends: Ends) -> None:
        ends.peer.sock.close()

        ends.connection.part("enough")

        assert not ends.connection.open

    async def test_closing_wakes_who_waits_and_harms_no_other_socket(self, ends: Ends) -> None:
        """Its number may be another's at once, who must be able to wait as well."""
        loop, heard = asyncio.get_running_loop(), asyncio.Event()
        receiving = asyncio.create_task(ends.connection.receive())
        await asyncio.sleep(0)
        number = ends.connection._sock.fileno()
        ends.connection.close()
        other, feeder = socket.socketpair()
        with other, feeder:
            assert other.fileno() == number
            loop.add_reader(other, heard.set)
            with pytest.raises(PeerClosed, match="on our side"):
                await receiving
            feeder.send(b"x")
            async with asyncio.timeout(5):
                await heard.wait()

            assert loop.remove_reader(other)

    async def test_it_is_open_as_long_as_the_peer_is_there_and_has_said_nothing(self, ends: Ends) -> None:
        before = ends.connection.open
        await ends.peer.send(Disconnect(0, ""))
        told = ends.connection.open
        await ends.connection.receive()
        after = ends.connection.open
        ends.peer.sock.close()

        assert (before, told, after, ends.connection.open) == (True, False, True, False)
