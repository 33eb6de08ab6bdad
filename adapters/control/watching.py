"""The call that lasts: telling watchers what happens."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from adapters._pb.memif.v1 import memif_pb2
from adapters.control import translate
from adapters.control.pace import Pace
from domain.errors import MemifError
from domain.events import Event, EventType
from domain.ports.inbound import Watches

_SHARED: Final = 1024
"""Messages that are kept for the watchers that have yet to send them."""


class Closing(MemifError):
    """The daemon is stopping."""

    def __init__(self) -> None:
        super().__init__("the memif device plugin ends; watch again when it is back")


class WatchStreams:
    """Every open watch.

    Each draws from the common log as fast as its client reads; one that is too slow finds its place in the log gone.
    """

    def __init__(self, *, watches: Watches) -> None:
        self._watches = watches
        self._pace = Pace(busy=lambda: watches.busy)
        self._closed = False
        self._made: dict[tuple[int, bool], memif_pb2.WatchResponse] = {}

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let watchers be told of events, for as long as the context lasts."""
        with self._watches.watched(self._pace.stir):
            yield

    async def follow(self, request: memif_pb2.WatchRequest) -> AsyncIterator[memif_pb2.WatchResponse]:
        """Yield what a client is told, until it is told to begin anew.

        Raises:
            Closing: the daemon is stopping.
        """
        secrets = request.with_secrets
        batch = self._opening(request)
        for told in batch:
            await self._granted(self._pace.turn)
            yield translate.event(told, self._watches.instance, secrets=secrets)
        last = batch[-1]
        while last.type is not EventType.RESYNC_NEEDED:
            behind = self._watches.after(last.seq)
            await self._granted(self._pace.turn if behind else self._pace.news)
            for number, told in enumerate(self._watches.after(last.seq)):
                if number:
                    await self._granted(self._pace.turn)
                yield self._message(told, secrets=secrets)
                last = told

    def close(self) -> None:
        """End every watch."""
        self._closed = True
        self._pace.close()

    async def _granted(self, turn: Callable[[], Awaitable[None]]) -> None:
        """Wait for a turn, unless all is over."""
        if not self._closed:
            await turn()
        if self._closed:
            raise Closing

    def _opening(self, request: memif_pb2.WatchRequest) -> tuple[Event, ...]:
        if request.HasField("since_seq"):
            return self._watches.resume(request.since_seq, request.instance)
        return self._watches.begin()

    def _message(self, told: Event, *, secrets: bool) -> memif_pb2.WatchResponse:
        """Return the message of an event, the same one for every watcher."""
        key = (told.seq, secrets)
        message = self._made.get(key)
        if message is None:
            message = self._made[key] = translate.event(told, self._watches.instance, secrets=secrets)
            if len(self._made) > _SHARED:
                del self._made[next(iter(self._made))]
        return message
