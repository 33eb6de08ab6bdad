"""Reading a journal without using it: for people, while the daemon is down."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from adapters.journal import encode, faults, place, schema
from adapters.journal.faults import Flawed
from domain.ports.journal import JournalUnusable, Recovered


def read(path: str | os.PathLike[str]) -> Recovered:
    """Return what a journal holds, and leave it and its directory as they are.

    Raises:
        JournalUnusable: it cannot be read, or is no journal of ours.
    """
    where = Path(path)
    try:
        where.lstat()
        if not place.companions(where)[0].exists():
            # Otherwise SQLite makes a write-ahead log to read without one, and leaves it there.
            return _contents(where, "&immutable=1")
        return _contents(where)
    except FileNotFoundError as error:
        raise JournalUnusable(f"there is no journal {where}; is this the daemon's `state`?") from error
    except OSError as error:
        raise JournalUnusable(faults.explain_os(where, error)) from error
    except Flawed as flaw:
        raise JournalUnusable(f"the journal {where} cannot be read: {flaw}") from flaw
    except sqlite3.Error as error:
        # Not chained: the message may quote what is not text any more, and so a secret.
        raise JournalUnusable(faults.explain(where, error)) from None


def _contents(path: Path, how: str = "") -> Recovered:
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro{how}", uri=True)) as connection:
        schema.inspect(connection)
        return Recovered(
            allocations=tuple(encode.allocation_of(row) for row in connection.execute(schema.READ_ALLOCATIONS)),
            pools=tuple(encode.pool_of(row) for row in connection.execute(schema.read_pools(connection))),
        )
