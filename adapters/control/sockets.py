"""Where the control API's sockets lie, and who may use them."""

import errno
import grp
import os
import socket
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from domain.errors import MemifError

_ANSWER: Final = 1.0
"""Seconds in which a living server takes a connection; the kernel does that for it."""

_DIRECTORY_MODE: Final = 0o755


class ControlSocketUnusable(MemifError):
    """A control socket cannot be opened; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a socket lies and who may use it.

    Attributes:
        path: of the socket; its directory is made 0755 if it is missing.
        mode: permission bits.
        group: name or number, ``None`` for the daemon's own, which is root's.
    """

    path: str
    mode: int
    group: str | int | None = None


def prepare(place: Place) -> None:
    """Make room for a socket: the directory, and nothing at the path.

    Raises:
        ControlSocketUnusable: there can be none, or another process answers there.
    """
    directory = os.path.dirname(place.path)  # noqa: PTH120 -- paths are text here, as in the configuration
    try:
        _make(directory)
        _clear(place.path)
    except OSError as error:
        raise _unusable(place.path, error) from error


def hand_over(place: Place) -> None:
    """Give a socket that was just made, and that is nobody else's yet, to those who may use it.

    Raises:
        ControlSocketUnusable: there is no such group, or we may not.
    """
    try:
        os.chown(place.path, -1, _gid(place.group))
        os.chmod(place.path, place.mode)  # noqa: PTH101 -- see above
    except OSError as error:
        raise _unusable(place.path, error) from error
    except KeyError as error:
        raise ControlSocketUnusable(
            f"the control socket {place.path} cannot be opened: there is no group {place.group!r} on this node; "
            "make it, or give its number"
        ) from error


def left_behind(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the sockets among some paths at which nobody answers any more."""
    return tuple(path for path in paths if _is_socket(path) and not _answers(path))


def living(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the sockets among some paths at which a process answers."""
    return tuple(path for path in paths if _is_socket(path) and _answers(path))


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path, follow_symlinks=False).st_mode)  # noqa: PTH116
    except OSError:
        return False


def identity(path: str) -> tuple[int, int] | None:
    """Return what tells a socket file from another one that has its path later; ``None`` if there is none."""
    try:
        status = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISSOCK(status.st_mode) else None


def _gid(group: str | int | None) -> int:
    if group is None:
        return os.getegid()
    return group if isinstance(group, int) else grp.getgrnam(group).gr_gid


def _make(directory: str) -> None:
    if os.path.isdir(directory):  # noqa: PTH112
        return
    _make(os.path.dirname(directory))  # noqa: PTH120
    try:
        os.mkdir(directory, _DIRECTORY_MODE)  # noqa: PTH102
    except FileExistsError:
        return
    os.chmod(directory, _DIRECTORY_MODE)  # noqa: PTH101 -- whatever the umask is


def _clear(path: str) -> None:
    """Remove the socket of a dead process; nothing else is ours to remove."""
    try:
        status = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise ControlSocketUnusable(
            f"the control socket {path} cannot be opened: something that is no socket lies there; move it away"
        )
    if _answers(path):
        raise ControlSocketUnusable(
            f"the control socket {path} cannot be opened: another process answers there; stop it, or configure "
            "another path"
        )
    os.unlink(path)  # noqa: PTH108


def _answers(path: str) -> bool:
    """Tell whether somebody listens on a socket; a queue that is full is somebody's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_ANSWER)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except FileNotFoundError:
            return False
        except (TimeoutError, BlockingIOError):
            return True
        return True


def _unusable(path: str, error: OSError) -> ControlSocketUnusable:
    cure = {
        errno.EACCES: "; run as root, and look for AVC denials where SELinux is on",
        errno.EPERM: "; run as root",
        errno.EROFS: "; configure a path on a file system that can be written",
        errno.ENOSPC: "; its file system is full",
    }.get(error.errno or 0, "")
    return ControlSocketUnusable(f"the control socket {path} cannot be opened: {os.strerror(error.errno or 0)}{cure}")
