"""What happens to the journal's file while it is in use."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.journal.journal import SqliteJournal
from adapters.memory.clock import ManualClock
from domain.ledger import Standing
from domain.ports.journal import JournalUnusable, Recovered
from tests.contract.journal_values import FULL_POOL, numbered
from tests.integration.journal import filled


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


def test_one_that_was_removed_is_named_until_it_is_opened_anew(journal: SqliteJournal, path: Path) -> None:
    journal.open()
    journal.add([numbered(1)])
    path.unlink()
    for _ in range(2):
        with pytest.raises(JournalUnusable, match=r"state\.db cannot be used: it was removed while in use"):
            journal.add([numbered(2)])

    assert journal.open() == Recovered()
    journal.add([numbered(2)])


def test_one_that_was_replaced_is_left_alone_until_it_is_opened_anew(
    journal: SqliteJournal, path: Path, clock: ManualClock
) -> None:
    other = SqliteJournal(path.with_name("other.db"), clock)
    filled(other)
    journal.open()
    path.with_name("other.db").rename(path)
    with pytest.raises(JournalUnusable, match="replaced by another file"):
        journal.add([numbered(2)])

    assert journal.open().allocations == ((numbered(1), Standing.LIVE),)


def test_a_directory_that_was_removed_is_named(journal: SqliteJournal, path: Path) -> None:
    journal.open()
    path.parent.rename(path.parent.with_name("moved"))
    with pytest.raises(JournalUnusable, match="removed while in use"):
        journal.add([numbered(2)])


@pytest.mark.parametrize("companion", ["state.db-wal", "state.db-shm"])
def test_a_companion_that_was_removed_costs_nothing(journal: SqliteJournal, path: Path, companion: str) -> None:
    """SQLite would go on writing to a log without a name, and a crash would lose it."""
    journal.open()
    journal.add([numbered(1)])
    path.with_name(companion).unlink()
    journal.add([numbered(2)])
    left = {each.name for each in path.parent.iterdir()}

    assert left == {"state.db", "state.db-wal", "state.db-shm"}
    assert journal.open().allocations == ((numbered(1), Standing.LIVE), (numbered(2), Standing.LIVE))


def test_another_process_may_look_at_it(journal: SqliteJournal, path: Path) -> None:
    journal.open()
    journal.add([numbered(1)])
    with closing(sqlite3.connect(path)) as connection:
        seen = connection.execute("SELECT id FROM allocation").fetchall()
        journal.add([numbered(2)])

    assert seen == [(numbered(1).id,)]


def test_one_that_is_locked_is_reported_and_works_again(
    journal: SqliteJournal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.journal.journal._PATIENCE", 0.01)
    journal.open()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalUnusable, match="another process keeps it locked"):
            journal.add([numbered(1)])
    journal.add([numbered(1)])

    assert journal.open().allocations == ((numbered(1), Standing.LIVE),)


@pytest.mark.parametrize("first", [pytest.param(0, id="header"), pytest.param(100, id="schema")])
def test_one_that_was_damaged_is_reported_and_set_aside_at_the_next_start(
    journal: SqliteJournal, path: Path, first: int
) -> None:
    filled(journal)
    journal.open()
    with path.open("r+b") as file:
        file.seek(first)
        file.write(b"\xa5" * (path.stat().st_size - first))
    path.with_name("state.db-shm").unlink()
    for _ in range(2):
        with pytest.raises(JournalUnusable, match="restart the daemon, which"):
            journal.add([numbered(2)])

    assert journal.open().set_aside is not None
    journal.add([numbered(2)])


def test_a_value_that_cannot_be_stored_leaves_no_transaction_open(journal: SqliteJournal, path: Path) -> None:
    """A lone surrogate, as JSON can carry one, is no text for SQLite."""
    journal.open()
    with pytest.raises(UnicodeEncodeError):
        journal.use([replace(FULL_POOL, host_dir="\ud800")])
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    journal.use([FULL_POOL])

    assert journal.open().pools == (FULL_POOL,)


def test_no_descriptor_is_left_over(journal: SqliteJournal, path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        filled(journal)
        journal.open()
        path.unlink()
        with pytest.raises(JournalUnusable):
            journal.add([numbered(1)])
        journal.close()
        path.write_bytes(b"damage")
        journal.open()
        journal.close()

    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("back", [True, False])
def test_being_checked_one_that_was_removed_is_told_at_once(journal: SqliteJournal, path: Path, *, back: bool) -> None:
    """No change has to fail first.  The same file in its place again is as good as ever."""
    journal.open()
    path.rename(path.with_name("away"))
    for _ in range(2):
        with pytest.raises(JournalUnusable, match=r"state\.db cannot be used: it was removed while in use"):
            journal.check()
    if back:
        path.with_name("away").rename(path)
    else:
        journal.open()

    journal.check()


def test_being_checked_one_that_was_replaced_is_told_at_once(
    journal: SqliteJournal, path: Path, clock: ManualClock
) -> None:
    filled(SqliteJournal(path.with_name("other.db"), clock))
    journal.open()
    path.with_name("other.db").rename(path)

    with pytest.raises(JournalUnusable, match="replaced by another file"):
        journal.check()


def test_being_checked_one_that_is_locked_is_told_after_a_change_that_failed(
    journal: SqliteJournal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.journal.journal._PATIENCE", 0.01)
    journal.open()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        journal.check()
        with pytest.raises(JournalUnusable, match="another process keeps it locked"):
            journal.add([numbered(1)])
        with pytest.raises(JournalUnusable, match="another process keeps it locked"):
            journal.check()

    journal.check()


def test_being_checked_one_that_was_damaged_is_told_after_a_change_that_failed(
    journal: SqliteJournal, path: Path
) -> None:
    filled(journal)
    journal.open()
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * (path.stat().st_size - 100))
    path.with_name("state.db-shm").unlink()
    with pytest.raises(JournalUnusable):
        journal.add([numbered(2)])
    for _ in range(2):
        with pytest.raises(JournalUnusable, match="restart the daemon, which"):
            journal.check()

    assert journal.open().set_aside is not None
    journal.check()
