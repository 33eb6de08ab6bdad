"""The end of a process between any two steps, and disks that fail.

What a storage job does to the disk goes through the operating system's calls and SQLite's statements, so those are
counted, and before any of them the process can be ended or the call can fail.  The calls of ports are counted too, see
:mod:`tests.integration.crossings`.  A process that was ended does nothing any more, however its code tries to clean up.
"""

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest.mock import patch

from adapters.memory.worker import InlineWorker

T = TypeVar("T")

CHANGING: Final = (
    "chmod",
    "chown",
    "fchmod",
    "fchown",
    "fsync",
    "link",
    "mkdir",
    "remove",
    "rename",
    "replace",
    "rmdir",
    "setxattr",
    "symlink",
    "unlink",
    "write",
)
"""The system calls that change something on disk; ``open`` is one of them when it makes or writes a file."""

_READS: Final = frozenset({"os.listdir", "os.scandir", "os.getxattr", "os.listxattr"})
"""What the interpreter tells of the functions of ``os`` that leave the disk as it is."""

_WRITING: Final = os.O_CREAT | os.O_WRONLY | os.O_RDWR

_OF_THE_CONNECTION: Final = ("PRAGMA locking_mode", "PRAGMA synchronous")

_WATCHED: Final[set["Power"]] = set()

DISK, JOURNAL = "disk", "journal"
"""Where a step is done: in the file system, or by SQLite."""

Fault = Callable[[str], Exception | None]
"""Says with what a step of one of the two places fails, ``None`` to let it happen."""


class Killed(BaseException):
    """The process has ended; nothing may catch this and go on."""


class Power:
    """Decides before each step whether the process still lives and whether the disk works.

    All that a process knows ends with it, so steps between which the world outside did not change are one moment.

    Attributes:
        steps: names of the steps since :meth:`reset`, in order.
        dead: whether the process was ended.
        fault: what is wrong with the disk.
        ending: called at the moment of the end, when the disk is as the process left it.
    """

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.dead = False
        self.fault: Fault | None = None
        self.ending: Callable[[], None] = lambda: None
        self.committing: Callable[[bool], None] = lambda durable: None  # noqa: ARG005 -- a name for the reader
        self._left: int | str | None = None
        self._another = True
        self._working = 0
        self._counted = False

    def reset(self) -> None:
        """Forget everything, as for another process on a sound disk."""
        self.__init__()  # type: ignore[misc]  # it is a plain object without anything that could be shared

    def revive(self) -> None:
        """Begin another process."""
        self.dead, self._left = False, None

    def end_before(self, moment: int | str | None) -> None:
        """End the process at a moment to come.

        Args:
            moment: how many from now, the next one being 1; or the name of a step, to end before the next of that name;
                ``None`` for not at all.
        """
        self.steps.clear()
        self._left, self._another = moment, True

    def end(self) -> None:
        """End the process now."""
        if not self.dead:
            self.dead = True
            self.ending()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the steps of a block."""
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1

    @property
    def off_the_books(self) -> bool:
        """Whether a storage job runs and is not in the middle of a step."""
        return self._working > 0 and not self._counted

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Do what was come to."""
        self._counted = True
        try:
            yield
        finally:
            self._counted = False

    def step(self, place: str, what: str) -> None:
        """Come to a step of a storage job; what is done to the disk otherwise is none."""
        if not self._working:
            return
        self._come_to(what)
        self.changed()
        trouble = None if self.fault is None else self.fault(place)
        if trouble is not None:
            raise trouble

    def cross(self, what: str, *, lives: bool) -> None:
        """Come to a step between the core and a port, which a process that has ended does not get to."""
        if not lives:
            raise Killed
        self._come_to(what)

    def changed(self) -> None:
        """Note that the world outside the process is another one from now on."""
        self._another = True

    def _come_to(self, what: str) -> None:
        if self.dead:
            raise Killed
        self.steps.append(what)
        if isinstance(self._left, int) and self._another:
            self._left -= 1
        self._another = False
        if self._left in {0, what}:
            self.end()
            raise Killed


@contextmanager
def powered() -> Iterator[Power]:
    """Have the steps of storage jobs counted by what this yields."""
    power = Power()

    class Connection(sqlite3.Connection):
        """Comes to a step before each statement that is a change, or begins or ends one."""

        _durable = False

        def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
            if sql.startswith("PRAGMA synchronous"):
                self._durable = sql.endswith("FULL")
            if not only_reads(sql):
                power.step(JOURNAL, sql.split(maxsplit=1)[0])
            if sql == "COMMIT":
                power.committing(self._durable)
            return super().execute(sql, parameters)

        def executemany(self, sql: str, parameters: Any) -> sqlite3.Cursor:
            power.step(JOURNAL, sql.split(maxsplit=1)[0])
            return super().executemany(sql, parameters)

        def executescript(self, script: str, /) -> sqlite3.Cursor:
            raise AssertionError(f"how many steps are in this? {script}")

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = dialed(*arguments, **{"factory": Connection, **options})
        return made

    dialed = sqlite3.connect
    patches = [patch.object(os, name, _counted(getattr(os, name), power)) for name in CHANGING]
    patches += [patch.object(os, "open", _opening(os.open, power)), patch.object(sqlite3, "connect", connect)]
    for each in patches:
        each.start()
    _WATCHED.add(power)
    _have_watched()
    try:
        yield power
    finally:
        _WATCHED.discard(power)
        for each in reversed(patches):
            each.stop()


def only_reads(sql: str) -> bool:
    """Whether a statement changes nothing but its own connection."""
    return sql.startswith(("SELECT", *_OF_THE_CONNECTION)) or (sql.startswith("PRAGMA") and "=" not in sql)


def _counted(call: Callable[..., T], power: Power) -> Callable[..., T]:
    @wraps(call)
    def counted(*arguments: Any, **options: Any) -> T:
        power.step(DISK, call.__name__)
        with power.counted():
            return call(*arguments, **options)

    return counted


def _opening(call: Callable[..., int], power: Power) -> Callable[..., int]:
    @wraps(call)
    def opening(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if not flags & _WRITING:
            return call(path, flags, *arguments, **options)
        power.step(DISK, "open")
        with power.counted():
            return call(path, flags, *arguments, **options)

    return opening


def changes_disk(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether the interpreter tells of something that changes the disk, by whichever function."""
    return bool(arguments[2] & _WRITING) if event == "open" else event.startswith("os.") and event not in _READS


@cache
def _have_watched() -> None:
    """Have the interpreter tell from now on: who listens to it once does so until its end."""
    sys.addaudithook(_watch)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Let no storage job change the disk by what is not counted; the interpreter tells of all that it does."""
    for power in _WATCHED:
        if power.off_the_books and changes_disk(event, arguments):
            raise AssertionError(f"a storage job changes the disk by what is no step: {event} {arguments}")


class CountedWorker(InlineWorker):
    """A worker whose jobs are what :class:`Power` decides about, and which has ended when its process has.

    Args:
        power: decides.
        lives: says whether the process is still the one that runs; another may have come after it.
    """

    def __init__(self, power: Power, lives: Callable[[], bool]) -> None:
        super().__init__()
        self._power = power
        self._lives = lives

    async def run(
        self,
        what: str,
        job: Callable[[], T],
        *,
        undo: Callable[[T], None] | None = None,
        budget: float | None = None,
    ) -> T:
        """See the port."""

        def counted() -> T:
            if not self._lives():
                raise Killed
            with self._power.working():
                return job()

        def taken_back(result: T) -> None:
            with self._power.working():
                if undo is not None and self._lives():
                    undo(result)

        return await super().run(what, counted, undo=taken_back, budget=budget)


def frozen(directory: Path) -> dict[str, bytes]:
    """Return the files of a directory as they are."""
    return {each.name: each.read_bytes() for each in directory.iterdir()} if directory.exists() else {}


def thaw(directory: Path, files: dict[str, bytes]) -> None:
    """Make the files of a directory what they were; whatever had them open must be closed."""
    for each in directory.iterdir() if directory.exists() else ():
        each.unlink()
    for name, content in files.items():
        (directory / name).write_bytes(content)
        (directory / name).chmod(0o600)
