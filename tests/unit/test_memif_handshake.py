"""What a dataplane's end answers to what a client says."""

import os
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.memif.codec import (
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
    encode,
)
from adapters.memif.connection import Received
from adapters.memif.errors import Unencodable
from adapters.memif.handshake import MAX_REGION, MAX_RING, Handshake, Interface, Turned
from adapters.memif.rings import Shared, share
from domain.secret import Secret

SECRET = Secret("TheRightSecret00001")
INTERFACES = {
    1: Interface(id=1, secret=SECRET, name="memif0/1"),
    2: Interface(id=2, secret=None),
    3: Interface(id=3, secret=SECRET, mode=Mode.IP),
}


def an_init(
    number: int = 1, *, secret: Secret | None = SECRET, mode: int = Mode.ETHERNET, version: int = 0x0200
) -> Init:
    return Init(version=version, id=number, mode=mode, secret=secret, name="a client")


class Room:
    """A server's conversations, and memory for their clients."""

    def __init__(self) -> None:
        self.holders: dict[int, Handshake] = {}
        self.shared: Shared = share()
        self.opened: list[Handshake] = []
        self.given: list[int] = []

    def handshake(self, *messages: Message) -> Handshake:
        """Begin a conversation, and say something."""
        made = Handshake(INTERFACES, self.holders)
        self.opened.append(made)
        for message in messages:
            self.say(made, message)
        return made

    def say(self, to: Handshake, message: Message) -> Message:
        """Say something, with the descriptor that belongs to it."""
        if isinstance(message, AddRegion | AddRing):
            return to.answer(Received(message, self.descriptor()))
        return to.answer(Received(message))

    def descriptor(self) -> int:
        """Return a descriptor as it would have arrived: the memory's, good for everything."""
        self.given.append(os.dup(self.shared.memory))
        return self.given[-1]

    @property
    def region(self) -> AddRegion:
        return AddRegion(0, self.shared.size)

    def close(self) -> None:
        for each in self.opened:
            each.close()
        os.close(self.shared.memory)


@pytest.fixture
def room() -> Iterator[Room]:
    before = descriptors()
    made = Room()
    yield made
    made.close()
    assert descriptors() <= before


def descriptors() -> frozenset[tuple[int, str]]:
    """Return what is open; compare with ``<=``, because garbage of earlier tests may be collected at any time."""
    found = set()
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 -- no paths wanted
        with suppress(FileNotFoundError):  # the one by which the list was read
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))  # noqa: PTH115 -- likewise
    return frozenset(found)


class TestLink:
    def test_each_step_is_acknowledged_and_the_last_one_connects(self, room: Room) -> None:
        handshake = room.handshake()

        steps: list[Message] = [an_init(), room.region, *room.shared.rings]
        answers = [room.say(handshake, step) for step in steps]
        agreed = handshake.peer_interface
        last = room.say(handshake, Connect("memif0/0"))

        assert answers == [Ack()] * 4
        assert agreed is None
        assert last == Connected("memif0/1")
        assert (handshake.peer, handshake.peer_interface) == ("a client", "memif0/0")

    def test_the_first_word_says_what_is_possible(self) -> None:
        hello = Handshake.hello("x")

        assert isinstance(hello, Hello)
        assert (hello.lowest, hello.highest) == (0x0200, 0x0200)
        assert (hello.max_region, hello.max_server_to_client) == (MAX_REGION, MAX_RING)

    def test_several_rings_and_regions_are_possible_up_to_the_limits(self, room: Room) -> None:
        to_server, to_client = room.shared.rings
        handshake = room.handshake(an_init())
        for index in range(MAX_REGION + 1):
            room.say(handshake, AddRegion(index, room.shared.size))
        for index in range(MAX_RING + 1):
            room.say(handshake, another(to_server, index=index))

        assert room.say(handshake, to_client) == Ack()
        assert turned(room, handshake, AddRegion(MAX_REGION + 1, room.shared.size)) == "too many regions"
        assert turned(room, handshake, another(to_server, index=MAX_RING + 1)) == "too many rings"


class TestInit:
    @pytest.mark.parametrize(
        "init, reason",
        [
            (an_init(version=0x0100), "unsupported version"),
            (an_init(version=0x0300), "unsupported version"),
            (an_init(4), "unmatched interface id"),
            (an_init(mode=Mode.IP), "mode mismatch"),
            (an_init(3), "mode mismatch"),
            (an_init(mode=200), "mode mismatch"),
            (an_init(secret=None), "secret required"),
            (an_init(secret=Secret("TheRightSecret00002")), "incorrect secret"),
            (an_init(secret=Secret("TheRightSecret0000")), "incorrect secret"),
            (an_init(secret=Secret("TheRightSecret000011")), "incorrect secret"),
        ],
    )
    def test_what_does_not_fit_is_refused_in_vpps_words(self, room: Room, init: Init, reason: str) -> None:
        handshake = room.handshake()

        assert turned(room, handshake, init) == reason
        assert handshake.interface is None
        assert room.holders == {}

    def test_the_first_fault_in_vpps_order_is_named(self, room: Room) -> None:
        room.handshake(an_init())

        assert turned(room, room.handshake(), an_init(9, version=1)) == "unsupported version"
        assert turned(room, room.handshake(), an_init(mode=Mode.IP)) == "already connected"
        assert turned(room, room.handshake(), an_init(3, secret=None)) == "mode mismatch"

    def test_an_interface_without_a_secret_asks_for_none(self, room: Room) -> None:
        """VPP and DPDK take any then."""
        assert room.say(room.handshake(), an_init(2, secret=None)) == Ack()

    def test_an_interface_without_a_secret_takes_any(self, room: Room) -> None:
        assert room.say(room.handshake(), an_init(2)) == Ack()

    def test_an_interface_has_one_client_until_that_one_goes(self, room: Room) -> None:
        first, second = room.handshake(an_init()), room.handshake()
        assert turned(room, second, an_init()) == "already connected"

        second.close()
        assert room.holders == {1: first}

        first.close()
        assert room.say(room.handshake(), an_init()) == Ack()

    def test_a_secret_that_no_client_could_send_is_not_offered(self) -> None:
        with pytest.raises(Unencodable):
            Interface(id=1, secret=Secret("x" * 24))


class TestOrder:
    @pytest.mark.parametrize(
        "message",
        [
            Ack(),
            AddRegion(0, 4096),
            AddRing(flags=0, index=0, region=0, offset=0, log2_size=1),
            Connect("x"),
            Connected("x"),
            Handshake.hello("x"),
            Disconnect(0, ""),
        ],
    )
    def test_nothing_comes_before_init(self, room: Room, message: Message) -> None:
        assert turned(room, room.handshake(), message) == "unexpected message"

    @pytest.mark.parametrize("message", [an_init(2), Ack(), Connected("x"), Handshake.hello("x")])
    def test_init_is_said_once_and_servers_words_never(self, room: Room, message: Message) -> None:
        handshake = room.handshake(an_init())

        assert turned(room, handshake, message) == "unexpected message"
        assert room.holders == {1: handshake}

    def test_nothing_comes_after_connect(self, room: Room) -> None:
        handshake = room.handshake(an_init(), room.region, *room.shared.rings, Connect("x"))

        assert turned(room, handshake, AddRegion(1, 4096)) == "unexpected message"
        assert turned(room, handshake, Connect("x")) == "unexpected message"

    @pytest.mark.parametrize("missing", [0, 1])
    def test_a_link_has_a_ring_in_each_direction(self, room: Room, missing: int) -> None:
        handshake = room.handshake(an_init(), room.region, room.shared.rings[1 - missing])

        assert "missing" in turned(room, handshake, Connect("x"))
        assert handshake.peer_interface is None

    def test_a_region_comes_before_its_rings(self, room: Room) -> None:
        assert "unknown region" in turned(room, room.handshake(an_init()), room.shared.rings[0])

    def test_indices_follow_each_other(self, room: Room) -> None:
        handshake = room.handshake(an_init(), room.region, room.shared.rings[0])

        assert turned(room, handshake, room.region) == "unexpected region index"
        assert turned(room, handshake, AddRegion(2, 4096)) == "unexpected region index"
        assert turned(room, handshake, room.shared.rings[0]) == "unexpected ring index"
        assert turned(room, handshake, another(room.shared.rings[1], index=1)) == "unexpected ring index"

    def test_private_headers_are_not_supported(self, room: Room) -> None:
        handshake = room.handshake(an_init(), room.region)

        assert "private headers" in turned(room, handshake, another(room.shared.rings[0], private_header=8))

    @pytest.mark.parametrize(
        "message", [AddRegion(0, 4096), AddRing(flags=0, index=0, region=0, offset=0, log2_size=1)]
    )
    def test_a_missing_descriptor_is_named(self, room: Room, message: Message) -> None:
        handshake = room.handshake(an_init())

        with pytest.raises(Turned, match="descriptor is missing"):
            handshake.answer(Received(message))


class TestDescriptors:
    def test_a_descriptor_that_nobody_asked_for_is_closed(self, room: Room) -> None:
        handshake = room.handshake()

        handshake.answer(Received(an_init(), room.descriptor()))

        assert not is_open(room.given[-1])

    def test_a_descriptor_of_a_refused_message_is_closed(self, room: Room) -> None:
        handshake = room.handshake(an_init())

        for message in (AddRegion(0, 1 << 40), AddRegion(7, 4096), room.shared.rings[0], Connect("x"), Ack()):
            with pytest.raises(Turned):
                handshake.answer(Received(message, room.descriptor()))
            assert not is_open(room.given[-1])

    def test_what_was_accepted_is_held_until_the_end_and_closed_once(self, room: Room) -> None:
        handshake = room.handshake(an_init(), room.region, *room.shared.rings)
        held = [is_open(each) for each in room.given]

        handshake.close()
        reused = os.dup(room.shared.memory)
        handshake.close()

        assert held == [True] * 3
        assert is_open(reused)
        os.close(reused)

    @given(st.lists(st.tuples(st.binary(min_size=126, max_size=126), st.integers(1, 8), st.booleans()), max_size=12))
    def test_whatever_is_said_after_a_good_init_ends_in_an_answer_or_a_reason(
        self, said: list[tuple[bytes, int, bool]]
    ) -> None:
        """Descriptors and all: what came in goes out again."""
        before = descriptors()
        room = Room()
        handshake = room.handshake(an_init())
        for body, kind, with_descriptor in said:
            # Zeros end every text, so that the message is one; the numbers at its beginning are chance.
            message = decode(bytes([kind, 0]) + body[:14] + bytes(112))
            with suppress(Turned):
                assert encode(handshake.answer(Received(message, room.descriptor() if with_descriptor else None)))
        room.close()

        assert descriptors() <= before


def another(ring: AddRing, *, index: int = 0, private_header: int = 0) -> AddRing:
    return AddRing(
        flags=ring.flags,
        index=index,
        region=ring.region,
        offset=ring.offset,
        log2_size=ring.log2_size,
        private_header=private_header,
    )


def turned(room: Room, handshake: Handshake, message: Message) -> str:
    with pytest.raises(Turned) as caught:
        room.say(handshake, message)
    return str(caught.value)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
