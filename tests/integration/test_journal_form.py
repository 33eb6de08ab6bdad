"""The form of the journal's file, and what is made of a form that is newer than ours."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.journal import schema
from adapters.journal.journal import SqliteJournal
from adapters.journal.reading import read
from adapters.memory.clock import ManualClock
from domain.ledger import Standing
from domain.ports.journal import JournalUnusable, Recovered
from tests.contract.journal_values import FULL, FULL_OWNER, FULL_POOL, numbered
from tests.integration.journal import altered, filled


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "state.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def journal(path: Path, clock: ManualClock) -> Iterator[SqliteJournal]:
    journal = SqliteJournal(path, clock)
    yield journal
    journal.close()


class TestANewerMinorVersion:
    """Minor versions only add columns that may be left out."""

    @pytest.fixture
    def newer(self, journal: SqliteJournal, path: Path) -> Path:
        filled(journal)
        altered(
            path,
            "ALTER TABLE allocation ADD COLUMN colour TEXT DEFAULT 'grey'",
            "ALTER TABLE pool ADD COLUMN colour TEXT",
            "CREATE TABLE weather (day TEXT)",
            "UPDATE allocation SET colour = 'red'",
            "UPDATE pool SET colour = 'blue'",
            "PRAGMA user_version = 142",
        )
        return path

    def test_is_opened(self, journal: SqliteJournal, newer: Path) -> None:
        assert newer.exists()
        assert journal.open() == Recovered(allocations=((numbered(1), Standing.LIVE),), pools=(FULL_POOL,))

    def test_keeps_what_we_do_not_know(self, journal: SqliteJournal, newer: Path) -> None:
        journal.open()
        journal.own(numbered(1).id, FULL_OWNER)
        journal.stand([numbered(1).id], Standing.RELEASING)
        journal.use([FULL_POOL])
        journal.add([numbered(2)])
        journal.close()
        with closing(sqlite3.connect(newer)) as connection:
            colours = connection.execute("SELECT standing, name, colour FROM allocation ORDER BY seq").fetchall()
            pools = connection.execute("SELECT colour FROM pool").fetchall()
            version = connection.execute("PRAGMA user_version").fetchone()

        assert colours == [("releasing", "cnf", "red"), ("live", None, "grey")]
        assert pools == [("blue",)]
        assert version == (142,)

    def test_is_known_by_its_log_too(self, journal: SqliteJournal, path: Path) -> None:
        """The version is read as SQLite sees it: that of a process that was killed may be in the log only."""
        filled(journal)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA user_version = 200")
            copy = {each.name: each.read_bytes() for each in path.parent.iterdir() if not each.name.endswith("-shm")}
        for name, content in copy.items():
            (path.parent / name).write_bytes(content)

        assert path.read_bytes()[60:64] == (101).to_bytes(4, "big")
        assert "newer format 2.0" in (journal.open().set_aside or "")


class TestAnOlderMinorVersion:
    """What it lacks was not there to be configured."""

    @pytest.fixture
    def older(self, journal: SqliteJournal, path: Path) -> Path:
        filled(journal)
        altered(path, "ALTER TABLE pool DROP COLUMN device_info_dir", "PRAGMA user_version = 100")
        return path

    def test_is_opened_and_made_complete(self, journal: SqliteJournal, older: Path) -> None:
        expected = replace(FULL_POOL, device_info_dir=None)
        assert journal.open() == Recovered(allocations=((numbered(1), Standing.LIVE),), pools=(expected,))
        journal.use([FULL_POOL])
        journal.close()

        assert journal.open().pools == (FULL_POOL,)
        with closing(sqlite3.connect(older)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (101,)

    def test_is_read_as_it_is_by_who_only_reads(self, older: Path) -> None:
        before = older.read_bytes()

        assert read(older).pools == (replace(FULL_POOL, device_info_dir=None),)
        assert older.read_bytes() == before

    def test_that_cannot_be_completed_now_is_completed_later(self, journal: SqliteJournal, older: Path) -> None:
        assert journal.open().allocations == ((numbered(1), Standing.LIVE),)
        with closing(sqlite3.connect(older, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # somebody writes, longer than the journal waits
            with pytest.raises(JournalUnusable, match="keeps it locked"):
                journal.use([FULL_POOL])
            other.execute("ROLLBACK")
        journal.use([FULL_POOL])

        assert read(older).pools == (FULL_POOL,)


class TestForm:
    def test_a_new_file_says_whose_it_is_and_in_which_version(self, journal: SqliteJournal, path: Path) -> None:
        journal.open()
        journal.close()
        head = path.read_bytes()[:100]

        assert head[60:64] == (101).to_bytes(4, "big")
        assert head[68:72] == b"memf"

    def test_it_is_kept_in_write_ahead_mode(self, journal: SqliteJournal, path: Path) -> None:
        filled(journal)
        altered(path, "PRAGMA journal_mode = DELETE")
        journal.open()
        journal.add([FULL])

        assert path.with_name("state.db-wal").stat().st_size

    def test_the_statements_name_every_column_of_a_new_file(self, journal: SqliteJournal, path: Path) -> None:
        journal.open()
        journal.close()
        with closing(sqlite3.connect(path)) as connection:
            columns = {
                table: tuple(row[1] for row in connection.execute(f"PRAGMA table_info({table})"))
                for table in ("allocation", "pool")
            }

        assert columns == {"allocation": ("seq", *schema.ALLOCATION_COLUMNS), "pool": schema.POOL_COLUMNS}
