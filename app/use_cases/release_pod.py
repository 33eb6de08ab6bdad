"""ReleasePod: somebody says that a pod is gone."""

from contextlib import AbstractAsyncContextManager

from app.use_cases.adopt import Adopt
from app.use_cases.gather import Gather
from app.use_cases.own import Own
from app.use_cases.release import Release
from app.use_cases.state import State
from domain import dismissal, resync
from domain.dismissal import NotToldNow
from domain.identity import AllocationId
from domain.ledger import Record
from domain.lookup import Question
from domain.ports.clock import Clock
from domain.ports.measures import ReleasedBy


class ReleasePod:
    """Applies the Release rule at once to everything that a pod holds; keeps the port of that name.

    Args:
        turn: held while the node is read and the rule applied, so that no reconcile does the same meanwhile.
        grace: seconds; see :class:`domain.resync.Policy`.
    """

    def __init__(
        self,
        *,
        state: State,
        gather: Gather,
        adopt: Adopt,
        own: Own,
        release: Release,
        turn: AbstractAsyncContextManager[object],
        clock: Clock,
        grace: float,
    ) -> None:
        self._state = state
        self._gather = gather
        self._adopt = adopt
        self._own = own
        self._release = release
        self._turn = turn
        self._clock = clock
        self._grace = grace

    async def __call__(self, question: Question, *, reason: str) -> tuple[AllocationId, ...]:
        """Release what the rule lets go, and return the allocations that are gone.

        Raises:
            NoPod, NoMemif, SeveralUids: nothing is meant, or too much.
            InUse, TooYoung: some of it stays by the rule; the rest, if any, is gone all the same.
            NotToldNow: the rule cannot be applied, or a release could not be finished.
        """
        async with self._turn:
            await self._adopt.from_checkpoint()
            evidence = (await self._gather()).evidence
            pools = self._state.known_pools
            await self._own(resync.owners(self._state.ledger, evidence.runtime, evidence.checkpoint, pools))
            ledger = self._state.ledger
            records = dismissal.find(question, ledger, evidence.runtime, evidence.checkpoint)
            holds = resync.holds(ledger, evidence, pools, grace=self._grace, now=self._clock.monotonic())
            verdict = dismissal.judge(question, records, holds)
            by = ReleasedBy.REQUEST
            gone = [record for record in verdict.free if await self._release(record, reason=reason, by=by)]
            if verdict.refusal is not None:
                raise verdict.refusal
            return _all(question, verdict.free, gone)

    async def force(self, question: Question, *, reason: str) -> tuple[AllocationId, ...]:
        """Remove a pod's directories at once although something may still use them, and return the allocations.

        Asks neither the runtime nor the kubelet, which may be what is out of order.

        Raises:
            NoPod, NoMemif, SeveralUids: nothing is meant, or too much.
            NotToldNow: the journal cannot be written.
        """
        await self._own.from_checkpoint(await self._adopt.from_checkpoint())
        records = dismissal.find(question, self._state.ledger, self._state.runtime, self._state.checkpoint)
        gone = [record for record in records if await self._release.force(record, reason=reason)]
        return _all(question, records, gone)


def _all(question: Question, meant: tuple[Record, ...], gone: list[Record]) -> tuple[AllocationId, ...]:
    left = [record.allocation.id for record in meant if record not in gone]
    if left:
        raise NotToldNow(
            f"{question.namespace}/{question.name}",
            f"removing {', '.join(left)} could not be finished; the daemon's log says why, and it goes on with it",
        )
    return tuple(record.allocation.id for record in gone)
