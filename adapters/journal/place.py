"""Where the journal lies: its directory, its modes, and what happens to a file that cannot be used.

The file holds secrets, so file and companions are 0600 in a directory that is 0700, whatever the umask is.  SQLite
gives its companions the mode of the database, so it is enough that the database has the right one before SQLite sees
it.
"""

import errno
import os
import re
import sqlite3
import stat
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from adapters.journal import schema
from adapters.journal.faults import Flawed
from domain.ports.journal import JournalUnusable

KEPT: Final = 3
"""Files that are kept of those that were set aside."""

COMPANIONS: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database: write-ahead log, its index, and the journal of the older mode."""

_MAGIC: Final = b"SQLite format 3\0"
_SHORTEST: Final = 512
"""Bytes of the smallest page that SQLite knows."""

_OTHERS: Final = 0o077
_OTHERS_WRITE: Final = 0o022
_NEIGHBOURS: Final = frozenset({"lock", "lost+found"})
"""What may lie in a directory that is still ours alone: the daemon's lock, and a file system's own."""


def prepare(path: Path) -> None:
    """Make the journal's directory, or make sure that nobody else gets at the journal through it.

    An existing directory is closed to others only if nothing but ours lies in it: the path is the operator's, and
    closing ``/var/lib`` would bring down the node.

    Raises:
        JournalUnusable: others could replace the journal.
        OSError: the directory cannot be had.
    """
    directory = path.parent
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)
            each.chmod(0o700 if each == directory else 0o755)
    found = directory.stat()
    if found.st_uid not in {0, os.geteuid()}:
        raise JournalUnusable(
            f"the journal {path} cannot be used: its directory belongs to user {found.st_uid}, who could replace it; "
            f"chown {directory} to root"
        )
    if not found.st_mode & _OTHERS:
        return
    if all(each.name.startswith(path.name) or each.name in _NEIGHBOURS for each in directory.iterdir()):
        directory.chmod(0o700)
    elif found.st_mode & _OTHERS_WRITE:
        raise JournalUnusable(
            f"the journal {path} cannot be used: others may write to {directory}, where other things lie too; "
            "give the journal a directory of its own"
        )


def check_writable(path: Path) -> None:
    """Make sure that the file system of a journal is not read-only, without writing to it.

    Raises:
        OSError: it is, or it cannot be told.
    """
    if os.statvfs(path.parent).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def mend(path: Path) -> None:
    """Make sure that a journal is a file with something in it, and that it and its companions are ours to read only.

    Must not be called while SQLite has the file open: closing another descriptor would drop SQLite's locks.

    Raises:
        Flawed: it is no regular file, or does not begin like a database.  SQLite takes a short file for a new
            database and removes a log that lies beside it; we never leave one, so what was there is lost.
    """
    for each in (path, *companions(path)):
        with suppress(FileNotFoundError):
            _close_to_others(each)
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise Flawed("it is not a regular file")
    if not found.st_size:
        raise Flawed("it is empty")
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise Flawed("it is no SQLite database")
    if found.st_size < _SHORTEST:
        raise Flawed(f"it is damaged: {found.st_size} bytes are left of it")


def make(path: Path) -> Path:
    """Make an empty journal beside the path, complete and synced, and return where it lies.

    Under another name, so that a crash never leaves half a journal under the right one.
    """
    fresh = _fresh(path)
    for each in (fresh, *companions(fresh)):
        each.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    try:
        with closing(sqlite3.connect(fresh, isolation_level=None)) as connection:
            schema.initialise(connection)
    except sqlite3.Error:
        for each in (fresh, *companions(fresh)):
            each.unlink(missing_ok=True)
        raise
    return fresh


def put(fresh: Path, path: Path) -> None:
    """Give a new journal its name, where nothing lies any more."""
    for each in companions(path):
        # A write-ahead log without its database would be replayed into the new one.
        each.unlink(missing_ok=True)
    fresh.rename(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def set_aside(path: Path, now: datetime) -> Path:
    """Rename a file that cannot be used to ``<name>.<utc>.bad`` and return that path; keep the last few such.

    :func:`mend` has closed it to others before.
    """
    while os.path.lexists(aside := path.with_name(f"{path.name}.{now:%Y%m%dT%H%M%SZ}.bad")):
        now += timedelta(seconds=1)
    path.rename(aside)
    for old, new in zip(companions(path), companions(aside), strict=True):
        with suppress(FileNotFoundError):
            old.rename(new)
    _prune(path)
    return aside


def companions(path: Path) -> tuple[Path, ...]:
    """Return where SQLite keeps what belongs to a database."""
    return tuple(path.with_name(path.name + suffix) for suffix in COMPANIONS)


def left_behind(path: str) -> tuple[str, ...]:
    """Return every file that a journal has on disk now: itself, one that was being made, those that were set aside."""
    journal = Path(path)
    try:
        aside = _aside(journal)
    except OSError:  # no such directory, or not ours to look into
        return ()
    files = (each for file in (journal, _fresh(journal), *aside) for each in (file, *companions(file)))
    return tuple(str(each) for each in files if os.path.lexists(each))


def _fresh(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _aside(path: Path) -> list[Path]:
    """Return the files that were set aside, the oldest first."""
    pattern = re.compile(re.escape(path.name) + r"\.\d{8}T\d{6}Z\.bad", re.ASCII)
    return sorted(each for each in path.parent.iterdir() if pattern.fullmatch(each.name))


def _prune(path: Path) -> None:
    for old in _aside(path)[:-KEPT]:
        for each in (old, *companions(old)):
            # One that cannot be removed, such as a directory, is no reason not to start.
            with suppress(OSError):
                each.unlink()


def _close_to_others(path: Path) -> None:
    mode = path.lstat().st_mode
    if stat.S_ISREG(mode) and stat.S_IMODE(mode) != 0o600:  # noqa: PLR2004  the mode is its own best name
        path.chmod(0o600)
