"""Docker as a container runtime."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from adapters.docker.hints import Hints
from adapters.docker.line import Line
from domain.evidence import RuntimeView
from domain.ports.clock import Clock
from domain.ports.runtime import RuntimeIdentity, RuntimeUnavailable

if TYPE_CHECKING:
    from adapters.docker.conversation import Conversation

DEADLINE: Final = 10.0
"""Seconds for one answer; Docker lists a thousand containers in a fraction of one, unless the machine is overloaded."""

_SCHEME: Final = "unix://"

T = TypeVar("T")


class DockerRuntime:
    """Asks dockerd; keeps the port :class:`domain.ports.runtime.ContainerRuntime`.

    Each question has a thread and a connection of its own, which both end with it, in time or not.  So a daemon that
    hangs holds nothing of ours, and one that was restarted, or replaced by another version, is simply asked.
    """

    def __init__(self, *, endpoint: str, prefixes: tuple[str, ...], clock: Clock, deadline: float = DEADLINE) -> None:
        """Open nothing yet.

        Args:
            endpoint: the daemon's socket, as a path or as ``unix:///path``.
            prefixes: the pools' annotation prefixes; other annotations are left out.
            clock: tells when a reading began.
            deadline: seconds for one answer.

        Raises:
            ValueError: the endpoint is no Unix socket.
        """
        self._path = endpoint.removeprefix(_SCHEME)
        if not self._path.startswith("/"):
            raise ValueError(f"{endpoint} is no Unix socket: write {_SCHEME}/path")
        self._prefixes = prefixes
        self._clock = clock
        self._deadline = deadline
        self._lines: set[Line] = set()
        self._is_closed = False

    async def snapshot(self) -> RuntimeView:
        """Return everything that exists, by one call of Docker's list."""
        began = self._clock.monotonic()
        objects = await self._ask(lambda docker: docker.objects(self._prefixes))
        return RuntimeView(began=began, objects=objects)

    async def identity(self) -> RuntimeIdentity:
        """Return which Docker answers now."""
        return RuntimeIdentity(kind="docker", version=await self._ask(lambda docker: docker.version()))

    async def changes(self) -> AsyncIterator[None]:
        """Yield when containers may have changed."""
        since = int(self._clock.now().timestamp())
        hints = Hints()
        with self._line() as line:
            reading = asyncio.get_running_loop().run_in_executor(
                None, lambda: self._conversation(line).follow(since, hints.hint)
            )
            reading.add_done_callback(lambda ended: self._end(ended, line, hints))
            try:
                await self._in_time(hints.next())
                while not reading.done():
                    yield
                    await hints.next()
                await reading
            finally:
                line.cut()
                await asyncio.wait({reading})

    async def aclose(self) -> None:
        """Let go of connections: who still waits for an answer is told that there is none."""
        self._is_closed = True
        for line in self._lines:
            line.cut()

    async def _ask(self, question: "Callable[[Conversation], T]") -> T:
        with self._line() as line:
            return await self._in_time(asyncio.to_thread(lambda: question(self._conversation(line))))

    async def _in_time(self, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._deadline):
                return await answer
        except TimeoutError as late:
            raise RuntimeUnavailable(
                f"Docker at {self._path} does not answer within {self._deadline:g} s: dockerd hangs or is overloaded"
            ) from late

    @staticmethod
    def _end(reading: asyncio.Future[None], line: Line, hints: Hints) -> None:
        """Let go of a feed's connection, although nobody may look at the feed for a long time."""
        line.cut()
        if not reading.cancelled():
            reading.exception()  # an end that was wanted is nobody's error: asyncio need not report it
        hints.wake()

    @contextmanager
    def _line(self) -> Iterator[Line]:
        """Yield a new line, which is cut at the end, whatever its thread does."""
        line = Line(self._path)
        if self._is_closed:
            line.cut()
        self._lines.add(line)
        try:
            yield line
        finally:
            self._lines.discard(line)
            line.cut()

    def _conversation(self, line: Line) -> "Conversation":
        # The SDK takes a third of a second to import, more than all else that happens until we are registered, so it
        # is imported in the thread that first needs it.
        from adapters.docker.conversation import Conversation  # noqa: PLC0415 -- as said

        # The deadline is watched from outside; a socket's own time is for what that should ever miss.
        return Conversation(line, timeout=2 * self._deadline)
