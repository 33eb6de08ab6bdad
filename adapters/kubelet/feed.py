"""When to send a device list, and to how many streams it goes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class _Stream:
    """An open stream.

    Attributes:
        written: how many publications the list that was written last came after, -1 before the first list.
    """

    written: int = -1


class DeviceFeed:
    """The publications of one server's device list.

    A stream gets the list as soon as it opens and again at each publication; a stream that is slow misses those in
    between, which is right, because every list replaces the one before.
    """

    def __init__(self, *, changed: Callable[[], None], interval: float = 0.0) -> None:
        """Make a feed without streams.

        Args:
            changed: called when a stream opens or ends.
            interval: seconds after which an unchanged list is sent again, 0 for never.
        """
        self._changed = changed
        self._interval = interval
        self._published = asyncio.Event()
        self._moved = asyncio.Event()
        self._closed = False
        self._publications = 0
        self._open: set[_Stream] = set()

    @property
    def streams(self) -> int:
        """Streams that are open now."""
        return len(self._open)

    def renew(self, interval: float) -> None:
        """Send an unchanged list after another interval from now on."""
        if interval != self._interval:
            self._interval = interval
            self.publish()

    def publish(self) -> None:
        """Send the list again on every open stream."""
        self._publications += 1
        published, self._published = self._published, asyncio.Event()
        published.set()

    async def flush(self) -> None:
        """Wait until every open stream has written a list that was made after the last publication.

        A stream on which nobody reads never has, so the caller bounds the wait.
        """
        while any(stream.written < self._publications for stream in self._open):
            self._moved.clear()
            await self._moved.wait()

    def close(self) -> None:
        """End every stream, now and from now on."""
        self._closed = True
        self.publish()

    @contextmanager
    def watching(self) -> Iterator[AsyncIterator[None]]:
        """Count a stream in for as long as the context lasts, and yield its occasions to send."""
        stream = _Stream()
        self._open.add(stream)
        self._changed()
        try:
            yield self._occasions(stream)
        finally:
            self._open.remove(stream)
            self._moved.set()
            self._changed()

    async def _occasions(self, stream: _Stream) -> AsyncIterator[None]:
        while not self._closed:
            published, number = self._published, self._publications
            yield
            # Who asks for the next occasion has written what the last one was for.
            stream.written = number
            self._moved.set()
            await self._next(published)

    async def _next(self, published: asyncio.Event) -> None:
        if not self._interval:
            await published.wait()
            return
        try:
            async with asyncio.timeout(self._interval):
                await published.wait()
        except TimeoutError:
            return
