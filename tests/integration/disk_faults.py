"""Disks that fail, in the system's own words."""

import errno
import sqlite3
from typing import Final

from tests.integration.crash import DISK, JOURNAL, Fault

_ERRNO: Final = (errno.ENOSPC, errno.EIO, errno.EROFS)
_SQLITE: Final = (
    ("database or disk is full", sqlite3.SQLITE_FULL, "SQLITE_FULL"),
    ("disk I/O error", sqlite3.SQLITE_IOERR, "SQLITE_IOERR"),
    ("attempt to write a readonly database", sqlite3.SQLITE_READONLY, "SQLITE_READONLY"),
)


def disk_fault(where: int, how: int, often: int) -> Fault:
    """Return what is wrong with a disk.

    Args:
        where: 0 in the file system, 1 in the journal, 2 in both.
        how: 0 full, 1 broken, 2 read-only.
        often: every so many steps there fail.
    """
    places = ({DISK}, {JOURNAL}, {DISK, JOURNAL})[where]
    met = 0

    def fault(place: str) -> Exception | None:
        nonlocal met
        if place not in places:
            return None
        met += 1
        if met % often:
            return None
        if place == DISK:
            return OSError(_ERRNO[how], "as the history wants it")
        text, code, name = _SQLITE[how]
        error = sqlite3.OperationalError(text)
        error.sqlite_errorcode, error.sqlite_errorname = code, name
        return error

    return fault
