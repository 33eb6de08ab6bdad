"""Noticing at once that something changed in the plugin directory.

From the moment the kubelet's socket accepts connections it takes about 80 ms until the kubelet admits its pods anew;
a device list that arrives later loses every pod whose containers do not run, for good.  So the directory is watched
with inotify, and where that does not work it is looked at thirty times a second; once a second does not do.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from asyncinotify import Inotify, Mask

from adapters.kubelet.directory import KubeletSocket, PluginDirectory
from domain.ports.reports import Reports

FLOOR: Final = 0.5
"""Seconds after which waiters look for themselves even if inotify said nothing: events can be lost."""

POLL: Final = 0.03
"""Seconds between two looks without inotify: well within what the kubelet gives, at a small cost."""

_EVENTS: Final = (
    Mask.CREATE | Mask.DELETE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ONLYDIR
)


class DirectoryWatch:
    """Wakes everyone who waits for the plugin directory whenever it may have changed."""

    def __init__(self, *, directory: PluginDirectory, reports: Reports, inotify: bool = True) -> None:
        self._directory = directory
        self._reports = reports
        self._inotify = inotify
        self._waiters: list[Callable[[], None]] = []

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have ``wake`` called at every hint, and return what ends that."""
        self._waiters.append(wake)
        return lambda: self._waiters.remove(wake)

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            if not self._inotify:
                await self._poll(lambda: True)
            elif self._absent():
                # What is not there cannot be watched; the kubelet makes directory and socket in one go.
                await self._poll(self._absent)
            else:
                try:
                    with Inotify() as inotify:
                        await self._listen(inotify)
                except OSError as error:
                    self._inotify = False
                    self._reports.warn(
                        "inotify cannot be used; the plugin directory is polled instead",
                        reason=error.strerror,
                        cure="raise fs.inotify.max_user_instances and fs.inotify.max_user_watches",
                    )

    async def _listen(self, inotify: Inotify) -> None:
        """Wake at events until the watch is dead, because the directory was removed or moved."""
        identity = _identity(self._directory.path)
        try:
            inotify.add_watch(self._directory.path, _EVENTS)
        except FileNotFoundError:
            return
        self._wake()  # for what happened before the watch was there
        while _identity(self._directory.path) == identity:
            dead = False
            with suppress(TimeoutError):
                async with asyncio.timeout(FLOOR):
                    dead = Mask.IGNORED in (await inotify.get()).mask
            self._wake()
            if dead:  # a directory made anew may have the inode of the removed one
                return

    async def _poll(self, going: Callable[[], bool]) -> None:
        """Look for changes as long as the condition holds."""
        before: object = None
        loop = asyncio.get_running_loop()
        woken = loop.time()
        while going():
            now = self._signature()
            if now != before or loop.time() - woken >= FLOOR:
                before, woken = now, loop.time()
                self._wake()
            await asyncio.sleep(POLL)

    def _signature(self) -> tuple[tuple[int, ...] | None, KubeletSocket | None]:
        """What changes whenever a name comes or goes; the kubelet's socket too, as times are coarse."""
        try:
            status = os.stat(self._directory.path)  # noqa: PTH116
        except OSError:
            return None, None
        return (status.st_dev, status.st_ino, status.st_mtime_ns), self._directory.kubelet()

    def _absent(self) -> bool:
        return _identity(self._directory.path) is None

    def _wake(self) -> None:
        for wake in tuple(self._waiters):
            wake()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_dev, status.st_ino
