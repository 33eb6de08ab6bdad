"""The memory that the two ends share: how a client lays it out, and what a server checks before it believes it.

A region is a memfd of the client's.  A ring begins at a cache line: cookie, flags and head in the first one, tail in
the second, then 16 bytes for each slot.  Nothing here maps the memory: it is written and read like a file, so that no
peer can end this process by cutting it short.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from adapters.memif.codec import CLIENT_TO_SERVER, AddRing
from domain.errors import MemifError

COOKIE: Final = 0x3E31F20
"""The first four bytes of every ring."""

MAX_LOG2_RING_SIZE: Final = 14
"""What VPP and DPDK accept."""

_LOG2_SIZE: Final = 5
"""Slots of a ring of ours, as binary logarithm: few, because nothing is sent."""

_BUFFER: Final = 2048
"""Bytes of a packet buffer, VPP's and DPDK's default."""

_HEAD: Final = struct.Struct("<IHH56xH62x")
"""Cookie, flags, head; tail."""

_SLOT: Final = struct.Struct("<HHIII")
"""Flags, region, length, offset, metadata."""

_COOKIE: Final = struct.Struct("<I")


class Unbelievable(MemifError):
    """What a client says of its memory is not so; the text is for the client, and never leaves the package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Memory of our own, ready to be shared.

    Attributes:
        memory: descriptor of the memfd, the holder's to close.
        size: in bytes.
        rings: one in each direction.
    """

    memory: int
    size: int
    rings: tuple[AddRing, AddRing]


def ring_bytes(log2_size: int) -> int:
    """Return how much a ring of so many slots takes."""
    return _HEAD.size + (_SLOT.size << log2_size)


def share() -> Shared:
    """Make the smallest memory that is a whole link: a ring in each direction, and a buffer for each of their slots.

    Its size is sealed against shrinking, as libmemif and DPDK do, so that the server is safe from us.  Both rings are
    empty: we send nothing, and the server finds no buffer to put a packet into.

    Raises:
        OSError: the system is out of memory or descriptors.
    """
    slots, each = 1 << _LOG2_SIZE, ring_bytes(_LOG2_SIZE)
    size = 2 * each + 2 * slots * _BUFFER
    memory = os.memfd_create("memif region 0", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(memory, size)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        for ring in range(2):
            buffers = 2 * each + ring * slots * _BUFFER
            table = b"".join(_SLOT.pack(0, 0, _BUFFER, buffers + slot * _BUFFER, 0) for slot in range(slots))
            os.pwrite(memory, _HEAD.pack(COOKIE, 0, 0, 0) + table, ring * each)
    except BaseException:
        os.close(memory)
        raise
    to_server = AddRing(flags=CLIENT_TO_SERVER, index=0, region=0, offset=0, log2_size=_LOG2_SIZE)
    to_client = AddRing(flags=0, index=0, region=0, offset=each, log2_size=_LOG2_SIZE)
    return Shared(memory=memory, size=size, rings=(to_server, to_client))


def check_region(memory: int, size: int) -> None:
    """Make sure that a descriptor is memory of the size that its sender says.

    Only memory has seals, and asking for them waits for nobody, whatever the descriptor is.  Anything else (a pipe, a
    file on a file system of the peer's own making) could block whoever touches it.

    Raises:
        Unbelievable: it is not.
    """
    try:
        fcntl.fcntl(memory, fcntl.F_GET_SEALS)
        held = os.fstat(memory).st_size
    except OSError as error:
        raise Unbelievable(
            f"the region is no shared memory ({errno.errorcode.get(error.errno or 0, 'unknown')})"
        ) from error
    if not 0 < size <= held:
        raise Unbelievable("the region is smaller than it is said to be")


def check_ring(ring: AddRing, regions: Mapping[int, tuple[int, int]]) -> None:
    """Make sure that a ring lies within its region and begins as a ring does.

    Args:
        ring: as the client describes it.
        regions: descriptor and size of each, by index.

    Raises:
        Unbelievable: it does not.
    """
    if ring.log2_size > MAX_LOG2_RING_SIZE:
        raise Unbelievable("the ring is too large")
    if ring.region not in regions:
        raise Unbelievable("the ring lies in an unknown region")
    memory, size = regions[ring.region]
    if ring.offset + ring_bytes(ring.log2_size) > size:
        raise Unbelievable("the ring does not lie within its region")
    try:
        head = os.pread(memory, _COOKIE.size, ring.offset)
    except OSError as error:
        raise Unbelievable("the ring cannot be read") from error
    if head != _COOKIE.pack(COOKIE):
        raise Unbelievable("the ring has a wrong cookie")
