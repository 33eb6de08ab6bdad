"""What SQLite and the file system complain about, in words that an operator can act on.

No text of SQLite's or of its Python module is repeated, because some of them quote the value that they choked on.
"""

import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

from domain.errors import MemifError

_LITTLE: Final = 256 * 1024
"""Bytes.  With less than this left, any I/O error is taken for a full disk: SQLite's index of the write-ahead log
reports one so."""

_OUTSIDE: Final = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_AUTH,
    }
)
"""Primary result codes whose cause lies around the file and not in it."""

_READ_ONLY: Final = "it is read-only; make its file system writable again (mount -o remount,rw) and check the disk"
_CURES: Final = {
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_BUSY: "another process keeps it locked; find that with 'fuser -v' and end it",
    sqlite3.SQLITE_LOCKED: "another process keeps it locked; find that with 'fuser -v' and end it",
    sqlite3.SQLITE_PERM: "access is denied; check owner, mode and SELinux label of file and directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check owner, mode and SELinux label of file and directory",
    sqlite3.SQLITE_IOERR: "reading or writing failed; look for disk errors in the kernel's log (dmesg)",
    sqlite3.SQLITE_NOMEM: "there is no memory left; check the memory limit",
}
_DAMAGED: Final = "it is damaged; restart the daemon, which sets it aside and rebuilds it from the kubelet's checkpoint"


class Flawed(MemifError):
    """A file that is there and cannot serve as our journal, and why."""


def is_damage(error: sqlite3.Error) -> bool:
    """Tell whether an error speaks of what is in the file, not of the disk or the permissions around it."""
    return _primary(error) not in _OUTSIDE


def lacks_shared_memory(error: sqlite3.Error) -> bool:
    """Tell whether a file may fail to open only for want of its ``-shm`` companion, as on a full disk."""
    return _primary(error) in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL}


def name(error: sqlite3.Error) -> str:
    """Return SQLite's name of an error, or the class of one that SQLite did not name."""
    return getattr(error, "sqlite_errorname", type(error).__name__)


def explain(path: Path, error: sqlite3.Error) -> str:
    """Say what SQLite could not do with the journal and what to do about it."""
    code = _primary(error)
    if code == sqlite3.SQLITE_FULL:
        cure = _full(path)
    elif is_damage(error):
        cure = _DAMAGED
    else:
        told = _told_by_file_system(path) if lacks_shared_memory(error) else None
        cure = told or _CURES.get(code, "SQLite refuses to; restart the daemon and report this")
    return f"the journal {path} cannot be used: {cure} ({name(error)})"


def explain_os(path: Path, error: OSError) -> str:
    """Say what the kernel refused to do around the journal and what to do about it."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            cure = _full(path)
        case errno.EROFS:
            cure = _READ_ONLY
        case errno.EACCES | errno.EPERM:
            cure = _CURES[sqlite3.SQLITE_PERM]
        case _:
            cure = f"{os.strerror(error.errno or 0)}"
    where = f" at {error.filename}" if error.filename not in {None, str(path)} else ""
    return f"the journal {path} cannot be used: {cure}{where} ({errno.errorcode.get(error.errno or 0, 'OSError')})"


def _primary(error: sqlite3.Error) -> int:
    """Return the code without its extension; errors of the Python module itself have none."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return int(code) & 0xFF


def _told_by_file_system(path: Path) -> str | None:
    """Return the file system's own explanation for a failure, if it has one."""
    try:
        system = os.statvfs(path.parent)
    except OSError:
        return None
    if system.f_flag & os.ST_RDONLY:
        return _READ_ONLY
    if system.f_bavail * system.f_frsize < _LITTLE or (system.f_files and not system.f_favail):
        return _full(path)
    return None


def _full(path: Path) -> str:
    return f"no space or inode is left on its file system; free some in {path.parent}"
