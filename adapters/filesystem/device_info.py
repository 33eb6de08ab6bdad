"""Device information files on a real file system."""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from adapters.filesystem import files, names
from adapters.filesystem.attributes import Attributes
from adapters.filesystem.errors import in_our_words
from adapters.filesystem.labels import Labels, SelinuxLabels
from domain.allocation import File
from domain.device_info import DeviceInfo
from domain.ports.device_info import Settled
from domain.ports.sockets import DirectoryUnusable

MODE: Final = 0o755
FILE_MODE: Final = 0o644
"""They hold no secret, and whoever reads them need not be root."""

_WRITABLE_BY_OTHERS: Final = 0o022


def _random() -> str:
    return secrets.token_hex(8)


class FileSystemDeviceInfo:
    """Keeps :class:`domain.ports.device_info.DeviceInfoFiles`; not for several threads at once."""

    def __init__(self, *, labels: Labels | None = None, random: Callable[[], str] = _random) -> None:
        self._labels: Labels = labels if labels is not None else SelinuxLabels()
        self._random = random

    def write(self, directory: str, files: Mapping[str, str]) -> None:
        """Write files, and take back those that are new if one cannot be written."""
        with _opened(directory, create=True) as fd:
            if fd is None:
                raise DirectoryUnusable(f"{directory} vanished while it was opened; somebody removes it")
            there = _names(fd)
            try:
                for name, content in files.items():
                    self._ensure(fd, directory, name, content)
            except BaseException:
                for name in files.keys() - there:
                    with suppress(OSError):
                        os.unlink(name, dir_fd=fd)
                raise

    def settle(self, info: DeviceInfo) -> Settled:
        """Write what is missing or different, and remove what is ours and not wanted."""
        with _opened(info.directory, create=bool(info.files)) as fd:
            if fd is None:
                return Settled()
            removed = sorted((info.ours - info.files.keys()).intersection(_names(fd)))
            with in_our_words("cannot remove device information from", info.directory):
                for name in removed:
                    os.unlink(name, dir_fd=fd)
            written = [name for name, content in info.files.items() if self._ensure(fd, info.directory, name, content)]
        return Settled(written=tuple(sorted(written)), removed=tuple(removed))

    def _ensure(self, fd: int, directory: str, name: str, content: str) -> tuple[str, ...]:
        with in_our_words("cannot write device information into", directory):
            return files.ensure(
                fd,
                File(name=name, content=content, mode=FILE_MODE),
                temporary=names.unfinished(self._random()),
                wanted=Attributes(uid=os.geteuid(), gid=os.getegid(), mode=FILE_MODE, label="none"),
                labels=self._labels,
                path=directory,
            )


@contextmanager
def _opened(directory: str, *, create: bool) -> Iterator[int | None]:
    """Hold the directory open for the length of a block; ``None`` if it is missing and not to be made."""
    fd = None
    with in_our_words("cannot open or make", directory), suppress(FileNotFoundError):
        if create:
            Path(directory).mkdir(MODE, parents=True, exist_ok=True)
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    if fd is None:
        yield None
        return
    try:
        _trust(directory, os.fstat(fd))
        yield fd
    finally:
        os.close(fd)


def _trust(directory: str, found: os.stat_result) -> None:
    us = os.geteuid()
    if found.st_uid != us or found.st_mode & _WRITABLE_BY_OTHERS:
        raise DirectoryUnusable(
            f"{directory} belongs to uid {found.st_uid} and has mode {found.st_mode & 0o7777:04o}, so others could "
            f"write what Multus tells pods; find out who made it, then chown {us} and chmod go-w {directory}"
        )


def _names(fd: int) -> set[str]:
    with os.scandir(fd) as found:
        return {entry.name for entry in found}
