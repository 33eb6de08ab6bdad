"""Which of two processes on one node is the active one.

The lock is the kernel's (``flock``) on a file that is never removed: it is free the moment its holder dies, however
that happens.  What stands in the file and when it was last touched only tell the other process whom it waits for.
"""

import asyncio
import fcntl
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from domain.errors import MemifError
from domain.ports.clock import Clock

POLL: Final = 0.1
"""Seconds between two attempts of a waiting process.  A thread that blocks in ``flock`` would be told at once, but
could not be called back."""

_LONGEST: Final = 4096
_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class LockUnusable(MemifError):
    """The lock file cannot be made, locked or touched."""


class LockLost(MemifError):
    """The lock file that we hold is not the one at its path any more, so another process may become active too."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the lock {path} was removed or replaced while it was held, so another process may serve this node too; "
            "stop all of them, start one, and leave the file alone"
        )
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds the lock, in its own words.

    Attributes:
        age: seconds since its last heartbeat.
    """

    pid: int
    instance: str
    version: str
    age: float


class NodeLock:
    """The right to be the active process of a node.

    Every method blocks only for as long as a call to the file system does.

    Args:
        path: the lock file; its directory is made, 0700, if it is missing.
        instance: names this process to the other one.
        version: of this program.
        clock: its wall-clock time is the heartbeat.
    """

    def __init__(self, path: str | os.PathLike[str], instance: str, version: str, clock: Clock) -> None:
        self._path = Path(path)
        self._content = json.dumps({"pid": os.getpid(), "instance": instance, "version": version}).encode()
        self._clock = clock
        self._descriptor: int | None = None
        self._told = False

    @property
    def held(self) -> bool:
        """Whether this process is the active one."""
        return self._descriptor is not None

    def try_acquire(self) -> bool:
        """Take the lock if it is free, and tell whether it is held now.

        Raises:
            LockUnusable: nobody could hold it; the message says why.
        """
        while self._descriptor is None:
            descriptor = self._open()
            try:
                if not _lock(descriptor):
                    break
                if self._is_ours(descriptor):
                    self._descriptor, descriptor = descriptor, -1
            except OSError as error:
                raise self._unusable("locked", error) from error
            finally:
                if descriptor >= 0:
                    os.close(descriptor)
        else:
            # Who holds it does not depend on what it says: on a full disk beat() tries again, and reports.
            with suppress(OSError):
                self._tell()
            return True
        return False

    async def wait(self) -> None:
        """Wait until the lock is held; at most a tenth of a second longer than it takes to become free.

        Raises:
            LockUnusable: nobody could hold it.
        """
        while not self.try_acquire():  # noqa: ASYNC110  the kernel sends no event when a lock becomes free
            await asyncio.sleep(POLL)

    def beat(self) -> None:
        """Tell the other process that we live.

        Raises:
            LockLost: we do not hold what is at the path any more.
            LockUnusable: the file cannot be touched; the lock is held all the same.
        """
        try:
            if self._descriptor is None or not self._is_ours(self._descriptor):
                raise LockLost(self._path)
            self._tell()
        except OSError as error:
            raise self._unusable("touched", error) from error

    def is_free(self) -> bool:
        """Tell whether no process holds the lock; nothing is made for that, and a lock that is not there is free.

        Whoever tries to get it just then has to try again, as every process does that waits for it.

        Raises:
            LockUnusable: it may not be looked at.
        """
        try:
            descriptor = os.open(self._path, os.O_RDONLY | _FLAGS)
        except FileNotFoundError:
            return True
        except OSError as error:
            raise self._unusable("opened", error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._unusable("looked at", error) from error
        finally:
            os.close(descriptor)
        return True

    def holder(self) -> Holder | None:
        """Return what the last holder left in the file; ``None`` if there is nothing that can be read."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | _FLAGS)
        except OSError:
            return None
        try:
            found = os.fstat(descriptor)
            content = json.loads(os.pread(descriptor, _LONGEST, 0)) if stat.S_ISREG(found.st_mode) else {}
            return Holder(
                pid=int(content["pid"]),
                instance=str(content["instance"]),
                version=str(content["version"]),
                # A clock that was set back makes a heartbeat of the future; it is a fresh one.
                age=max(0.0, self._clock.now().timestamp() - found.st_mtime),
            )
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        finally:
            os.close(descriptor)

    def release(self) -> None:
        """Let the other process become active; releasing twice is fine."""
        descriptor, self._descriptor, self._told = self._descriptor, None, False
        if descriptor is None:
            return
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
        os.close(descriptor)

    def _open(self) -> int:
        try:
            _make(self._path.parent)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        except OSError as error:
            raise self._unusable("opened", error) from error
        try:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            os.fchmod(descriptor, 0o600)
        except OSError as error:
            os.close(descriptor)
            raise self._unusable("opened", error) from error
        if not regular:
            os.close(descriptor)
            raise LockUnusable(f"the lock {self._path} is not a regular file; move it away")
        return descriptor

    def _is_ours(self, descriptor: int) -> bool:
        """Tell whether a descriptor is of the file at our path."""
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(descriptor))

    def _tell(self) -> None:
        """Write who we are, if that is not done, and set the time of the heartbeat."""
        descriptor = self._descriptor
        if descriptor is None:
            return
        if not self._told:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, self._content, 0)
            self._told = True
        beat = int(self._clock.now().timestamp() * 1e9)
        os.utime(descriptor, ns=(beat, beat))

    def _unusable(self, done: str, error: OSError) -> LockUnusable:
        return LockUnusable(
            f"the lock {self._path} cannot be {done}: {os.strerror(error.errno or 0)}; "
            "check space, owner, mode and SELinux label of file and directory"
        )


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make(directory: Path) -> None:
    """Make a directory for us alone, whatever the umask is; one that is there stays as it is."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)
            each.chmod(0o700 if each == directory else 0o755)
