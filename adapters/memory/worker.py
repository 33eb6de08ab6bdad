"""A worker without a thread."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from domain.ports.worker import OverBudget

T = TypeVar("T")


class _Call(Generic[T]):
    """One job, its caller, and what became of both."""

    def __init__(self, what: str, job: Callable[[], T], undo: Callable[[T], None] | None, budget: float | None) -> None:
        self.what = what
        self.job = job
        self.undo = undo
        self.budget = budget
        self.abandoned = False
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def arrival(self) -> bool:
        """Wait until the call is done or expired, and tell whether it is done."""
        await self._arrived
        return self.done

    def arrive_soon(self) -> None:
        self._arrived.get_loop().call_soon(self._arrive)

    def expire(self) -> None:
        if self.budget is not None and not self.done:
            self.abandoned = True
            self._arrive()

    def perform(self) -> None:
        try:
            self.result = self.job()
        except BaseException as error:  # noqa: BLE001  it is the caller's, and raised there
            self.error = error

    def _arrive(self) -> None:
        if not self._arrived.done():
            self._arrived.set_result(None)


class InlineWorker:
    """A :class:`~domain.ports.worker.Worker` that runs each job at once, in the event loop.

    The outcome reaches the caller at the next turn of the loop, as it would from a thread.  No time passes here: a
    budget is spent by :meth:`late_next` or :meth:`spend` and never by itself.

    Attributes:
        asked: names of the jobs that were handed over, in order.
        lost: what abandoned jobs and their undoing raised, each with its name.
    """

    def __init__(self) -> None:
        self.asked: Final[list[str]] = []
        self.lost: Final[list[tuple[str, BaseException]]] = []
        self._waiting: Final[deque[_Call[Any]]] = deque()
        self._hanging: _Call[Any] | None = None
        self._held = False
        self._hang_next = False
        self._late_next = False
        self._next_error: BaseException | None = None

    async def run(
        self,
        what: str,
        job: Callable[[], T],
        *,
        undo: Callable[[T], None] | None = None,
        budget: float | None = None,
    ) -> T:
        """See the port."""
        self.asked.append(what)
        call = _Call(what, job, undo, budget)
        self._waiting.append(call)
        self._work()
        try:
            done = await call.arrival()
        except BaseException:
            if call.done:
                self._take_back(call)
            call.abandoned = True
            raise
        if not done:
            raise OverBudget(what, budget or 0.0)
        if call.error is not None:
            raise call.error
        result: T = call.result
        return result

    def _work(self) -> None:
        """Run what can be run."""
        while self._waiting and not self._held and self._hanging is None:
            call = self._waiting.popleft()
            if call.abandoned:
                continue
            if self._hang_next or self._late_next:
                self._hanging = call
                if self._late_next:
                    call.expire()
                self._hang_next = self._late_next = False
            else:
                self._do(call)

    def _do(self, call: _Call[Any]) -> None:
        call.error, self._next_error = self._next_error, None
        if call.error is None:
            call.perform()
        if call.abandoned:
            self._take_back(call)
        else:
            call.done = True
            call.arrive_soon()

    def _take_back(self, call: _Call[Any]) -> None:
        if call.error is not None:
            self.lost.append((call.what, call.error))
        elif call.undo is not None:
            try:
                call.undo(call.result)
            except BaseException as error:  # noqa: BLE001  nobody else could hear of it
                self.lost.append((f"undoing {call.what}", error))

    # Levers.

    @property
    def busy(self) -> bool:
        """Whether a job hangs."""
        return self._hanging is not None

    def fail_next(self, error: BaseException) -> None:
        """Let the next job that is run fail, without running it."""
        self._next_error = error

    def hold(self) -> None:
        """Begin no job until :meth:`resume`; those that come are queued."""
        self._held = True

    def hang_next(self) -> None:
        """Let the next job begin and not end until :meth:`resume`; later ones queue behind it."""
        self._hang_next = True

    def late_next(self) -> None:
        """Let the next job take longer than its budget: its caller is told at once, and it ends at :meth:`resume`."""
        self._late_next = True

    def spend(self) -> None:
        """Spend the budget of every job that has one and is not done."""
        for call in self._waiting if self._hanging is None else (self._hanging, *self._waiting):
            call.expire()

    def resume(self) -> None:
        """Let the hanging job end, and run what waits."""
        self._held = False
        hanging, self._hanging = self._hanging, None
        if hanging is not None:
            self._do(hanging)
        self._work()
