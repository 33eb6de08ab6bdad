"""Hints from a thread that reads to a coroutine that waits."""

import asyncio
from contextlib import suppress


class Hints:
    """Passes on that something happened, never how often: a flood of events is one hint, and costs one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._happened = asyncio.Event()
        self._is_told = False

    def hint(self) -> None:
        """Say that something happened; for the thread."""
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                self._loop.call_soon_threadsafe(self._happened.set)

    def wake(self) -> None:
        """Let the one who waits look up although nothing happened; for the loop."""
        self._happened.set()

    async def next(self) -> None:
        """Wait until something has happened since the last time."""
        await self._happened.wait()
        self._happened.clear()
        # From here on the thread tells again.  What came before shows in whatever is read upon this hint.
        self._is_told = False
