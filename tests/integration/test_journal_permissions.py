"""Who may read the journal, whatever the umask and whatever lay there before."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.journal.journal import SqliteJournal
from adapters.memory.clock import ManualClock
from domain.ledger import Standing
from domain.ports.journal import JournalUnusable
from tests.contract.journal_values import FULL, numbered
from tests.integration.journal import filled, mode

pytestmark = pytest.mark.usefixtures("no_umask")


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


def test_everything_is_ours_alone_whatever_the_umask(journal: SqliteJournal, path: Path) -> None:
    journal.open()
    journal.add([numbered(1)])

    assert {each.name: oct(mode(each)) for each in path.parent.iterdir()} == {
        "state.db": "0o600",
        "state.db-wal": "0o600",
        "state.db-shm": "0o600",
    }
    assert mode(path.parent) == 0o700


def test_a_umask_that_takes_everything_takes_nothing(journal: SqliteJournal, path: Path) -> None:
    os.umask(0o777)
    journal.open()
    journal.add([numbered(1)])

    assert {mode(each) for each in path.parent.iterdir()} == {0o600}
    assert mode(path.parent) == 0o700


def test_directories_above_are_made_for_everybody_to_pass(tmp_path: Path, clock: ManualClock) -> None:
    journal = SqliteJournal(tmp_path / "a" / "b" / "c" / "state.db", clock)
    journal.open()
    journal.close()

    assert [mode(tmp_path / each) for each in ("a", "a/b", "a/b/c")] == [0o755, 0o755, 0o700]


def test_modes_are_mended(journal: SqliteJournal, path: Path) -> None:
    filled(journal)
    path.chmod(0o644)
    path.parent.chmod(0o777)
    journal.open()
    journal.add([FULL])

    assert {mode(each) for each in path.parent.iterdir()} == {0o600}
    assert mode(path.parent) == 0o700


def test_a_directory_that_holds_other_things_is_not_closed_to_them(tmp_path: Path, clock: ManualClock) -> None:
    """The path is the operator's choice; closing /var/lib would bring down the node."""
    shared = tmp_path / "lib"
    shared.mkdir(mode=0o755)
    (shared / "other").touch()
    journal = SqliteJournal(shared / "state.db", clock)
    journal.open()
    journal.close()

    assert mode(shared) == 0o755
    assert mode(shared / "state.db") == 0o600


def test_the_lock_and_what_was_set_aside_are_no_other_things(path: Path, journal: SqliteJournal) -> None:
    path.parent.mkdir(mode=0o755)
    (path.parent / "lock").touch()
    (path.parent / "state.db.20290101T000000Z.bad").touch()
    journal.open()

    assert mode(path.parent) == 0o700


def test_a_directory_in_which_others_may_write_is_refused(tmp_path: Path, clock: ManualClock) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir(mode=0o1777)
    (shared / "other").touch()
    with pytest.raises(JournalUnusable, match="give the journal a directory of its own"):
        SqliteJournal(shared / "state.db", clock).open()

    assert mode(shared) == 0o1777


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_another_user_s_directory_is_refused(path: Path, journal: SqliteJournal) -> None:
    path.parent.mkdir(mode=0o700)
    os.chown(path.parent, 65534, 65534)
    with pytest.raises(JournalUnusable, match=re.escape(f"chown {path.parent} to root")):
        journal.open()


def test_a_directory_that_is_none_is_reported(path: Path, journal: SqliteJournal) -> None:
    path.parent.write_text("a file")
    with pytest.raises(JournalUnusable, match=re.escape(str(path))):
        journal.open()


def test_a_directory_may_be_reached_by_a_symlink(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("disk")
    journal = SqliteJournal(tmp_path / "link" / "state.db", clock)
    journal.open()
    journal.close()

    assert (tmp_path / "disk" / "state.db").is_file()


def test_a_path_may_hold_what_means_something_in_a_uri(tmp_path: Path, clock: ManualClock) -> None:
    journal = SqliteJournal(tmp_path / "a?b#c%20d" / "state.db", clock)
    filled(journal)

    assert journal.open().allocations == ((numbered(1), Standing.LIVE),)
    journal.close()
