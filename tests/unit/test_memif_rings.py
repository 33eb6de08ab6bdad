"""The memory that two ends of a memif link share."""

import fcntl
import os
import struct
from collections.abc import Iterator

import pytest

from adapters.memif.codec import CLIENT_TO_SERVER, AddRing
from adapters.memif.rings import COOKIE, Shared, Unbelievable, check_region, check_ring, ring_bytes, share


@pytest.fixture
def shared() -> Iterator[Shared]:
    made = share()
    yield made
    os.close(made.memory)


def a_ring(*, offset: int = 0, log2_size: int = 1, region: int = 0) -> AddRing:
    return AddRing(flags=CLIENT_TO_SERVER, index=0, region=region, offset=offset, log2_size=log2_size)


class TestOurs:
    def test_a_ring_in_each_direction_begins_with_the_cookie_at_a_cache_line(self, shared: Shared) -> None:
        assert [ring.flags for ring in shared.rings] == [CLIENT_TO_SERVER, 0]
        for ring in shared.rings:
            assert ring.offset % 64 == 0
            cookie, flags, head = struct.unpack("<IHH", os.pread(shared.memory, 8, ring.offset))
            (tail,) = struct.unpack("<H", os.pread(shared.memory, 2, ring.offset + 64))
            assert (cookie, flags, head, tail) == (0x3E31F20, 0, 0, 0)

    def test_every_slot_has_a_buffer_of_its_own_behind_the_rings(self, shared: Shared) -> None:
        """A peer that writes into a slot's buffer must hit neither a ring nor another buffer."""
        spans = [(ring.offset, ring_bytes(ring.log2_size)) for ring in shared.rings]
        for ring in shared.rings:
            for slot in range(1 << ring.log2_size):
                flags, region, length, offset, metadata = struct.unpack(
                    "<HHIII", os.pread(shared.memory, 16, ring.offset + 128 + 16 * slot)
                )
                assert (flags, region, metadata) == (0, 0, 0)
                assert length == 2048
                spans.append((offset, length))
        spans.sort()

        ends = [start + length for start, length in spans]
        assert all(end <= start for end, (start, _) in zip(ends, spans[1:], strict=False))
        assert ends[-1] == shared.size == os.fstat(shared.memory).st_size

    def test_it_cannot_be_cut_short_under_the_server(self, shared: Shared) -> None:
        with pytest.raises(PermissionError):
            os.ftruncate(shared.memory, 1)

    def test_it_passes_the_checks_of_a_server(self, shared: Shared) -> None:
        check_region(shared.memory, shared.size)
        for ring in shared.rings:
            check_ring(ring, {0: (shared.memory, shared.size)})


class TestRegions:
    @pytest.mark.parametrize("size", [0, 4097, 1 << 63])
    def test_a_size_that_the_memory_does_not_have_is_not_believed(self, size: int) -> None:
        memory = os.memfd_create("m")
        os.ftruncate(memory, 4096)
        try:
            with pytest.raises(Unbelievable, match="smaller"):
                check_region(memory, size)
        finally:
            os.close(memory)

    def test_only_memory_is_accepted(self) -> None:
        """Reading anything else, such as a pipe, could block for ever."""
        others = [*os.pipe(), os.open("/dev/zero", os.O_RDWR), os.open("/proc/self/stat", os.O_RDONLY)]
        try:
            for other in others:
                with pytest.raises(Unbelievable, match=r"no shared memory \(E"):
                    check_region(other, 1)
        finally:
            for other in others:
                os.close(other)

    def test_sealing_is_not_demanded(self) -> None:
        """An old libmemif does not seal; nothing is mapped, so nothing can be pulled away."""
        memory = os.memfd_create("m", 0)
        os.ftruncate(memory, 4096)
        try:
            assert fcntl.fcntl(memory, fcntl.F_GET_SEALS) == fcntl.F_SEAL_SEAL
            check_region(memory, 4096)
        finally:
            os.close(memory)


class TestRings:
    def test_the_last_byte_of_a_ring_lies_within_its_region(self, shared: Shared) -> None:
        size = ring_bytes(1)

        check_ring(a_ring(), {0: (shared.memory, size)})
        with pytest.raises(Unbelievable, match="within"):
            check_ring(a_ring(), {0: (shared.memory, size - 1)})

    @pytest.mark.parametrize(
        "ring, fault",
        [
            (a_ring(region=1), "unknown region"),
            (a_ring(log2_size=15), "too large"),
            (a_ring(log2_size=255), "too large"),
            (a_ring(offset=1 << 31), "within"),
            (a_ring(offset=64), "cookie"),
        ],
    )
    def test_a_ring_that_is_none_is_not_believed(self, shared: Shared, ring: AddRing, fault: str) -> None:
        with pytest.raises(Unbelievable, match=fault):
            check_ring(ring, {0: (shared.memory, shared.size)})

    def test_memory_that_was_cut_short_meanwhile_has_no_cookie(self) -> None:
        memory = os.memfd_create("m")
        try:
            os.pwrite(memory, struct.pack("<I", COOKIE), 0)
            os.ftruncate(memory, 4096)
            check_ring(a_ring(), {0: (memory, 4096)})
            os.ftruncate(memory, 2)
            with pytest.raises(Unbelievable, match="cookie"):
                check_ring(a_ring(), {0: (memory, 4096)})
        finally:
            os.close(memory)
