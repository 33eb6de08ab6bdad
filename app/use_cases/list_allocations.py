"""ListAllocations: everything that is there, and why it is still there."""

from dataclasses import replace

from app.use_cases.state import State
from domain import resync
from domain.evidence import Evidence, Unknown
from domain.ledger import Standing
from domain.overview import Listed
from domain.ports.clock import Clock

FORCED = "forced"
"""What is said of a record that an operator's force left, beside whatever still names it."""


class ListAllocations:
    """Lists living allocations and forced records, by the last readings of the node; asks nobody.

    Args:
        grace: seconds; see :class:`domain.resync.Policy`.
    """

    def __init__(self, *, state: State, clock: Clock, grace: float) -> None:
        self._state = state
        self._clock = clock
        self._grace = grace

    def __call__(self) -> tuple[Listed, ...]:
        """Return them in the order of their grant."""
        ledger = self._state.ledger
        # Look-ups and starting containers read the checkpoint in between.
        evidence = replace(self._state.evidence, runtime=self._state.runtime, checkpoint=self._state.checkpoint)
        holds = resync.holds(ledger, evidence, self._state.known_pools, grace=self._grace, now=self._clock.monotonic())
        running = _running(evidence)
        return tuple(
            Listed(
                record.allocation,
                held_by=(*hold.reasons(), *((FORCED,) if record.standing is Standing.FORCED else ())),
                running=None if running is None else not running.isdisjoint(hold.holders),
            )
            for record in ledger
            if record.standing is not Standing.RELEASING
            for hold in (holds[record.allocation.id],)
        )


def _running(evidence: Evidence) -> frozenset[str] | None:
    """Return what may run, named as holders are; ``None`` if the runtime does not tell, or is not to be believed."""
    if isinstance(evidence.runtime, Unknown) or evidence.empty_runtime_doubted:
        return None
    return frozenset(f"container:{each.id}" for each in evidence.runtime.objects if each.state.may_run)
