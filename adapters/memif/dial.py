"""Reaching a control socket: exactly the one at the path, or a clear answer why not."""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from adapters.memif.connection import Connection
from adapters.memif.errors import (
    AbstractInstead,
    ChannelUnusable,
    LinkInstead,
    NobodyListens,
    NoSocket,
    NotASocket,
    NotPermitted,
    PeerSilent,
    WrongSocketType,
)

_AS_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_AS_IT_IS: Final = os.O_PATH | os.O_NOFOLLOW
_PAUSE: Final = 0.02
"""Seconds between attempts while a listener's queue is full."""

_DENIED: Final = (
    "{path} cannot be connected to: {reason}; it takes write permission on the socket (VPP makes it 0775, so it is the"
    " owner's and its group's) and the right to pass its directories. If these are given, SELinux may forbid it: look"
    " for 'avc: denied' with ausearch -m avc -ts recent"
)
_DEAD: Final = (
    "nobody listens on {path}: the socket was left by a dataplane that has ended, or its interface is not up yet;"
    " start the dataplane, which replaces a dead socket, or check that it was told this path"
)
_OTHER_TYPE: Final = (
    "something listens on {path}, but not on a SEQPACKET socket, so it is no memif dataplane; find it with 'ss -xlp'"
)
_FACTS: Final[Mapping[int, tuple[type[ChannelUnusable], str]]] = {
    errno.ECONNREFUSED: (NobodyListens, _DEAD),
    errno.EPROTOTYPE: (WrongSocketType, _OTHER_TYPE),
    errno.ENOTDIR: (NotASocket, "{path} leads through something that is no directory; check the path"),
    errno.ELOOP: (LinkInstead, "{path} leads through too many symbolic links; check its directories"),
    errno.EACCES: (NotPermitted, _DENIED),
    errno.EPERM: (NotPermitted, _DENIED),
}
_ANY: Final = "{path} cannot be connected to: {reason}; see dmesg, and check the path"
"""For what nobody expects."""

_UNIX_SOCKETS: Final = Path("/proc/net/unix")


async def dial(path: str, *, patience: float) -> Connection:
    """Connect to the SEQPACKET socket at a path.

    A pod may write into the directory of its socket, so it must not be able to lead us elsewhere: the directory and
    then the socket itself are opened without following symbolic links, and it is the opened one that is connected to,
    whatever its name means by then.

    Args:
        path: of the socket; links above its directory are followed.
        patience: seconds for the connection, and then for each message.

    Raises:
        ChannelUnusable: one of its kinds, each with its cure.
    """
    directory, name = os.path.split(path)
    if not name or name in {".", ".."} or "\0" in path:
        raise NotASocket(f"{path!r} names no socket; give the path of one, such as /run/vpp/memif.sock")
    holder = _open_directory(directory or ".", path)
    try:
        opened = _open_socket(holder, name, path)
    finally:
        os.close(holder)
    try:
        sock = await _connected(opened, path, patience)
    finally:
        os.close(opened)
    return Connection(sock, peer=f"the peer at {path}", patience=patience)


def _open_directory(directory: str, path: str) -> int:
    with _in_our_words(path):
        try:
            return os.open(directory, _AS_DIRECTORY)
        except NotADirectoryError as error:
            with suppress(OSError):
                target = str(Path(directory).readlink())
                raise LinkInstead(
                    f"{directory}, the directory of {path}, is a symbolic link to {target!r} and is not followed,"
                    " because it could be pointed elsewhere; give the path by the real directory"
                ) from error
            raise


def _open_socket(holder: int, name: str, path: str) -> int:
    with _in_our_words(path):
        opened = os.open(name, _AS_IT_IS, dir_fd=holder)
    mode = os.fstat(opened).st_mode
    if stat.S_ISSOCK(mode):
        return opened
    os.close(opened)
    if stat.S_ISLNK(mode):
        raise LinkInstead(
            f"{path} is a symbolic link and is not followed, because whoever may write to the directory could point it"
            " at any socket of this machine; find out who made it, and remove it"
        )
    raise NotASocket(
        f"{path} is no socket, so no dataplane can listen there (VPP refuses to replace it); find out who made it, and"
        " remove it"
    )


async def _connected(opened: int, path: str, patience: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        async with asyncio.timeout(patience):
            while True:
                try:
                    with _in_our_words(path):
                        sock.connect(f"/proc/self/fd/{opened}")
                except BlockingIOError:
                    # The listener's queue is full (DPDK's holds one or two), and nothing tells when it no longer is.
                    await asyncio.sleep(_PAUSE)
                else:
                    return sock
    except TimeoutError as error:
        sock.close()
        raise PeerSilent(
            f"the peer that listens on {path} accepted no connection within {patience:g} s; it hangs or is overloaded:"
            " look at it with 'ss -xlp'"
        ) from error
    except BaseException:
        sock.close()
        raise


@contextmanager
def _in_our_words(path: str) -> Iterator[None]:
    """Turn every :class:`OSError` into ours, but for those that the block is to see itself."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        raise translated(error, path) from error


def translated(error: OSError, path: str) -> ChannelUnusable:
    """Return our exception for what the system says on the way to a socket."""
    if error.errno == errno.ENOENT:
        return _nothing_there(path)
    kind, text = _FACTS.get(error.errno or 0, (ChannelUnusable, _ANY))
    return kind(text.format(path=path, reason=os.strerror(error.errno or 0)))


def _nothing_there(path: str) -> NoSocket:
    if _is_abstract(path):
        return AbstractInstead(
            f"there is no socket at {path}, but somebody listens on the abstract socket of that name, which no mount"
            " and no permission reaches; start DPDK with socket-abstract=no in --vdev (its default is yes)"
        )
    return NoSocket(
        f"there is no socket at {path}: the dataplane has not made it yet, or was told another path. A DPDK peer that"
        " seems healthy listens on an abstract socket instead, unless it was started with socket-abstract=no"
    )


def _is_abstract(path: str) -> bool:
    """Tell whether an abstract socket of this name is in use in our network namespace."""
    try:
        lines = _UNIX_SOCKETS.read_bytes().splitlines()
    except OSError:
        return False
    # Seven columns, then the name, with @ for the zero that makes it abstract and for those that DPDK ends it with.
    name = b"@" + os.fsencode(path)
    return any(line.split(None, 7)[-1].rstrip(b"@") == name for line in lines)
