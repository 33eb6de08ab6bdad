"""Messages of the control protocol as values, and their bytes.

No input or output here.  Every message is 128 bytes: a 16-bit type and a packed body, little-endian, the rest zero.

What is strict and what is not follows from what the peers of this world send.  VPP, DPDK and libmemif fill whole,
zeroed messages, so size, type and the zero that ends each text are demanded.  None of them looks at what follows a
text's end or the body, and a later minor version may use it, so those bytes are not looked at here either.  Whether
numbers make sense (versions, modes, indices, flags) is for those who act on them to judge: they owe the peer an
answer, which a decoder cannot give.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias, assert_never

from adapters.memif.errors import Malformed, Unencodable
from domain.secret import LONGEST_SECRET, Secret

SIZE: Final = 128
"""Bytes of every message."""

VERSION: Final = 0x0200
"""Protocol version 2.0, the only one that anybody speaks."""

CLIENT_TO_SERVER: Final = 1
"""Flag of ADD_RING: packets travel from the client, which owns the memory, to the server."""

_TYPE: Final = struct.Struct("<H")
_HELLO: Final = struct.Struct("<32s5HB")
_INIT: Final = struct.Struct("<HIB24s32s")
_ADD_REGION: Final = struct.Struct("<HQ")
_ADD_RING: Final = struct.Struct("<3HIBH")
_NAME: Final = struct.Struct("<32s")
_DISCONNECT: Final = struct.Struct("<I96s")

_SECRET_BYTES: Final = LONGEST_SECRET + 1


class Type(IntEnum):
    """The first two bytes of a message."""

    ACK = 1
    HELLO = 2
    INIT = 3
    ADD_REGION = 4
    ADD_RING = 5
    CONNECT = 6
    CONNECTED = 7
    DISCONNECT = 8


class Mode(IntEnum):
    """What an interface carries."""

    ETHERNET = 0
    IP = 1
    PUNT_INJECT = 2


@dataclass(frozen=True, slots=True)
class Ack:
    """The server accepts the last message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The server's first word, right after it accepted the connection.

    Attributes:
        name: of the program, for people.
        lowest, highest: versions that it speaks.
        max_region: the highest index of a region; the next two likewise of rings.
        max_server_to_client: ring index.
        max_client_to_server: ring index.
        max_log2_ring_size: the binary logarithm of the most slots that a ring may have.
    """

    name: str
    lowest: int = VERSION
    highest: int = VERSION
    max_region: int
    max_server_to_client: int
    max_client_to_server: int
    max_log2_ring_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Init:
    """The client says which interface it wants.

    Attributes:
        id: of the interface; one socket serves many.
        mode: a :class:`Mode`, or what a peer calls one.
        secret: ``None`` if the client gives none.
        name: of the program, for people.
    """

    version: int = VERSION
    id: int
    mode: int = Mode.ETHERNET
    secret: Secret | None
    name: str


@dataclass(frozen=True, slots=True)
class AddRegion:
    """The client shares memory, whose descriptor comes with the message; ``size`` is in bytes."""

    index: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRing:
    """The client tells of a ring in a region; the descriptor of its interrupt comes with the message.

    Attributes:
        flags: :data:`CLIENT_TO_SERVER` or not; other bits are not in use.
        index: among the rings of its direction.
        region: the index of the region in which it lies.
        offset: bytes from the region's beginning.
        log2_size: the binary logarithm of its slots.
        private_header: bytes before each packet, which nobody uses.
    """

    flags: int
    index: int
    region: int
    offset: int
    log2_size: int
    private_header: int = 0


@dataclass(frozen=True, slots=True)
class Connect:
    """The client is ready; the text is its name for the interface."""

    interface: str


@dataclass(frozen=True, slots=True)
class Connected:
    """The server is ready, and the link is up; the text is its name for the interface."""

    interface: str


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Either end says why it hangs up."""

    code: int
    text: str


Message: TypeAlias = Ack | Hello | Init | AddRegion | AddRing | Connect | Connected | Disconnect


def encode(message: Message) -> bytes:
    """Return the bytes of a message.

    Names and reasons that are too long are cut, as every implementation does; a secret never is, because a cut one
    fits nowhere.

    Raises:
        Unencodable: a number is out of its range, or a text or secret cannot be written.
    """
    try:
        kind, body = _encoded(message)
    except struct.error as error:
        raise Unencodable(f"{type(message).__name__} has no form in the memif protocol: {error}") from error
    return (_TYPE.pack(kind) + body).ljust(SIZE, b"\0")


def decode(data: bytes) -> Message:
    """Return the message that bytes are.

    Texts are somebody else's and for people: what is not printable arrives escaped.

    Raises:
        Malformed: they are none; the message names the fault and repeats nothing of a secret.
    """
    if len(data) != SIZE:
        raise Malformed(f"a message of {len(data)} bytes; every memif message has {SIZE}")
    (number,) = _TYPE.unpack_from(data)
    try:
        kind = Type(number)
    except ValueError as error:
        raise Malformed(f"a message of type {number}, which memif 2.0 does not have") from error
    return _decoded(kind, data[_TYPE.size :])


def secret_field(secret: Secret | None) -> bytes:
    """Return a secret as it is on the wire, always 24 bytes, so that two can be compared in constant time.

    Raises:
        Unencodable: it is too long, or holds a zero.
    """
    octets = b"" if secret is None else secret.reveal().encode("utf-8", "surrogateescape")
    if len(octets) > LONGEST_SECRET or 0 in octets:
        raise Unencodable(f"the secret cannot be sent: memif secrets have at most {LONGEST_SECRET} bytes and no zero")
    return octets.ljust(_SECRET_BYTES, b"\0")


def spelled(version: int) -> str:
    """Return a version as people write it, such as ``2.0``."""
    return f"{version >> 8}.{version & 0xFF}"


def _encoded(message: Message) -> tuple[Type, bytes]:  # noqa: PLR0911 -- one line a type
    match message:
        case Ack():
            return Type.ACK, b""
        case Hello(name=name, lowest=lowest, highest=highest):
            limits = (message.max_region, message.max_server_to_client, message.max_client_to_server)
            return Type.HELLO, _HELLO.pack(_text(name, 32), lowest, highest, *limits, message.max_log2_ring_size)
        case Init(version=version, id=number, mode=mode, secret=secret, name=name):
            return Type.INIT, _INIT.pack(version, number, mode, secret_field(secret), _text(name, 32))
        case AddRegion(index, size):
            return Type.ADD_REGION, _ADD_REGION.pack(index, size)
        case AddRing(flags=flags, index=index, region=region, offset=offset):
            place = (flags, index, region, offset)
            return Type.ADD_RING, _ADD_RING.pack(*place, message.log2_size, message.private_header)
        case Connect(interface):
            return Type.CONNECT, _NAME.pack(_text(interface, 32))
        case Connected(interface):
            return Type.CONNECTED, _NAME.pack(_text(interface, 32))
        case Disconnect(code, text):
            return Type.DISCONNECT, _DISCONNECT.pack(code, _text(text, 96))
        case _:
            assert_never(message)


def _decoded(kind: Type, body: bytes) -> Message:  # noqa: PLR0911 -- one paragraph a type
    match kind:
        case Type.ACK:
            return Ack()
        case Type.HELLO:
            name, lowest, highest, region, to_client, to_server, log2_size = _HELLO.unpack_from(body)
            return Hello(
                name=_shown(name, "HELLO's name"),
                lowest=lowest,
                highest=highest,
                max_region=region,
                max_server_to_client=to_client,
                max_client_to_server=to_server,
                max_log2_ring_size=log2_size,
            )
        case Type.INIT:
            version, number, mode, secret, name = _INIT.unpack_from(body)
            return Init(version=version, id=number, mode=mode, secret=_secret(secret), name=_shown(name, "INIT's name"))
        case Type.ADD_REGION:
            return AddRegion(*_ADD_REGION.unpack_from(body))
        case Type.ADD_RING:
            flags, index, region, offset, log2_size, header = _ADD_RING.unpack_from(body)
            return AddRing(
                flags=flags, index=index, region=region, offset=offset, log2_size=log2_size, private_header=header
            )
        case Type.CONNECT:
            (name,) = _NAME.unpack_from(body)
            return Connect(_shown(name, "CONNECT's interface name"))
        case Type.CONNECTED:
            (name,) = _NAME.unpack_from(body)
            return Connected(_shown(name, "CONNECTED's interface name"))
        case Type.DISCONNECT:
            code, text = _DISCONNECT.unpack_from(body)
            return Disconnect(code, _shown(text, "DISCONNECT's text"))
        case _:
            assert_never(kind)


def _text(text: str, size: int) -> bytes:
    octets = text.encode("utf-8", "backslashreplace")
    if 0 in octets:
        raise Unencodable(f"{text!r} cannot be sent in a memif message: it holds a zero")
    # A character that the cut would split is left out whole.
    return octets[: size - 1].decode("utf-8", "ignore").encode()


def _shown(field: bytes, what: str) -> str:
    text = _ended(field, what).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _secret(field: bytes) -> Secret | None:
    octets = _ended(field, "INIT's secret")
    # Whatever the bytes are, they come back as they were when the secret is compared.
    return Secret(octets.decode("utf-8", "surrogateescape")) if octets else None


def _ended(field: bytes, what: str) -> bytes:
    text, end, _ = field.partition(b"\0")
    if not end:
        raise Malformed(f"{what} has no zero at its end")
    return text
