"""The messages of the memif control protocol and their bytes."""

import struct
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adapters.memif.codec import (
    CLIENT_TO_SERVER,
    SIZE,
    VERSION,
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
    secret_field,
    spelled,
)
from adapters.memif.errors import Malformed, Unencodable
from domain.secret import SECRET_ALPHABET, Secret

SECRET = Secret("RecordedSecret012345678")

RECORDED: dict[str, tuple[str, Message]] = {
    "HELLO": (
        "02004450444b2032322e31312e31310000000000000000000000000000000000000000020002ff00ff00ff000e",
        Hello(
            name="DPDK 22.11.11",
            max_region=255,
            max_server_to_client=255,
            max_client_to_server=255,
            max_log2_ring_size=14,
        ),
    ),
    "INIT": (
        "0300000207000000005265636f72646564536563726574303132333435363738004450444b2032322e31312e3131",
        Init(id=7, secret=SECRET, name="DPDK 22.11.11"),
    ),
    "ACK": ("01", Ack()),
    "ADD_REGION": ("04000000008140", AddRegion(0, 2 * (128 + 16 * 1024) + 2 * 1024 * 2048)),
    "ADD_RING, to the server": (
        "0500010000000000000000000a",
        AddRing(flags=CLIENT_TO_SERVER, index=0, region=0, offset=0, log2_size=10),
    ),
    "ADD_RING, to the client": (
        "0500000000000000804000000a",
        AddRing(flags=0, index=0, region=0, offset=128 + 16 * 1024, log2_size=10),
    ),
    "CONNECT": ("06006e65745f6d656d696637", Connect("net_memif7")),
    "CONNECTED": ("07006e65745f6d656d696637", Connected("net_memif7")),
    "DISCONNECT": ("0800000000004944206e6f7420666f756e64", Disconnect(0, "ID not found")),
}
"""What two testpmd of DPDK 22.11 sent each other, without the zeros at the end."""


def octets(most: int) -> st.SearchStrategy[int]:
    return st.integers(min_value=0, max_value=most)


U8, U16, U32, U64 = octets(0xFF), octets(0xFFFF), octets(0xFFFF_FFFF), octets(0xFFFF_FFFF_FFFF_FFFF)


def texts(most: int) -> st.SearchStrategy[str]:
    """Texts that fit into a field, and that people can read."""
    letters = st.characters(exclude_categories=("C", "Z"))
    return st.text(letters, max_size=most // 4).filter(str.isprintable)


SECRETS = st.binary(min_size=1, max_size=23).filter(lambda octets: 0 not in octets)
NAMES = texts(32)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.just(Ack()),
    st.builds(
        Hello,
        name=NAMES,
        lowest=U16,
        highest=U16,
        max_region=U16,
        max_server_to_client=U16,
        max_client_to_server=U16,
        max_log2_ring_size=U8,
    ),
    st.builds(
        Init,
        version=U16,
        id=U32,
        mode=U8,
        secret=st.none() | SECRETS.map(lambda octets: Secret(octets.decode("utf-8", "surrogateescape"))),
        name=NAMES,
    ),
    st.builds(AddRegion, U16, U64),
    st.builds(AddRing, flags=U16, index=U16, region=U16, offset=U32, log2_size=U8, private_header=U16),
    st.builds(Connect, NAMES),
    st.builds(Connected, NAMES),
    st.builds(Disconnect, U32, texts(96)),
)


class TestBytes:
    @pytest.mark.parametrize("name", RECORDED)
    def test_a_recorded_message_is_read_and_written_as_dpdk_writes_it(self, name: str) -> None:
        recorded, message = RECORDED[name]
        data = bytes.fromhex(recorded).ljust(SIZE, b"\0")

        assert decode(data) == message
        assert encode(message) == data

    @given(MESSAGES)
    def test_every_message_comes_back_as_it_was_sent(self, message: Message) -> None:
        data = encode(message)

        assert len(data) == SIZE
        assert decode(data) == message

    @given(st.binary() | st.binary(min_size=SIZE, max_size=SIZE))
    def test_whatever_arrives_is_a_message_or_malformed(self, data: bytes) -> None:
        check_total(data)

    @given(octets(9), st.binary(min_size=SIZE - 2, max_size=SIZE - 2))
    @example(3, b"\xff" * 31 + b"\xed\xa0\x80\0".ljust(95, b"\0"))
    def test_whatever_a_known_type_carries_is_a_message_or_malformed(self, kind: int, body: bytes) -> None:
        check_total(struct.pack("<H", kind) + body)

    @given(SECRETS)
    def test_a_secret_of_any_bytes_compares_as_it_was_sent(self, octets: bytes) -> None:
        """Other programs' users may choose what ours would not."""
        data = bytearray(encode(Init(id=1, secret=None, name="")))
        data[9 : 9 + len(octets)] = octets

        message = decode(bytes(data))

        assert isinstance(message, Init)
        assert secret_field(message.secret) == octets.ljust(24, b"\0")


class TestStrictness:
    @pytest.mark.parametrize("size", [0, 1, 2, 127, 129, 256])
    def test_a_message_has_128_bytes(self, size: int) -> None:
        with pytest.raises(Malformed, match=f"{size} bytes"):
            decode(b"\x01".ljust(size, b"\0")[:size])

    @pytest.mark.parametrize("kind", [0, 9, 0x0100, 0xFFFF])
    def test_an_unknown_type_is_refused(self, kind: int) -> None:
        with pytest.raises(Malformed, match=f"type {kind},"):
            decode(struct.pack("<H", kind).ljust(SIZE, b"\0"))

    @pytest.mark.parametrize(
        "name, start, size, what",
        [
            ("HELLO", 2, 32, "HELLO's name"),
            ("INIT", 9, 24, "INIT's secret"),
            ("INIT", 33, 32, "INIT's name"),
            ("CONNECT", 2, 32, "CONNECT's interface name"),
            ("CONNECTED", 2, 32, "CONNECTED's interface name"),
            ("DISCONNECT", 6, 96, "DISCONNECT's text"),
        ],
    )
    def test_a_text_ends_with_a_zero_within_its_field(self, name: str, start: int, size: int, what: str) -> None:
        """Every peer leaves room for it; a program that copies to the zero would read on past the field."""
        data = bytearray(encode(RECORDED[name][1]))
        data[start : start + size - 1] = b"X" * (size - 1)
        decode(bytes(data))
        data[start + size - 1] = ord("X")

        with pytest.raises(Malformed, match=what) as caught:
            decode(bytes(data))

        assert "XXX" not in str(caught.value)

    @pytest.mark.parametrize("name", RECORDED)
    def test_what_follows_the_body_is_not_looked_at(self, name: str) -> None:
        """VPP, DPDK and libmemif do not look at it either, and a later minor version may use it."""
        recorded, message = RECORDED[name]
        body = {"ACK": 2, "HELLO": 45, "INIT": 65, "ADD_REGION": 12, "CONNECT": 34, "CONNECTED": 34, "DISCONNECT": 102}
        size = body.get(name, 15)

        assert decode(bytes.fromhex(recorded).ljust(size, b"\0").ljust(SIZE, b"\xaa")) == message

    def test_what_follows_a_texts_end_is_not_looked_at(self) -> None:
        data = bytearray(encode(Connect("memif1")))
        data[9:34] = b"\xff" * 25

        assert decode(bytes(data)) == Connect("memif1")


class TestTexts:
    def test_unprintable_characters_of_a_peer_arrive_escaped(self) -> None:
        """A pod may be the peer, and the text is shown on an operator's terminal."""
        data = bytearray(encode(Disconnect(0, "")))
        data[6:36] = b"\x1b[2Jno\n\xff\xc2\x9b\xe2\x80\xaey\xc3\xa4\0".ljust(30, b"\0")

        message = decode(bytes(data))

        assert message == Disconnect(0, r"\x1b[2Jno\n\xff\x9b\u202eyä")

    def test_a_long_name_is_cut_between_two_characters(self) -> None:
        assert decode(encode(Connect("x" * 40))) == Connect("x" * 31)
        assert decode(encode(Connect("x" * 30 + "ä"))) == Connect("x" * 30)

    def test_a_long_reason_is_cut(self) -> None:
        assert decode(encode(Disconnect(3, "x" * 200))) == Disconnect(3, "x" * 95)

    def test_a_name_with_a_zero_is_not_sent(self) -> None:
        with pytest.raises(Unencodable, match="zero"):
            encode(Connect("a\0b"))


class TestSecrets:
    def test_a_secret_of_23_bytes_is_sent_whole(self) -> None:
        assert secret_field(SECRET) == b"RecordedSecret012345678\0"

    @pytest.mark.parametrize("text", ["x" * 24, "ä" * 12, "a\0b"])
    def test_a_secret_that_does_not_fit_is_never_cut(self, text: str) -> None:
        """VPP's command line cuts it, and the two ends never meet."""
        with pytest.raises(Unencodable, match="23 bytes") as caught:
            encode(Init(id=1, secret=Secret(text), name=""))

        assert text not in str(caught.value)

    def test_no_secret_is_all_zeros(self) -> None:
        assert secret_field(None) == secret_field(Secret("")) == bytes(24)
        assert decode(encode(Init(id=1, secret=Secret(""), name=""))) == Init(id=1, secret=None, name="")

    @given(st.text(SECRET_ALPHABET, min_size=16, max_size=23))
    def test_a_message_does_not_show_its_secret(self, text: str) -> None:
        message = Init(id=1, secret=Secret(text), name="")

        assert text not in f"{message}{message!r}{decode(encode(message))!r}"


class TestNumbers:
    @pytest.mark.parametrize(
        "message",
        [
            Init(id=1 << 32, secret=SECRET, name=""),
            Init(id=-1, secret=SECRET, name=""),
            AddRegion(0, 1 << 64),
            AddRing(flags=0, index=1 << 16, region=0, offset=0, log2_size=0),
            Disconnect(-1, ""),
        ],
    )
    def test_a_number_out_of_its_range_is_not_sent(self, message: Message) -> None:
        with pytest.raises(Unencodable, match=type(message).__name__) as caught:
            encode(message)

        assert SECRET.reveal() not in str(caught.value)

    def test_a_mode_that_nobody_knows_is_the_receivers_to_judge(self) -> None:
        """So that it can answer; see VPP's "mode mismatch"."""
        assert decode(encode(Init(id=1, mode=200, secret=None, name=""))) == Init(id=1, mode=200, secret=None, name="")
        assert Mode(0) is Mode.ETHERNET

    def test_versions_are_written_as_people_write_them(self) -> None:
        assert spelled(VERSION) == "2.0"
        assert spelled(0x0113) == "1.19"


def check_total(data: bytes) -> None:
    """Anything but :class:`Malformed` fails the test that asks."""
    with suppress(Malformed):
        message = decode(data)
        # What was understood can be said again, and is the same kind of message to the next reader.
        assert type(decode(encode(message))) is type(message)
