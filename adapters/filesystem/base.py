"""A pool's base directory, checked and held open."""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from adapters.filesystem.errors import in_our_words
from adapters.filesystem.names import is_plain
from adapters.filesystem.tree import Mounted, mounted
from domain.ports.sockets import DirectoryUnusable

MODE: Final = 0o711
"""Of a base directory that we make: a dataplane that is not root may pass to the directory it was told, not look."""

PARENT_MODE: Final = 0o755

_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_AS_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """An open base directory.

    Attributes:
        host_dir: as configured.
        resolved: with the symbolic links of its parents resolved.
        fd: what everything below is reached through.
        identity: device and inode.
        place: its mount, which deletion never leaves.
    """

    host_dir: str
    resolved: str
    fd: int
    identity: tuple[int, int]
    place: Mounted

    @property
    def spellings(self) -> frozenset[str]:
        """The paths by which evidence may name the directory."""
        return frozenset({self.host_dir, _trimmed(self.host_dir), self.resolved})

    def is_current(self) -> bool:
        """Tell whether the configured path still leads here, which is what container runtimes mount.

        Raises:
            DirectoryUnusable: it does, and the directory must not be trusted any more.
        """
        try:
            found = os.lstat(_trimmed(self.host_dir))
        except OSError:
            return False  # opening it anew says what is wrong
        if (found.st_dev, found.st_ino) != self.identity:
            return False
        _trust(self.host_dir, found)
        return True

    def check_writable(self) -> None:
        """Make sure that directories can be made at all.

        Raises:
            DirectoryUnusable: the file system is mounted read-only.
        """
        with in_our_words("cannot examine the file system of", self.host_dir):
            flags = os.fstatvfs(self.fd).f_flag
        if flags & os.ST_RDONLY:
            raise DirectoryUnusable(
                f"the file system of {self.host_dir} is read-only; remount it writable, make the daemon's volume of it"
                " writable, or set the pool's host_dir to a writable place"
            )

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)


def open_base(host_dir: str, *, create: bool) -> Base | None:
    """Open a base directory; ``None`` if it is missing and not to be made.

    Symbolic links in its parents, such as ``/var/run``, are resolved here, once.  The last component must be a real
    directory of our own (root's, in production) that nobody else may write to.

    Raises:
        NoRoom: it cannot be made for lack of space or inodes.
        DirectoryUnusable: anything else; the message says what to do.
    """
    parent, name = os.path.split(_trimmed(host_dir))
    if not parent.startswith("/") or not is_plain(name) or "\0" in parent:
        raise DirectoryUnusable(
            f"host_dir {host_dir!r} is no absolute path of a directory; correct the pool's host_dir"
        )
    above = os.path.realpath(parent)
    with in_our_words("cannot open the parent directory of", host_dir):
        try:
            holder = os.open(above, os.O_PATH | os.O_DIRECTORY)
        except FileNotFoundError:
            if not create:
                return None
            _make_parents(Path(above))
            holder = os.open(above, os.O_PATH | os.O_DIRECTORY)
    try:
        fd = _open_last(holder, name, host_dir, create=create)
    finally:
        os.close(holder)
    if fd is None:
        return None
    try:
        with in_our_words("cannot examine", host_dir):
            found = os.fstat(fd)
            place = mounted(fd)
        _trust(host_dir, found)
    except BaseException:
        os.close(fd)
        raise
    return Base(
        host_dir=host_dir,
        resolved=str(Path(above, name)),
        fd=fd,
        identity=(found.st_dev, found.st_ino),
        place=place,
    )


def _trimmed(host_dir: str) -> str:
    # With a slash at the end, the last component would be followed after all.
    return host_dir.rstrip("/")


def _make_parents(path: Path) -> None:
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = path.parent
    for each in reversed(missing):
        each.mkdir(PARENT_MODE)
        each.chmod(PARENT_MODE)  # whatever our umask is


def _open_last(holder: int, name: str, host_dir: str, *, create: bool) -> int | None:
    with in_our_words("cannot open or make", host_dir):
        try:
            found = os.stat(name, dir_fd=holder, follow_symlinks=False)
        except FileNotFoundError:
            return _make_last(holder, name) if create else None
        _must_be_directory(holder, name, host_dir, found)
        _trust(host_dir, found)
        return os.open(name, _AS_DIRECTORY, dir_fd=holder)


def _make_last(holder: int, name: str) -> int:
    os.mkdir(name, 0o700, dir_fd=holder)
    try:
        fd = os.open(name, _AS_DIRECTORY, dir_fd=holder)
        try:
            os.fchown(fd, os.geteuid(), os.getegid())
            os.fchmod(fd, MODE)
        except BaseException:
            os.close(fd)
            raise
    except OSError:
        with suppress(OSError):
            os.rmdir(name, dir_fd=holder)
        raise
    return fd


def _must_be_directory(holder: int, name: str, host_dir: str, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(name, dir_fd=holder)
        raise DirectoryUnusable(
            f"{host_dir} is a symbolic link to {target!r}, which could be pointed elsewhere while containers use it;"
            " put a real directory there, or set the pool's host_dir to the real one"
        )
    if not stat.S_ISDIR(found.st_mode):
        raise DirectoryUnusable(
            f"{host_dir} is not a directory; move it out of the way, or set the pool's host_dir to another place"
        )


def _trust(host_dir: str, found: os.stat_result) -> None:
    us = os.geteuid()
    if found.st_uid != us:
        raise DirectoryUnusable(
            f"{host_dir} belongs to uid {found.st_uid} and not to uid {us}, so somebody else could exchange what"
            f" lies in it; find out who made it, then chown {us} {host_dir}"
        )
    if found.st_mode & _WRITABLE_BY_OTHERS:
        raise DirectoryUnusable(
            f"{host_dir} has mode {stat.S_IMODE(found.st_mode):04o}, so group or others could exchange what lies in it;"
            f" chmod go-w {host_dir}"
        )
