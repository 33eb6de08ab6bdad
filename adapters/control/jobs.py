"""What clients ask for, done apart from them."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar

from adapters.control.refusals import TooMuch, TooSlow

MOST: Final = 100
"""Jobs at a time.  Each may wait for the storage worker, in which an Allocate must find its place."""

T = TypeVar("T")


class Jobs:
    """Runs at most one job a key at a time.

    * Who asks while one runs shares the next, which begins after the question; so an answer is never older than it.
    * A client that gives up, or is cut off, leaves nothing half done: the job goes on without it.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Any]] = {}
        self._next: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, key: Hashable, job: Callable[[], Awaitable[T]], *, within: float | None = None) -> T:
        """Return what a job of this key gives that begins now or later.

        Args:
            key: tells jobs apart; equal keys ask for the same.
            job: the work.
            within: seconds that the caller waits, ``None`` for ever.

        Raises:
            TooSlow: the time is over; the job goes on.
            TooMuch: there are too many jobs already.
        """
        task: asyncio.Task[T] = self._share(key, job)
        done, _ = await asyncio.wait((task,), timeout=within)
        if not done:
            raise TooSlow
        return task.result()

    async def aclose(self) -> None:
        """End every job."""
        tasks = [*self._running.values(), *self._next.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _share(self, key: Hashable, job: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        if key in self._next:
            return self._next[key]
        if len(self._running) + len(self._next) >= MOST:
            raise TooMuch
        before = self._running.get(key)
        task = asyncio.create_task(self._turn(key, before, job), name=f"control job {key!r}")
        task.add_done_callback(_heard)
        (self._running if before is None else self._next)[key] = task
        return task

    async def _turn(self, key: Hashable, before: asyncio.Task[Any] | None, job: Callable[[], Awaitable[T]]) -> T:
        try:
            if before is not None:
                await asyncio.wait((before,))
                self._running[key] = self._next.pop(key)
            return await job()
        finally:
            # The one that waits, if any, takes the place itself.
            self._running.pop(key, None)


def _heard(task: asyncio.Task[Any]) -> None:
    """Take note of an error that nobody may be left to hear; whoever asked has it."""
    if not task.cancelled():
        task.exception()
