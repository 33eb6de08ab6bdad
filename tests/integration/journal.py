"""Helpers for the tests of the journal's file."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from adapters.journal.journal import SqliteJournal
from tests.contract.journal_values import FULL_POOL, numbered


def mode(path: Path) -> int:
    """Return the permission bits."""
    return stat.S_IMODE(path.lstat().st_mode)


def filled(journal: SqliteJournal) -> None:
    """Leave a closed journal with a record behind."""
    journal.open()
    journal.add([numbered(1)])
    journal.use([FULL_POOL])
    journal.close()


def altered(path: Path, *statements: str) -> None:
    """Change a database behind the journal's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for each in statements:
            connection.execute(each)


def bad(path: Path) -> list[Path]:
    """Return what was set aside, oldest first."""
    return sorted(each for each in path.parent.iterdir() if each.name.endswith(".bad"))
