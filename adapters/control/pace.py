"""Whose turn it is to be told something.

A hundred watchers make a hundred messages of every event.  Sent at once, they would keep the event loop from an
Allocate, for which a whole node's admission waits.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

BURST: Final = 8
"""Messages between two looks of the event loop at everything else, while nothing is urgent."""

PAUSE: Final = 0.02
"""Seconds between two slices while something is urgent."""

SLICE: Final = 40
"""Messages in one: 2000 a second, a tenth of the time."""


class Pace:
    """Gives turns to send one message, in the order in which they were asked for.

    Args:
        busy: tells whether something is urgent now.
    """

    def __init__(self, *, busy: Callable[[], bool]) -> None:
        self._busy = busy
        self._queue: deque[asyncio.Future[None]] = deque()
        self._parked: list[asyncio.Future[None]] = []
        self._next: asyncio.Handle | None = None

    async def turn(self) -> None:
        """Wait for the turn to send something that is there."""
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        self._schedule()
        await turn

    async def news(self) -> None:
        """Wait until something happened, and for the turn to send it."""
        turn = asyncio.get_running_loop().create_future()
        self._parked.append(turn)
        await turn

    def stir(self) -> None:
        """Let those who wait for news have their turns: something happened."""
        if self._parked:
            self._queue.extend(self._parked)
            self._parked = []
        self._schedule()

    def close(self) -> None:
        """Let everybody have their turn now, to find that it is over."""
        for turn in (*self._queue, *self._parked):
            if not turn.done():
                turn.set_result(None)

    def _schedule(self) -> None:
        if self._next is None and self._queue:
            self._next = asyncio.get_running_loop().call_later(PAUSE if self._busy() else 0, self._give)

    def _give(self) -> None:
        self._next = None
        left = SLICE if self._busy() else BURST
        while self._queue and left:
            turn = self._queue.popleft()
            if not turn.done():  # whoever gave up has no turn
                turn.set_result(None)
                left -= 1
        self._schedule()
