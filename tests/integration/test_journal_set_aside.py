"""A journal's file that cannot be used is never a reason not to start."""

import os
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from adapters.journal.journal import SqliteJournal
from adapters.memory.clock import ManualClock
from domain.ledger import Standing
from domain.ports.journal import Recovered
from tests.contract.journal_values import numbered
from tests.integration.journal import altered, bad, filled, mode


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


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def foreign(path: Path) -> None:
    path.unlink()
    altered(path, "CREATE TABLE allocation (id)")


def index_lost(path: Path) -> None:
    """Overwrite what reading all records never looks at."""
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name LIKE '%autoindex_allocation%'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "spoil, reason",
    [
        pytest.param(lambda path: path.write_bytes(b"not a database" * 999), "no SQLite database", id="no database"),
        pytest.param(lambda path: path.write_bytes(b""), "it is empty", id="empty"),
        pytest.param(lambda path: os.truncate(path, 5000), "damaged", id="truncated"),
        pytest.param(lambda path: os.truncate(path, 50), "50 bytes are left", id="header truncated"),
        pytest.param(
            lambda path: path.write_bytes(path.read_bytes()[:4096] + b"\xa5" * (path.stat().st_size - 4096)),
            "damaged",
            id="overwritten",
        ),
        pytest.param(lambda path: altered(path, "DROP TABLE pool"), "SQLITE_ERROR", id="table missing"),
        pytest.param(
            lambda path: altered(path, "ALTER TABLE allocation DROP COLUMN files"),
            "SQLITE_ERROR",
            id="column missing",
        ),
        pytest.param(
            lambda path: altered(path, "UPDATE allocation SET standing = 'on holiday'"),
            "cannot be read back",
            id="unknown standing",
        ),
        pytest.param(
            lambda path: altered(path, "UPDATE allocation SET secret = CAST(x'48757368ff' AS TEXT)"),
            "damaged",
            id="secret that is no text",
        ),
        pytest.param(lambda path: altered(path, "PRAGMA user_version = 200"), "newer format 2.0", id="newer major"),
        pytest.param(lambda path: altered(path, "PRAGMA user_version = 99"), "older format 0.99", id="older major"),
        pytest.param(lambda path: altered(path, "PRAGMA user_version = -1"), "format", id="negative version"),
        pytest.param(
            lambda path: altered(path, "PRAGMA application_id = 1"), "another program's", id="another program's"
        ),
        pytest.param(
            foreign,
            "another program's",
            id="foreign",
        ),
        pytest.param(lambda path: (path.unlink(), path.mkdir()), "not a regular file", id="directory"),
        pytest.param(index_lost, "quick_check found", id="index overwritten"),
        pytest.param(fifo, "not a regular file", id="fifo"),
        pytest.param(
            lambda path: (path.rename(path.with_name("else")), path.symlink_to("else")),
            "not a regular file",
            id="symlink",
        ),
        pytest.param(
            lambda path: (path.unlink(), path.symlink_to("nowhere")), "not a regular file", id="dangling symlink"
        ),
    ],
)
def test_it_is_set_aside_with_the_reason_and_a_new_one_made(
    journal: SqliteJournal, path: Path, spoil: Callable[[Path], object], reason: str
) -> None:
    filled(journal)
    spoil(path)
    recovered = journal.open()
    journal.add([numbered(2)])
    (aside,) = bad(path)

    assert recovered.set_aside is not None
    assert reason in recovered.set_aside
    assert recovered.set_aside.endswith(f"it lies at {aside} now")
    assert "Hush" not in recovered.set_aside
    assert recovered == Recovered(set_aside=recovered.set_aside)
    assert journal.open() == Recovered(allocations=((numbered(2), Standing.LIVE),))


def test_its_name_tells_when(journal: SqliteJournal, path: Path) -> None:
    filled(journal)
    path.write_bytes(b"x")
    journal.open()

    assert [each.name for each in bad(path)] == ["state.db.20300101T000000Z.bad"]


def test_it_is_set_aside_unharmed(journal: SqliteJournal, path: Path) -> None:
    """An operator who goes back to the newer version gets it back by renaming it."""
    filled(journal)
    altered(path, "PRAGMA user_version = 200")
    journal.open()
    (aside,) = bad(path)
    altered(aside, "PRAGMA user_version = 100")
    journal.close()
    aside.rename(path)

    assert journal.open().allocations == ((numbered(1), Standing.LIVE),)


@pytest.mark.usefixtures("no_umask")
def test_it_is_readable_by_nobody_else(journal: SqliteJournal, path: Path) -> None:
    filled(journal)
    path.write_bytes(numbered(1).secret.reveal().encode())
    path.chmod(0o666)
    log = path.with_name("state.db-wal")
    log.write_bytes(numbered(1).secret.reveal().encode())
    log.chmod(0o644)
    journal.open()
    (aside,) = bad(path)

    assert mode(aside) == 0o600
    assert mode(aside.with_name(aside.name + "-wal")) == 0o600


def test_the_last_three_are_kept(journal: SqliteJournal, path: Path, clock: ManualClock) -> None:
    for number in range(6):
        journal.open()
        journal.close()
        path.write_text(f"spoilt {number}")
        path.with_name("state.db-wal").write_text("log")
        clock.advance(3600)
    journal.open()

    assert [each.read_text() for each in bad(path)] == ["spoilt 3", "spoilt 4", "spoilt 5"]
    assert len([each for each in path.parent.iterdir() if each.name.endswith(".bad-wal")]) == 3


def test_several_in_one_second_do_not_replace_each_other(journal: SqliteJournal, path: Path) -> None:
    for number in range(3):
        journal.open()
        journal.close()
        path.write_text(f"spoilt {number}")
    journal.open()

    assert [each.read_text() for each in bad(path)] == ["spoilt 0", "spoilt 1", "spoilt 2"]


def test_what_an_operator_put_there_under_a_similar_name_is_never_removed(
    journal: SqliteJournal, path: Path, clock: ManualClock
) -> None:
    journal.open()
    mine = path.with_name("state.db.before-upgrade.bad")
    mine.write_text("mine")
    for _ in range(5):
        journal.close()
        path.write_text("spoilt")
        clock.advance(1)
        journal.open()

    assert mine.read_text() == "mine"


def test_a_log_without_its_database_is_not_replayed_into_the_new_one(journal: SqliteJournal, path: Path) -> None:
    journal.open()
    journal.add([numbered(1)])
    log = path.with_name("state.db-wal").read_bytes()
    journal.close()
    path.unlink()
    path.with_name("state.db-wal").write_bytes(log)

    assert journal.open() == Recovered()


def test_a_crash_while_a_new_one_is_made_leaves_nothing_in_the_way(journal: SqliteJournal, path: Path) -> None:
    path.parent.mkdir()
    path.with_name("state.db.new").write_bytes(b"half")
    path.with_name("state.db.new-journal").write_bytes(b"half")

    assert journal.open() == Recovered()
    assert not [each for each in path.parent.iterdir() if ".new" in each.name]


def test_a_socket_in_the_way_is_set_aside(journal: SqliteJournal, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir()
    monkeypatch.chdir(path.parent)
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(path.name)
        recovered = journal.open()

    assert "not a regular file" in (recovered.set_aside or "")
