"""Reading a journal while the daemon is down leaves no trace."""

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.journal.journal import SqliteJournal
from adapters.journal.reading import read
from adapters.memory.clock import ManualClock
from domain.ledger import Standing
from domain.ports.journal import JournalUnusable
from tests.unit.domain_values import a_pool, an_owner, numbered

ONE, TWO = numbered(1, owner=an_owner()), numbered(2)


@pytest.fixture
def journal(tmp_path: Path) -> SqliteJournal:
    """A journal that holds two allocations, still open."""
    journal = SqliteJournal(tmp_path / "state" / "state.db", ManualClock())
    journal.open()
    journal.use((a_pool(),))
    journal.add((ONE, TWO))
    journal.stand((TWO.id,), Standing.FORCED)
    return journal


def files(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.parent.iterdir()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "state.db"


def test_a_journal_that_was_closed_is_read_and_nothing_is_left(journal: SqliteJournal, path: Path) -> None:
    journal.close()
    before = files(path)
    found = read(path)

    assert found.allocations == ((ONE, Standing.LIVE), (TWO, Standing.FORCED))
    assert found.pools == (a_pool(),)
    assert files(path) == before
    assert list(before) == ["state.db"]


def test_after_a_crash_what_is_in_the_log_alone_is_read_too(journal: SqliteJournal, path: Path) -> None:
    crashed = path.parents[1] / "crashed"
    shutil.copytree(path.parent, crashed)
    journal.close()
    before = (crashed / "state.db-wal").read_bytes()

    assert len(read(crashed / "state.db").allocations) == 2
    assert (crashed / "state.db-wal").read_bytes() == before != b""


def test_a_daemon_that_runs_all_the_same_is_not_disturbed(journal: SqliteJournal, path: Path) -> None:
    assert len(read(path).allocations) == 2
    journal.add((replace(numbered(3)),))

    assert len(read(path).allocations) == 3
    journal.close()


def test_where_there_is_none_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(JournalUnusable, match=r"there is no journal .*state\.db"):
        read(tmp_path / "state.db")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_journal_is_refused_and_left(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE t (x)").connection.close()
    text = tmp_path / "text.db"
    text.write_text("not a database, but long enough to be taken for one\n" * 100, encoding="utf-8")

    with pytest.raises(JournalUnusable, match="another program's"):
        read(other)
    with pytest.raises(JournalUnusable):
        read(text)
    with pytest.raises(JournalUnusable):
        read(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other.db", "text.db"]


def test_a_damaged_value_is_named_without_its_content(journal: SqliteJournal, path: Path) -> None:
    journal.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE allocation SET devices = 'Hush!'")
    connection.commit()
    connection.close()

    with pytest.raises(JournalUnusable) as refused:
        read(path)
    assert "Hush" not in str(refused.value)
