"""What the plugin leaves on a node, and how it is removed: only what is ours, and only if nobody is behind it."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.control import sockets as control_sockets
from adapters.filesystem.bases import FileSystemBases
from adapters.journal import place
from adapters.memory.node.front import leave_stale_socket
from adapters.system.traces import FileTraces, existing
from domain.ports.sockets import DirectoryUnusable
from tests.integration.filesystem import needs_root, short_place, tmpfs


@pytest.fixture
def here() -> Iterator[Path]:
    with short_place() as made:
        yield made


def below(directory: Path) -> FileTraces:
    """Return traces that are all files in a directory."""
    return FileTraces(lambda: [str(each) for each in directory.iterdir() if not each.is_dir()])


class TestFiles:
    def test_they_go_and_so_does_their_directory(self, here: Path) -> None:
        state = here / "state"
        state.mkdir()
        (state / "state.db").touch()
        traces = below(state)

        assert traces.there() == (f"{state}/state.db",)
        taken = traces.remove()

        assert (taken.removed, taken.obstacles) == ((f"{state}/state.db", str(state)), ())
        assert not state.exists()

    def test_a_directory_with_something_else_in_it_stays(self, here: Path) -> None:
        (here / "state.db").touch()
        (here / "other").mkdir()

        assert below(here).remove().removed == (f"{here}/state.db",)

    def test_a_directory_of_others_stays_although_it_is_empty(self, here: Path) -> None:
        leave_stale_socket(here / "a.sock")
        FileTraces(lambda: existing(f"{here}/a.sock"), in_place_of_others=True).remove()

        assert list(here.iterdir()) == []

    def test_what_vanishes_meanwhile_is_no_obstacle(self, here: Path) -> None:
        assert FileTraces(lambda: (f"{here}/gone",)).remove().obstacles == ()

    def test_what_cannot_be_removed_is_told_and_the_rest_goes(self, here: Path) -> None:
        (here / "directory").mkdir()
        (here / "file").touch()

        taken = FileTraces(lambda: (f"{here}/directory", f"{here}/file")).remove()

        assert taken.removed == (f"{here}/file",)
        assert taken.obstacles == (f"{here}/directory: Is a directory",)


class TestTheJournal:
    def test_everything_that_it_ever_makes_is_found(self, here: Path) -> None:
        ours = {
            "state.db",
            "state.db-wal",
            "state.db-shm",
            "state.db.new",
            "state.db.20300102T030405Z.bad",
            "state.db.20300102T030405Z.bad-wal",
        }
        for name in ours | {"state.db.bak", "lock", "other.db"}:
            (here / name).touch()

        assert set(place.left_behind(f"{here}/state.db")) == {f"{here}/{name}" for name in ours}

    def test_where_there_is_no_directory_there_is_nothing(self) -> None:
        assert place.left_behind("/nowhere/state.db") == ()


class TestControlSockets:
    def test_a_dead_one_is_left_behind_and_a_living_one_is_not(self, here: Path) -> None:
        dead, alive, file, missing = (str(here / name) for name in ("dead", "alive", "file", "missing"))
        leave_stale_socket(Path(dead))
        Path(file).touch()
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(alive)
            server.listen()
            paths = (dead, alive, file, missing)

            assert control_sockets.left_behind(paths) == (dead,)
            assert control_sockets.living(paths) == (alive,)


class TestBaseDirectories:
    bases = FileSystemBases()

    def test_one_that_is_there(self, here: Path) -> None:
        (here / "memif").mkdir(mode=0o711)

        assert self.bases.exists(f"{here}/memif/")
        assert self.bases.remove(f"{here}/memif/")
        assert not self.bases.exists(f"{here}/memif")
        assert not (here / "memif").exists()

    def test_one_that_is_not_there_is_gone_already(self, here: Path) -> None:
        assert self.bases.remove(f"{here}/memif")

    def test_one_in_which_something_lies_stays(self, here: Path) -> None:
        (here / "memif" / "other").mkdir(parents=True)

        assert not self.bases.remove(f"{here}/memif")

    def test_a_link_is_none_and_stays(self, here: Path) -> None:
        (here / "memif").symlink_to("/tmp")

        with pytest.raises(DirectoryUnusable, match="symbolic link"):
            self.bases.exists(f"{here}/memif")
        assert not self.bases.remove(f"{here}/memif")
        assert os.path.lexists(here / "memif")

    @needs_root
    def test_a_mount_point_stays(self, here: Path) -> None:
        with tmpfs(here / "memif", "size=1m,mode=711") as there:
            assert self.bases.exists(str(there))
            assert not self.bases.remove(str(there))
