"""The storage worker: one thread.

The daemon's event loop never waits for a disk.  It hands a job over and goes on; the thread runs jobs in order and
hands their outcome back.  A job and its caller may part ways at any time, so each call has one state, changed under a
lock, that says who has to clean up.
"""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from enum import Enum, auto
from typing import Any, Final, Generic, TypeAlias, TypeVar

from domain.ports.clock import Clock
from domain.ports.worker import OverBudget
from domain.start import NotServing

T = TypeVar("T")

Lost: TypeAlias = Callable[[str, BaseException], None]
"""Takes the name of an abandoned job, or of its undoing, and what it raised."""


class WorkerClosed(NotServing):
    """A job for a worker that takes no more jobs, because the daemon is stopping."""


class _State(Enum):
    QUEUED = auto()
    RUNNING = auto()
    DONE = auto()
    """The job ended, and its caller was still waiting at that moment."""
    ABANDONED = auto()


class _Call(Generic[T]):
    """One job on its way from the event loop to the thread and back."""

    __slots__ = (
        "_arrived",
        "_context",
        "_job",
        "_lock",
        "_loop",
        "_state",
        "_taken_back",
        "_undo",
        "error",
        "result",
        "what",
    )

    def __init__(self, what: str, job: Callable[[], T], undo: Callable[[T], None] | None) -> None:
        self.what = what
        self.result: Any = None
        self.error: BaseException | None = None
        self._job = job
        self._undo = undo
        self._context = copy_context()
        """What the caller is about, so that what is logged of the job says so too."""
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Future[None] = self._loop.create_future()
        self._lock = threading.Lock()
        self._state = _State.QUEUED
        self._taken_back = False

    # In the event loop.

    async def arrival(self) -> bool:
        """Wait until the call is done or expired, and tell whether it is done."""
        await self._arrived
        return self._state is _State.DONE

    def abandon(self) -> bool:
        """Say that nobody waits any more; tell whether the thread takes note, which it does until the job ended."""
        with self._lock:
            if self._state is _State.DONE:
                return False
            self._state = _State.ABANDONED
            return True

    def expire(self) -> None:
        """End the wait, unless the outcome is on its way already."""
        if self.abandon():
            self._arrive()

    def _arrive(self) -> None:
        if not self._arrived.done():
            self._arrived.set_result(None)

    # In the thread.

    def begin(self) -> bool:
        """Tell whether the job is to be run at all."""
        with self._lock:
            if self._state is _State.ABANDONED:
                return False
            self._state = _State.RUNNING
            return True

    def perform(self) -> None:
        """Run the job and keep what comes of it, whatever that is."""
        try:
            self.result = self._context.run(self._job)
        except BaseException as error:  # noqa: BLE001  it is the caller's, and raised there
            self.error = error

    def finish(self) -> bool:
        """End the job; tell whether somebody still waits for it."""
        with self._lock:
            if self._state is _State.ABANDONED:
                return False
            self._state = _State.DONE
            return True

    def deliver(self) -> bool:
        """Wake the caller up; tell whether there is still an event loop to do so in."""
        try:
            self._loop.call_soon_threadsafe(self._arrive)
        except RuntimeError:
            return False
        return True

    def take_back(self, lost: Lost) -> None:
        """Undo what the job did for nobody, or report why it failed; once, though both sides may find that out."""
        with self._lock:
            again, self._taken_back = self._taken_back, True
        if again:
            return
        if self.error is not None:
            lost(self.what, self.error)
        elif self._undo is not None:
            try:
                self._context.run(self._undo, self.result)
            except BaseException as error:  # noqa: BLE001  nobody else could hear of it
                lost(f"undoing {self.what}", error)


_POLL: Final = 0.005
"""Seconds between two looks at a thread that is about to end."""

_STOP: Final = object()
_AWAKE: Final = object()


class ThreadWorker:
    """A :class:`~domain.ports.worker.Worker` with one thread, started by the first job.

    All its methods belong to the event loop's thread.  The thread is a daemon thread, so a job that hangs for ever
    does not keep the process from ending.

    Args:
        lost: told what an abandoned job or its undoing raised; called in the worker's thread.
        clock: gives :attr:`busy_since`.
    """

    def __init__(self, lost: Lost, clock: Clock) -> None:
        self._lost = lost
        self._clock = clock
        self._queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._to_undo: deque[_Call[Any]] = deque()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._ended = False
        self._end = threading.Lock()
        self._busy_since: float | None = None

    @property
    def busy_since(self) -> float | None:
        """Monotonic time at which the running job began, ``None`` while there is none; tells a hanging disk."""
        return self._busy_since

    async def run(
        self,
        what: str,
        job: Callable[[], T],
        *,
        undo: Callable[[T], None] | None = None,
        budget: float | None = None,
    ) -> T:
        """See the port.

        Raises:
            OverBudget: the budget is spent.
            WorkerClosed: the worker takes no more jobs.
        """
        if self._closing:
            raise WorkerClosed(what)
        call = _Call(what, job, undo)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="storage", daemon=True)
            self._thread.start()
        timer = None if budget is None else asyncio.get_running_loop().call_later(budget, call.expire)
        self._queue.put(call)
        try:
            done = await call.arrival()
        except BaseException:
            if not call.abandon():
                # It ended, and the outcome was on its way to somebody who has left.
                self._take_back_soon(call)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if not done:
            raise OverBudget(what, budget or 0.0)
        error, call.error = call.error, None
        if error is not None:
            try:
                raise error
            finally:
                # Its traceback refers to this frame and the call's: without this it would be garbage in a circle.
                del error
        result: T = call.result
        return result

    async def aclose(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109  the port's budget under its usual name
        """Take no more jobs, wait until the queued ones are done, and end the thread.

        Args:
            timeout: seconds to wait at most, ``None`` for ever.

        Returns:
            Whether everything is done; if not, a job hangs and its thread dies with the process.
        """
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while not self.close(0):
            if deadline is not None and loop.time() >= deadline:
                return False
            await asyncio.sleep(_POLL)
        return True

    def close(self, timeout: float | None = None) -> bool:
        """Do the same as :meth:`aclose` where there is no event loop, or none that matters any more."""
        stopping, self._closing = self._closing, True
        if self._thread is None:
            return True
        if not stopping:
            self._queue.put(_STOP)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _take_back_soon(self, call: _Call[Any]) -> None:
        """Undo a call before any job that has not begun."""
        with self._end:
            if not self._ended:
                self._to_undo.append(call)
                self._queue.put(_AWAKE)
                return
        call.take_back(self._report)

    def _work(self) -> None:
        while True:
            item = self._queue.get()
            self._undo_all()
            if item is _STOP:
                break
            if isinstance(item, _Call) and item.begin():
                self._do(item)
            # Waiting for the next job must not keep this one's result alive.
            del item
        with self._end:
            self._ended = True
        self._undo_all()

    def _do(self, call: _Call[Any]) -> None:
        self._busy_since = self._clock.monotonic()
        call.perform()
        if call.finish():
            self._busy_since = None
            if call.deliver():
                return
        call.take_back(self._report)
        self._busy_since = None

    def _undo_all(self) -> None:
        while self._to_undo:
            self._busy_since = self._clock.monotonic()
            self._to_undo.popleft().take_back(self._report)
            self._busy_since = None

    def _report(self, what: str, error: BaseException) -> None:
        try:
            self._lost(what, error)
        except Exception as trouble:  # noqa: BLE001  the thread must go on, or every later job would hang
            args = (type(trouble), trouble, trouble.__traceback__, self._thread)
            threading.excepthook(threading.ExceptHookArgs(args))
