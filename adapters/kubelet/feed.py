"""When to send a device list, and to how many streams it goes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager


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
        self._closed = False
        self.streams = 0
        """Streams that are open now."""

    def publish(self) -> None:
        """Send the list again on every open stream."""
        published, self._published = self._published, asyncio.Event()
        published.set()

    def close(self) -> None:
        """End every stream, now and from now on."""
        self._closed = True
        self.publish()

    @contextmanager
    def watching(self) -> Iterator[AsyncIterator[None]]:
        """Count a stream in for as long as the context lasts, and yield its occasions to send."""
        self.streams += 1
        self._changed()
        try:
            yield self._occasions()
        finally:
            self.streams -= 1
            self._changed()

    async def _occasions(self) -> AsyncIterator[None]:
        while not self._closed:
            published = self._published
            yield
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
