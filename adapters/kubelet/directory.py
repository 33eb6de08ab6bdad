"""The kubelet's plugin directory: its socket, ours, and other people's."""

import errno
import os
import random
import re
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from domain.reply import Reply

_NAME_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_NAME_LENGTH: Final = 8


@dataclass(frozen=True, slots=True)
class KubeletSocket:
    """One incarnation of the kubelet's registration socket.

    The inode alone would not do: file systems give a freed number to the next file at once.
    """

    device: int
    inode: int
    changed: int


class PluginDirectory:
    """Looks into the plugin directory; every question is answered from the disk as it is now."""

    def __init__(self, *, path: str, kubelet_socket: str, endpoint: str) -> None:
        """Describe the directory; nothing is touched.

        Args:
            path: the directory.
            kubelet_socket: base name of the kubelet's registration socket.
            endpoint: base name from which the names of our sockets are made, ending in ``.sock``.
        """
        self.path = path
        self.kubelet_path = os.path.join(path, kubelet_socket)  # noqa: PTH118 -- plain strings, compared and sent
        self._endpoint = endpoint
        self._stem = endpoint.removesuffix(".sock")
        self._ours = re.compile(rf"{re.escape(self._stem)}\.[{_NAME_ALPHABET}]{{{_NAME_LENGTH}}}-[0-9]+\.sock")

    def new_socket(self, number: int) -> str:
        """Return a path for a session's socket that no session used before.

        A name of its own for each session keeps processes apart: gRPC takes over a living socket without a word, and
        unlinks by name when it stops.
        """
        part = "".join(random.choices(_NAME_ALPHABET, k=_NAME_LENGTH))  # noqa: S311 -- a name, not a secret
        return os.path.join(self.path, f"{self._stem}.{part}-{number}.sock")  # noqa: PTH118

    def kubelet(self) -> KubeletSocket | None:
        """Return the present incarnation of the kubelet's socket, living or stale; ``None`` if there is none."""
        try:
            status = os.stat(self.kubelet_path)  # noqa: PTH116
        except OSError:
            return None
        return KubeletSocket(status.st_dev, status.st_ino, status.st_ctime_ns)

    def kubelet_reply(self) -> Reply:
        """Say whether the kubelet accepts connections; the file alone proves nothing."""
        return reply(self.kubelet_path)

    def leftovers(self) -> tuple[str, ...]:
        """Return the names of sockets of ours whose process is dead."""
        return tuple(
            name for name in self._sockets() if self._ours.fullmatch(name) and self._reply(name) is Reply.REFUSES
        )

    def leftover_paths(self) -> tuple[str, ...]:
        """Return where the sockets of ours lie whose process is dead."""
        return tuple(os.path.join(self.path, name) for name in self.leftovers())  # noqa: PTH118

    def contivs(self) -> Reply:
        """Say who answers under the name that a Contiv agent gives its own socket."""
        return self._reply(self._endpoint)

    def unlink(self, name: str) -> None:
        """Remove a socket; one that is gone already is fine.

        Raises:
            OSError: it is still there.
        """
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self.path, name))  # noqa: PTH108, PTH118

    def foreigners(self) -> tuple[str, ...]:
        """Return the living sockets under our names: an old Contiv agent's, or another process of ours.

        To be asked while no session of this process serves.
        """
        return tuple(
            name
            for name in self._sockets()
            if (name == self._endpoint or self._ours.fullmatch(name))
            and self._reply(name) in {Reply.ANSWERS, Reply.DENIED}
        )

    def _reply(self, name: str) -> Reply:
        return reply(os.path.join(self.path, name))  # noqa: PTH118

    def _sockets(self) -> tuple[str, ...]:
        """Return the names of all sockets; none if the directory cannot be read, in which none can be made either."""
        try:
            with os.scandir(self.path) as entries:
                return tuple(sorted(each.name for each in entries if _is_socket(each)))
        except OSError:
            return ()


def _is_socket(entry: "os.DirEntry[str]") -> bool:
    """Tell whether an entry is a socket; the kubelet's temporary files come and go under our eyes."""
    try:
        return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return False


def reply(path: str) -> Reply:
    """Connect to a Unix socket without waiting, and say what came of it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        error = probe.connect_ex(path)
    if error in {0, errno.EAGAIN, errno.EINPROGRESS}:  # a full queue belongs to somebody who listens
        return Reply.ANSWERS
    if error in {errno.EACCES, errno.EPERM}:
        return Reply.DENIED
    return Reply.ABSENT if error == errno.ENOENT else Reply.REFUSES
