"""Runs a program that kills itself: ``python -m tests.e2e.cutting CHANGE WHEN PROGRAM -m MODULE ARGUMENT...``.

It gets SIGKILL right before the so-manieth change that it makes to the disk, whoever in it makes it: the interpreter
tells of all of them, and SQLite's statements are counted besides.  They are counted from the start, or from SIGUSR1 on.
"""

import os
import runpy
import signal
import sqlite3
import sys
import threading
from types import FrameType
from typing import Any

from tests.integration.crash import changes_disk, only_reads

START, SIGNAL = "start", "signal"
"""When counting begins."""

COUNTING, ENDING = "counting", "ending"
"""What it says on standard error when it begins to count, and right before its end."""


class Cut:
    """Counts changes down to the end.

    Args:
        change: the one before which the process ends, 1 being the first that is counted.
    """

    def __init__(self, change: int) -> None:
        self._left = change
        self._armed = False
        self._lock = threading.Lock()

    def arm(self, *_: int | FrameType | None) -> None:
        """Begin to count."""
        self._armed = True
        _say(COUNTING)

    def come(self) -> None:
        """Come to a change."""
        if not self._armed:
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._armed = False  # or the end itself would be heard of
                _say(ENDING)
                os.kill(os.getpid(), signal.SIGKILL)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Hear from the interpreter what is about to be done."""
        if self._armed and (event == "socket.bind" or changes_disk(event, arguments)):
            self.come()


def _say(word: str) -> None:
    os.write(sys.stderr.fileno(), f"{word}\n".encode())


def main(change: str, when: str, *program: str) -> None:
    """Run a program until its end, or its time."""
    cut = Cut(int(change))

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
            if not only_reads(sql):
                cut.come()
            return super().execute(sql, parameters)

        def executemany(self, sql: str, parameters: Any) -> sqlite3.Cursor:
            cut.come()
            return super().executemany(sql, parameters)

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = dialed(*arguments, **{"factory": Connection, **options})
        return made

    dialed, sqlite3.connect = sqlite3.connect, connect  # type: ignore[assignment]  # it is an overloaded function
    sys.addaudithook(cut.hear)
    signal.signal(signal.SIGUSR1, cut.arm)
    if when == START:
        cut.arm()
    _python, _m, module, *arguments = program
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
