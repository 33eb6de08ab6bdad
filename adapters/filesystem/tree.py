"""Going down a tree that others write to, one open descriptor at a time."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from adapters.filesystem.names import is_plain


@dataclass(frozen=True, slots=True)
class Mounted:
    """Where a descriptor lives: its device and its mount.

    A bind mount of the same file system has the same device, and a subvolume the same mount, so both count.
    """

    device: int
    mount: int


def mounted(fd: int) -> Mounted:
    """Return where an open file lives; works on ``O_PATH`` descriptors, and so without touching the file."""
    for line in Path(f"/proc/self/fdinfo/{fd}").read_text(encoding="ascii").splitlines():
        key, _, value = line.partition(":")
        if key == "mnt_id":
            return Mounted(os.fstat(fd).st_dev, int(value))
    raise OSError(errno.ENOTSUP, "the kernel does not tell mounts apart")


def enter(parent: int, name: str, *, within: Mounted | None = None) -> int:
    """Open a directory for reading and return its descriptor; whatever its mode, if it is ours or we are root.

    What is named is pinned first without being touched, then judged, then opened: an exchange between a listing and
    the opening cannot lead anywhere else, and an automount or a dead network mount is not woken up.

    Raises:
        NotADirectoryError: it is something else, a symbolic link for instance.
        OSError: ``EBUSY`` if it lies on another mount than ``within``.
    """
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=parent)
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if within is not None and mounted(handle) != within:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        same = f"/proc/self/fd/{handle}"
        try:
            return os.open(same, os.O_RDONLY | os.O_DIRECTORY)
        except PermissionError:
            Path(same).chmod(0o700)
            return os.open(same, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(handle)


@contextmanager
def entered(parent: int, name: str, *, within: Mounted | None = None) -> Iterator[int]:
    """Hold a directory open for the length of a block; see :func:`enter`."""
    fd = enter(parent, name, within=within)
    try:
        yield fd
    finally:
        os.close(fd)


def open_file(directory: int, name: str) -> int | None:
    """Open a regular file for reading; ``None`` for anything else.

    Nothing but a regular file is ever opened: a FIFO would block, and a device node may act on it.
    """
    if not is_plain(name):
        return None
    try:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=directory)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        # Non-blocking, because a tenant may hold a lease on its file.
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK)
    finally:
        os.close(handle)
