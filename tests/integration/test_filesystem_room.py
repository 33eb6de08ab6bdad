"""Full file systems, really full ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.filesystem.sockets import FileSystemSockets
from domain.allocation import File
from domain.identity import AllocationId
from domain.ports.sockets import NoRoom
from tests.integration.filesystem import ONE, TWO, directory, names, needs_root, short_place, tmpfs

pytestmark = needs_root

THREE = AllocationId("zzzzzzzzzzzzzzzzzzzz")


@pytest.fixture
def sockets() -> Iterator[FileSystemSockets]:
    made = FileSystemSockets()
    yield made
    made.close()


@pytest.fixture
def place() -> Iterator[Path]:
    with short_place() as there:
        yield there


def test_without_space_nothing_is_made_and_the_hog_is_named(place: Path, sockets: FileSystemSockets) -> None:
    with tmpfs(place / "fs", "size=64k") as fs:
        base = fs / "memif"
        sockets.make(directory(base, TWO))
        (base / TWO / "log").write_bytes(b"x" * 64 * 1024)
        with pytest.raises(
            NoRoom, match=rf"{base} is short of space: 0\.0% is left, 5% .*{TWO} with 1 entries and 0\.1 M"
        ):
            sockets.make(directory(base))

        assert names(base) == {TWO}
        (base / TWO / "log").unlink()
        sockets.make(directory(base))
        sockets.close()


def test_without_inodes_nothing_is_made_and_the_hog_is_named(place: Path, sockets: FileSystemSockets) -> None:
    with tmpfs(place / "fs", "size=1m,nr_inodes=100") as fs:
        base = fs / "memif"
        sockets.make(directory(base))
        sockets.make(directory(base, TWO))
        (base / ONE / "big").write_bytes(b"x" * 100_000)
        for number in range(92):
            (base / TWO / f"{number}").touch()
        with pytest.raises(NoRoom, match=rf"short of inodes: 3\.0% is left.* {TWO} with 92 entries"):
            sockets.ensure(directory(base, THREE))

        assert names(base) == {ONE, TWO}
        sockets.close()


def test_room_that_runs_out_on_the_way_leaves_nothing(place: Path, sockets: FileSystemSockets) -> None:
    """5 % are left when it is looked, and the file is larger than that."""
    with tmpfs(place / "fs", "size=64k") as fs:
        base = fs / "memif"
        sockets.make(directory(base, TWO))
        with pytest.raises(NoRoom, match=rf"cannot make {base}/{ONE}: No space left on device; the largest"):
            sockets.make(directory(base, ONE, File(name="small", content="x"), File(name="big", content="x" * 70_000)))

        assert names(base) == {TWO}
        sockets.close()


def test_a_file_that_does_not_fit_leaves_the_directory_as_it_was(place: Path, sockets: FileSystemSockets) -> None:
    with tmpfs(place / "fs", "size=64k") as fs:
        base = fs / "memif"
        sockets.make(directory(base))
        with pytest.raises(NoRoom, match="cannot mend"):
            sockets.ensure(directory(base, ONE, File(name="big", content="x" * 70_000)))

        assert names(base / ONE) == set()
        sockets.close()


def test_no_limit_on_inodes_is_no_shortage(place: Path, sockets: FileSystemSockets) -> None:
    with tmpfs(place / "fs", "size=0,nr_inodes=0") as fs:
        sockets.make(directory(fs / "memif"))

        assert names(fs / "memif") == {ONE}
        sockets.close()


def test_a_base_that_cannot_be_made_for_lack_of_inodes_is_told(place: Path, sockets: FileSystemSockets) -> None:
    with tmpfs(place / "fs", "size=64k,nr_inodes=2") as fs:
        (fs / "file").touch()
        with pytest.raises(NoRoom, match="memif: No space left"):
            sockets.open(f"{fs}/memif")

        assert names(fs) == {"file"}


def test_removal_works_on_a_full_file_system(place: Path, sockets: FileSystemSockets) -> None:
    with tmpfs(place / "fs", "size=64k,nr_inodes=10") as fs:
        base = fs / "memif"
        sockets.make(directory(base))
        for number in range(7):
            (base / ONE / f"{number}").touch()
        with pytest.raises(OSError, match="No space"):
            (base / ONE / "one too many").touch()

        assert sockets.remove(directory(base)).done
        assert names(base) == set()
        sockets.close()
