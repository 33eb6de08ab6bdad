import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from adapters.filesystem.removal import Limits
from adapters.filesystem.sockets import FileSystemSockets
from domain.allocation import Directory
from tests.contract.sockets import ENTRIES_A_PASS, SocketsContract, Stage

STUCK = "stuck"


class _FileSystemStage:
    """A private directory of the real file system; only what needs mounts or immutable files is put on."""

    def __init__(self, place: str, mocker: MockerFixture) -> None:
        self.host_dir = f"{place}/memif"
        self.sockets = FileSystemSockets(monotonic=lambda: 0.0, limits=Limits(entries=ENTRIES_A_PASS))
        self._mocker = mocker
        self._stuck = False
        self._unlink = os.unlink
        mocker.patch("adapters.filesystem.removal.os.unlink", self._unlink_unless_stuck)

    def exists(self, directory: Directory) -> bool:
        return Path(directory.path).is_dir()

    def mode(self, directory: Directory) -> int:
        return stat.S_IMODE(Path(directory.path).stat().st_mode)

    def waiting(self) -> int:
        return len(list(Path(self.host_dir).glob(".gone-*")))

    def wipe(self) -> None:
        shutil.rmtree(self.host_dir)

    def runtime_makes(self, directory: Directory) -> int:
        path = Path(directory.path)
        path.parent.mkdir(0o711, exist_ok=True)
        path.mkdir()
        path.chmod(0o755)
        return path.stat().st_ino

    def put(self, directory: Directory, name: str, content: str) -> None:
        path = Path(directory.path, name)
        path.unlink(missing_ok=True)
        path.write_text(content, encoding="utf-8")

    def litter(self, directory: Directory, entries: int) -> None:
        for number in range(entries):
            Path(directory.path, f"litter-{number}").touch()

    def obstruct(self, directory: Directory) -> None:
        Path(directory.path, STUCK).touch()
        self._stuck = True

    def clear(self, _directory: Directory) -> None:
        self._stuck = False

    def fill(self) -> None:
        full = os.statvfs_result((4096, 4096, 1000, 60, 49, 1000, 900, 900, 0, 255))
        self._full = self._mocker.patch("adapters.filesystem.room.os.fstatvfs", return_value=full)

    def free(self) -> None:
        self._mocker.stop(self._full)

    def add_stranger(self, name: str) -> None:
        path = Path(self.host_dir, name)
        path.parent.mkdir(0o711, exist_ok=True)
        path.touch()

    def _unlink_unless_stuck(self, name: str, *, dir_fd: int | None = None) -> None:
        if self._stuck and name == STUCK:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        self._unlink(name, dir_fd=dir_fd)


class TestFileSystemSockets(SocketsContract):
    @pytest.fixture
    def stage(self, mocker: MockerFixture) -> Iterator[Stage]:
        with tempfile.TemporaryDirectory(prefix="memif-") as place:
            stage = _FileSystemStage(place, mocker)
            yield stage
            stage.sockets.close()
            mocker.stopall()
