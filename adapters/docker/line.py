"""A connection that can be cut while a thread waits on it."""

import errno
import socket
from contextlib import suppress
from threading import Lock


class Line:
    """Where a blocking conversation with a daemon goes, from dialling to its end.

    A thread cannot be cancelled, and a socket's timeout counts from the last byte, so a daemon that dribbles would
    keep it for ever.  Cutting the line ends whatever the thread waits for, at once.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = Lock()
        self._sockets: list[socket.socket] = []
        self._is_cut = False

    def dial(self, timeout: float | None) -> socket.socket:
        """Return a new connection, which the caller closes.

        Args:
            timeout: seconds that it waits for the other end, ``None`` for ever.

        Raises:
            OSError: nobody takes it, or the line was cut before.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            connection.connect(self.path)
            self._watch(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _watch(self, connection: socket.socket) -> None:
        with self._lock:
            if self._is_cut:
                raise ConnectionAbortedError(errno.ECONNABORTED, "the line was cut")
            # A descriptor of our own: the SDK may close its one at any time, and its number may be another file's then.
            self._sockets.append(connection.dup())

    def cut(self) -> None:
        """End the conversation, now and for good.  It may be cut more than once, from any thread."""
        with self._lock:
            self._is_cut = True
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            with suppress(OSError):  # the other end has gone already
                each.shutdown(socket.SHUT_RDWR)
            each.close()
