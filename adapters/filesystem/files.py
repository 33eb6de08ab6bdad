"""The small files that we keep in an allocation's directory."""

import os
from contextlib import suppress
from itertools import islice
from typing import Final

from adapters.filesystem import tree
from adapters.filesystem.attributes import Attributes, settle
from adapters.filesystem.labels import Labels
from adapters.filesystem.names import is_plain, is_unfinished
from domain.allocation import File
from domain.ports.sockets import DirectoryUnusable

LARGEST: Final = 64 * 1024
"""Bytes that are read at most; ours are far smaller, and what is larger was put there by the tenant."""

_LOOKED_THROUGH: Final = 1_000
"""Entries of a directory."""


def read(directory: int, name: str) -> bytes | None:
    """Return a small regular file; ``None`` for anything else.

    Raises:
        OSError: it is there and cannot be read.
    """
    fd = tree.open_file(directory, name)
    if fd is None:
        return None
    try:
        return _content(fd)
    finally:
        os.close(fd)


def write(directory: int, file: File, *, temporary: str, wanted: Attributes, labels: Labels, path: str) -> None:
    """Write a file beside its place and move it there, so that nobody ever reads half of it.

    Raises:
        OSError: nothing was written.
        DirectoryUnusable: nothing was written.
    """
    if not is_plain(file.name):
        raise DirectoryUnusable(f"{file.name!r} is no name for a file in {path}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    try:
        try:
            _fill(fd, file.content.encode())
            settle(fd, wanted.with_mode(file.mode), labels, f"{path}/{file.name}")
        finally:
            os.close(fd)
        os.rename(temporary, file.name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def ensure(
    directory: int, file: File, *, temporary: str, wanted: Attributes, labels: Labels, path: str
) -> tuple[str, ...]:
    """Make sure of a file and return what was changed, in words; one with the right content stays.

    One that is missing may have been lost in the middle of writing it, so what was left of that goes too.

    Raises:
        OSError: it cannot be had.
        DirectoryUnusable: it cannot be had.
    """
    fd = tree.open_file(directory, file.name)
    if fd is not None:
        try:
            if _content(fd) == file.content.encode():
                changed = settle(fd, wanted.with_mode(file.mode), labels, f"{path}/{file.name}")
                return tuple(f"file {file.name}: {each}" for each in changed)
        finally:
            os.close(fd)
    _clear(directory)
    write(directory, file, temporary=temporary, wanted=wanted, labels=labels, path=path)
    return (f"file {file.name} written",)


def _clear(directory: int) -> None:
    """Remove files that a process which ended meanwhile did not finish, as far as a short look finds them.

    What a tenant put there in large numbers is not looked through: what is left goes with the directory.
    """
    with suppress(OSError), os.scandir(directory) as found:
        for entry in islice(found, _LOOKED_THROUGH):
            if is_unfinished(entry.name):
                with suppress(OSError):
                    os.unlink(entry.name, dir_fd=directory)


def _fill(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]


def _content(fd: int) -> bytes | None:
    with os.fdopen(fd, "rb", closefd=False) as found:
        content = found.read(LARGEST + 1)
    return content if len(content) <= LARGEST else None
