"""The journal itself."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote

from adapters.journal import encode, faults, place, schema
from adapters.journal.faults import Flawed
from domain.allocation import Allocation, Owner
from domain.identity import AllocationId
from domain.ledger import Standing
from domain.pool import Pool
from domain.ports.clock import Clock
from domain.ports.journal import JournalUnusable, Recovered

_PATIENCE: Final = 1.0
"""Seconds to wait for another process that has the file locked; less than an Allocate may take."""

_Identity: TypeAlias = tuple[int, int] | None


class SqliteJournal:
    """A :class:`~domain.ports.journal.Journal` in one SQLite file.

    The file is in write-ahead mode and synced only when the log is moved into the database or begins anew, every few
    hundred changes: what is committed is in the kernel's hands, so a crash of the process loses nothing, and a loss of
    power the last changes but not the file's consistency.  A durable addition syncs the log before it returns, and with
    it all that was added before.

    After an error the connection is given up and the next change begins with the file as it is then; so it works again
    as soon as there is space.  Only a file that was removed or replaced stays unusable, because what it held is
    needed: call :meth:`open` again, and record again what is missing in what it returns.

    Changes to unknown allocations are ignored, and an addition of a known one replaces it: the ledger decides, the
    journal follows.

    Args:
        path: the file; its directory is made if it is missing.
        clock: names the time at which a file was set aside.
    """

    def __init__(self, path: str | os.PathLike[str], clock: Clock) -> None:
        self._path = Path(path)
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._identity: _Identity = None
        self._companions: tuple[tuple[Path, _Identity], ...] = ()
        self._failed = False
        """Whether the last change could not be recorded."""

    def open(self) -> Recovered:
        """See the port.  May be called again at any time, and begins anew then."""
        self.close()
        self._failed = False
        with self._translated():
            place.prepare(self._path)
            reason = None
            if os.path.lexists(self._path):
                try:
                    return self._load()
                except Flawed as flaw:
                    reason = str(flaw)
            # The new file is made before the old one is touched: if there is no room for it, nothing has changed.
            fresh = place.make(self._path)
            note = None
            if reason is not None:
                aside = place.set_aside(self._path, self._clock.now())
                note = f"{self._path} was not used because {reason}; it lies at {aside} now"
            place.put(fresh, self._path)
            return replace(self._load(), set_aside=note)

    def add(self, allocations: Iterable[Allocation], *, durable: bool = False) -> None:
        """See the port."""
        rows = [encode.allocation_row(each, Standing.LIVE) for each in allocations]
        self._change(schema.ADD, rows, durable=durable)

    def own(self, name: AllocationId, owner: Owner) -> None:
        """See the port.  Fills gaps only: what is known of an owner never changes."""
        self._change(schema.OWN, [(owner.uid, owner.container, owner.namespace, owner.name, name)])

    def stand(self, names: Iterable[AllocationId], standing: Standing) -> None:
        """See the port."""
        self._change(schema.STAND, [(standing.value, name) for name in names])

    def drop(self, names: Iterable[AllocationId]) -> None:
        """See the port."""
        self._change(schema.DROP, [(name,) for name in names])

    def use(self, pools: Iterable[Pool]) -> None:
        """See the port.  Pools that are not named stay as they were last used."""
        self._change(schema.USE, [encode.pool_row(each) for each in pools], first=schema.upgrade)

    def check(self) -> None:
        """See the port.  Costs a few looks at names; after a failure the file is also read and written to."""
        with self._translated():
            connection = self._ready()
            place.check_writable(self._path)
            if not self._failed:
                return
            try:
                schema.probe(connection)
            except BaseException:
                self._disconnect()
                raise
            self._failed = False

    def close(self) -> None:
        """See the port."""
        self._identity = None
        self._disconnect()

    def _load(self) -> Recovered:
        """Open the file that is there and read it.

        Raises:
            Flawed: it is not our journal, or damaged.
        """
        place.mend(self._path)
        identity = _identity(self._path)
        try:
            connection = self._connect()
            allocations = tuple(encode.allocation_of(row) for row in connection.execute(schema.READ_ALLOCATIONS))
            pools = tuple(encode.pool_of(row) for row in connection.execute(schema.read_pools(connection)))
        except Flawed:
            self._disconnect()
            raise
        except sqlite3.Error as error:
            self._disconnect()
            if not faults.is_damage(error):
                raise
            # Not chained: the message may quote a column that is not text any more, and so a secret.
            raise Flawed(f"it is damaged or no SQLite database ({faults.name(error)})") from None
        self._identity = identity
        return Recovered(allocations=allocations, pools=pools)

    def _change(
        self,
        statement: str,
        rows: list[encode.Row],
        *,
        durable: bool = False,
        first: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        """Run one statement for each row, after what is to be done first, as one transaction."""
        if not rows:
            return
        self._failed = True
        with self._translated():
            connection = self._ready()
            try:
                if durable:
                    connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN IMMEDIATE")
                if first is not None:
                    first(connection)
                connection.executemany(statement, rows)
                connection.execute("COMMIT")
                if durable:
                    connection.execute("PRAGMA synchronous = NORMAL")
                self._failed = False
            except BaseException:
                # Closing rolls back.  Nothing that went wrong once is carried over to the next change.
                self._disconnect()
                raise

    def _ready(self) -> sqlite3.Connection:
        """Return a connection to the file that we opened, if that is still the one at our path."""
        if self._identity is None:
            raise JournalUnusable(f"the journal {self._path} is not open")
        found = _identity(self._path)
        if found != self._identity:
            what = "was removed" if found is None else "was replaced by another file"
            raise JournalUnusable(
                f"the journal {self._path} cannot be used: it {what} while in use; "
                "restart the daemon, which makes a new one from the kubelet's checkpoint"
            )
        if any(_identity(path) != identity for path, identity in self._companions):
            # Closing moves what a removed log holds into the database, so that nothing is lost.
            self._disconnect()
        if self._connection is not None:
            return self._connection
        try:
            place.mend(self._path)
            return self._connect()
        except Flawed as flaw:
            raise JournalUnusable(
                f"the journal {self._path} cannot be used: {flaw}; "
                "restart the daemon, which makes a new one from the kubelet's checkpoint"
            ) from flaw

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = self._dial(exclusive=False)
        except sqlite3.Error as error:
            if not faults.lacks_shared_memory(error):
                raise
            # With the file to itself SQLite keeps the log's index in memory, so that even on a full disk the daemon
            # starts and knows its allocations.
            connection = self._dial(exclusive=True)
        self._connection = connection
        self._companions = tuple(
            (each, identity) for each in place.companions(self._path) if (identity := _identity(each)) is not None
        )
        return connection

    def _dial(self, *, exclusive: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"file:{quote(str(self._path))}?mode=rw",
            uri=True,
            isolation_level=None,
            timeout=_PATIENCE,
            # One thread at a time uses it, but who opens and closes need not be the worker.
            check_same_thread=False,
        )
        try:
            if exclusive:
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            schema.inspect(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _disconnect(self) -> None:
        connection, self._connection, self._companions = self._connection, None, ()
        if connection is not None:
            connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn what SQLite and the kernel raise into what the port promises."""
        try:
            yield
        except sqlite3.Error as error:
            raise JournalUnusable(faults.explain(self._path, error)) from error
        except OSError as error:
            raise JournalUnusable(faults.explain_os(self._path, error)) from error
        except Flawed as flaw:
            raise JournalUnusable(f"the journal {self._path} cannot be used: {flaw}") from flaw


def _identity(path: Path) -> _Identity:
    """Return what tells a file from another under the same name, ``None`` if there is none."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
