"""The one worker in which storage is used."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from domain.errors import MemifError

T = TypeVar("T")


class OverBudget(MemifError):
    """A job that was not done in time; what it does all the same will be undone."""

    def __init__(self, what: str, budget: float) -> None:
        super().__init__(f"{what} took longer than {budget:g} s; the node's storage is slow or hangs")
        self.budget = budget


class Worker(Protocol):
    """Runs storage jobs one at a time, in the order in which they were handed over.

    * The caller awaits the result; meanwhile the event loop goes on.
    * A job whose caller gave up (budget spent, or cancelled) before it began is never begun.
    * A job whose caller gave up while it ran ends normally, and ``undo`` is called with its result right after it,
      before any later job: a call that was not answered leaves nothing behind.
    * What a job raises reaches its caller; an abandoned job's error has nobody to reach and is reported to ``lost``.
    """

    async def run(
        self,
        what: str,
        job: Callable[[], T],
        *,
        undo: Callable[[T], None] | None = None,
        budget: float | None = None,
    ) -> T:
        """Run a job and return its result.

        Args:
            what: names the job in errors.
            job: the work itself, plain blocking code.
            undo: takes the work back if nobody waits for it any more.
            budget: seconds that the caller is willing to wait, ``None`` for ever.

        Raises:
            OverBudget: the budget is spent.
        """
        ...
