"""Bounded deletion of what tenants left behind."""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from adapters.filesystem import names, tree
from adapters.filesystem.base import Base
from adapters.filesystem.errors import obstacle

_NOT_EMPTY: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far one pass goes.

    Attributes:
        levels: directories that are entered below each other; deeper ones are first moved up to the base directory.
        entries: removed, moved up or found stuck.
        seconds: after which nothing new is begun.
    """

    levels: int = 64
    entries: int = 10_000
    seconds: float = 1.0


class Pass:
    """One pass over waiting directories in the base directory.

    Everything happens relative to open descriptors.  No symbolic link is followed and no mount entered: an entry is
    judged by what it is once it is held open, not by what a listing said.  What stands in the way is reported, and the
    rest is removed all the same.  Each pass removes at least one entry if any can be, so the passes come to an end.

    Attributes:
        stuck: the waiting names in which something stood in the way.
        left: the waiting names of which something is left.
    """

    def __init__(
        self, base: Base, limits: Limits, *, monotonic: Callable[[], float], random: Callable[[], str]
    ) -> None:
        self._base = base
        self._limits = limits
        self._monotonic = monotonic
        self._random = random
        self._until = monotonic() + limits.seconds
        self._left = limits.entries
        self._moved_up: deque[str] = deque()
        self._more = False
        self._obstacle: str | None = None
        self.stuck: set[str] = set()
        self.left: set[str] = set()

    def __call__(self, waiting: Iterable[tuple[str, bool]]) -> tuple[bool, str | None]:
        """Remove entries of the base directory, each given by its name and whether it is a directory.

        Returns:
            Whether there is more to be removed in another pass, and what stood in the way first.
        """
        for name, is_directory in waiting:
            self._try(name, is_directory=is_directory)
        while self._moved_up:
            self._try(self._moved_up.popleft(), is_directory=True)
        return self._more, self._obstacle

    def _try(self, name: str, *, is_directory: bool) -> None:
        if not self._remove(self._base.fd, (name,), is_directory=is_directory):
            self.left.add(name)

    def _may_go_on(self) -> bool:
        begun = self._left < self._limits.entries
        return self._left > 0 and not (begun and self._monotonic() >= self._until)

    def _remove(self, parent: int, trail: tuple[str, ...], *, is_directory: bool) -> bool:
        """Remove an entry with all that is below it and return whether it is gone from its parent."""
        if not self._may_go_on():
            self._more = True
            return False
        try:
            if is_directory:
                return self._remove_directory(parent, trail)
            os.unlink(trail[-1], dir_fd=parent)
        except FileNotFoundError:
            return True
        except (IsADirectoryError, NotADirectoryError):
            self._more = True  # exchanged since it was listed: the next pass sees what it is then
            return False
        except OSError as error:
            self._report(trail, error)
            return False
        self._left -= 1
        return True

    def _remove_directory(self, parent: int, trail: tuple[str, ...]) -> bool:
        name = trail[-1]
        if len(trail) > self._limits.levels:
            self._move_up(parent, trail)
            return True
        if not self._clear(parent, trail):
            return False
        if not self._may_go_on():
            self._more = True
            return False
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError as error:
            if error.errno not in _NOT_EMPTY:
                raise
            self._more = True  # somebody still writes here
            return False
        self._left -= 1
        return True

    def _clear(self, parent: int, trail: tuple[str, ...]) -> bool:
        """Remove what is in a directory and return whether nothing of it is left."""
        clear = True
        with tree.entered(parent, trail[-1], within=self._base.place) as fd:
            _allow(fd)
            with os.scandir(fd) as found:
                for entry in found:
                    is_directory = entry.is_dir(follow_symlinks=False)
                    if not self._remove(fd, (*trail, entry.name), is_directory=is_directory):
                        clear = False
                        if not self._may_go_on():
                            break
        return clear

    def _move_up(self, parent: int, trail: tuple[str, ...]) -> None:
        """Move a directory that is too deep to the base directory, where it is removed like any other."""
        name = names.again(trail[0], self._random())
        os.rename(trail[-1], name, src_dir_fd=parent, dst_dir_fd=self._base.fd)
        self._left -= 1
        self._moved_up.append(name)

    def _report(self, trail: tuple[str, ...], error: OSError) -> None:
        self._left -= 1
        self.stuck.add(trail[0])
        if self._obstacle is None:
            self._obstacle = obstacle(f"{self._base.host_dir}/{names.shown('/'.join(trail))}", error)


def _allow(fd: int) -> None:
    """Let ourselves remove what is in a directory: tenants take away permissions, and not every daemon passes."""
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        with suppress(OSError):  # then the removal says what stands in the way, if anything does
            os.fchmod(fd, stat.S_IRWXU)
