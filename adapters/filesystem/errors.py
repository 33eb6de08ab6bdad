"""The operating system's errors in our words, each with its way out."""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from adapters.filesystem import labels, rights
from domain.ports.sockets import DirectoryUnusable, NoRoom

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the system says when space, inodes or a quota are used up."""

_DENIED: Final = frozenset({errno.EACCES, errno.EPERM})

_IN_ITS_PLACE: Final = (
    "a symbolic link or something else that is no directory lies in its place and was left alone; find out who made"
    " it and remove it"
)
_DEAD: Final = "its mount does not answer; check the server or disk behind it and mount it again"

_CURES: Final[Mapping[int, str]] = {
    errno.EROFS: "remount its file system writable, or set the pool's host_dir to a writable place",
    errno.EMFILE: "the daemon has too many files open; raise LimitNOFILE of its unit or container",
    errno.ENFILE: "the node has too many files open; raise fs.file-max",
    errno.ENOENT: "it, or a directory above it, is not there (any more); it is made again at the next attempt",
    errno.EEXIST: "it exists already and is never taken over; the next attempt uses another name",
    errno.ENOTDIR: _IN_ITS_PLACE,
    errno.ELOOP: _IN_ITS_PLACE,
    errno.EISDIR: "a directory lies in the place of a file; remove it",
    errno.EBUSY: "it is a mount point or otherwise in use; find it with findmnt and unmount it",
    errno.EIO: "the disk or its file system is in error; see dmesg",
    errno.EUCLEAN: "the file system is damaged; see dmesg and run fsck",
    errno.ENAMETOOLONG: "choose a shorter host_dir",
    errno.ENOTSUP: "its file system lacks what is needed; put host_dir on tmpfs, ext4 or xfs",
    errno.ESTALE: _DEAD,
    errno.ENOTCONN: _DEAD,
    errno.ETIMEDOUT: _DEAD,
    errno.EHOSTDOWN: _DEAD,
}
_ANY: Final = "see dmesg, and check the path and its mount"


@contextmanager
def in_our_words(doing: str, path: str, *, room: Callable[[], str] | None = None) -> Iterator[None]:
    """Turn every :class:`OSError` of the block into the port's exceptions.

    Args:
        doing: what fails then, such as ``cannot make``.
        path: on what.
        room: says who uses the most, asked only if there is no room.

    Raises:
        NoRoom: space, inodes or a quota are used up.
        DirectoryUnusable: anything else.
    """
    try:
        yield
    except OSError as error:
        raise translated(error, doing, path, room=room) from error


def translated(
    error: OSError, doing: str, path: str, *, room: Callable[[], str] | None = None
) -> NoRoom | DirectoryUnusable:
    """Return the port's exception for an error of the system."""
    failed = f"{doing} {path}: {_reason(error)}"
    if error.errno in FULL:
        users = room() if room is not None else "find with du and df what fills it"
        return NoRoom(f"{failed}; {users}")
    return DirectoryUnusable(f"{failed}; {_cure(error)}")


def obstacle(path: str, error: OSError) -> str:
    """Say why something could not be removed and what to do; the path is shown as it is given."""
    if error.errno == errno.EPERM and rights.TO_REMOVE not in rights.missing():
        return f"{path}: {_reason(error)}; if lsattr shows it immutable or append-only, use chattr -ia{_selinux()}"
    return f"{path}: {_reason(error)}; {_cure(error)}"


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno is not None else type(error).__name__


def _cure(error: OSError) -> str:
    if error.errno in _DENIED:
        return f"{rights.cure()}{_selinux()}"
    return _CURES.get(error.errno or 0, _ANY)


def _selinux() -> str:
    if not labels.present():
        return ""
    return (
        "; SELinux is on here, so look for 'avc: denied' with ausearch -m avc -ts recent and run the daemon's container"
        " with seLinuxOptions.type spc_t"
    )
