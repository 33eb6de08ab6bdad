"""Watch: following how the set of living allocations changes."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from app.use_cases.state import State
from domain import events
from domain.events import Event, EventType, GapGone
from domain.ports.clock import Clock

_AFTERWARDS: Final = 0.02
"""Seconds after an Allocate in which another may come: a pod's containers are asked for one by one."""


class Watch:
    """Tells watchers what happened; keeps :class:`domain.ports.inbound.Watches`.

    Every watcher draws from the one log of events at its own pace, so that none of them costs memory.
    """

    def __init__(self, *, state: State, clock: Clock, instance: str) -> None:
        self._state = state
        self._clock = clock
        self.instance = instance

    @property
    def busy(self) -> bool:
        """Whether the kubelet waits for an answer, or may be about to ask again: it comes first."""
        return self._state.allocated_since(self._clock.monotonic() - _AFTERWARDS)

    def begin(self) -> tuple[Event, ...]:
        """Return the living allocations and SYNCED, all with the number of the last event that they include."""
        last = self._state.events.last
        told = [Event(last, each.type, each.allocation) for each in events.snapshot(self._state.ledger)]
        return (*told, Event(last, EventType.SYNCED, None))

    def resume(self, seq: int, instance: str) -> tuple[Event, ...]:
        """Return what a watcher that saw an event of an instance has missed, and SYNCED, or RESYNC_NEEDED alone."""
        if instance != self.instance:
            return (self._resync_needed(),)
        missed = self.after(seq)
        if missed and missed[-1].type is EventType.RESYNC_NEEDED:
            return missed
        return (*missed, Event(self._state.events.last, EventType.SYNCED, None))

    def after(self, seq: int) -> tuple[Event, ...]:
        """Return the events after a sequence number, or RESYNC_NEEDED alone if some of them are gone."""
        try:
            return self._state.events.after(seq)
        except GapGone:
            return (self._resync_needed(),)

    def watched(self, wake: Callable[[], None]) -> AbstractContextManager[None]:
        """Have ``wake`` called after every event, for as long as the context lasts."""
        return self._state.watched(wake)

    def _resync_needed(self) -> Event:
        return Event(self._state.events.last, EventType.RESYNC_NEEDED, None)
