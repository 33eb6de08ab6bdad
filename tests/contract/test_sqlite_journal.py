"""The journal in a file keeps the port's promises."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.journal.journal import SqliteJournal
from adapters.memory.clock import ManualClock
from tests.contract.journal import JournalContract, Stage


class _Stage:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._lives = 0
        self._clock = ManualClock()
        self._past: list[SqliteJournal] = []
        self.journal = SqliteJournal(self._path, self._clock)

    @property
    def _path(self) -> Path:
        return self._root / str(self._lives) / "state.db"

    def crash(self) -> None:
        """Go on with a copy of what lies on disk at this moment, which is all that a dead process leaves."""
        old = self._path.parent
        self._lives += 1
        shutil.copytree(old, self._path.parent)
        self._path.with_name("state.db-shm").unlink()  # its locks died with the process
        self._past.append(self.journal)
        self.journal = SqliteJournal(self._path, self._clock)

    def damage(self) -> None:
        self._path.write_bytes(b"\0\xff" * 4096)

    def obstruct(self) -> None:
        self._path.rename(self._path.with_name("away"))

    def clear(self) -> None:
        self._path.with_name("away").rename(self._path)

    def close(self) -> None:
        for each in (*self._past, self.journal):
            each.close()


class TestSqliteJournal(JournalContract):
    @pytest.fixture
    def stage(self, tmp_path: Path) -> Iterator[Stage]:
        stage = _Stage(tmp_path)
        yield stage
        stage.close()
