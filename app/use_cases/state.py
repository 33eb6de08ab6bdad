"""What the process knows: the one thing here that changes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from domain.events import EventLog, changes
from domain.evidence import CheckpointView, Evidence, RuntimeView, Unknown
from domain.figures import Source
from domain.health import Pulse
from domain.ledger import Ledger
from domain.overview import Configuration, LastReconcile
from domain.pool import Pool
from domain.ports.clock import Clock
from domain.ports.runtime import RuntimeIdentity
from domain.resource import ResourceName

QUIET: Final = 0.2
"""Seconds after an answered Allocate in which the kubelet is not listed: it then forgets the ids it just chose."""


class State:
    """The ledger and the circumstances, owned by the event loop.

    Attributes:
        pools: as configured, by resource.
        earlier: pools as they were used before, according to the journal; their answers may still be replayed.
        evidence: what the last gathering saw; its views may be older than the two readings below.
        identity: which runtime answered last.
        reconciled: how the last reconcile ended, ``None`` before the first.
        configuration: what is in force, for display.
        first_seen: monotonic time at which a directory that the ledger does not know was first seen, by path.
        active_since: monotonic time at which this process became the active one.
        events: what watchers are told.
        health: of each pool, as far as it was ever looked at.
        draining: no device is to be handed out any more, because the process is about to leave.
    """

    def __init__(self, *, pools: Sequence[Pool], clock: Clock) -> None:
        self._clock = clock
        self._ledger = Ledger()
        self._watchers: list[Callable[[], None]] = []
        self.events = EventLog()
        self.pools: dict[ResourceName, Pool] = {pool.resource: pool for pool in pools}
        self.earlier: tuple[Pool, ...] = ()
        self._runtime: RuntimeView | Unknown = Unknown("not read yet")
        self._checkpoint: CheckpointView | Unknown = Unknown("not read yet")
        self.runtime_since = self.checkpoint_since = clock.now()
        self._turned = dict.fromkeys(Source, clock.monotonic())
        self.evidence = Evidence(runtime=self._runtime, checkpoint=self._checkpoint)
        self.identity: RuntimeIdentity | None = None
        self.reconciled: LastReconcile | None = None
        self.configuration = Configuration(loaded=clock.now())
        self.first_seen: dict[str, float] = {}
        self.active_since = clock.monotonic()
        self.health: dict[ResourceName, Pulse] = {}
        self.draining = False
        self._in_flight = 0
        self._answered: float | None = None
        self._listed: float | None = None

    @property
    def ledger(self) -> Ledger:
        """The ledger as of now; every change replaces it, and what changed is told to the watchers at once."""
        return self._ledger

    @ledger.setter
    def ledger(self, ledger: Ledger) -> None:
        told = self.events.last
        for change in changes(self._ledger, ledger):
            self.events.append(change)
        self._ledger = ledger
        if self.events.last != told:
            for wake in tuple(self._watchers):
                wake()

    @property
    def runtime(self) -> RuntimeView | Unknown:
        """The last reading of the runtime; when it turned known or unknown is noted."""
        return self._runtime

    @runtime.setter
    def runtime(self, view: RuntimeView | Unknown) -> None:
        if isinstance(view, Unknown) is not isinstance(self._runtime, Unknown):
            self.runtime_since = self._clock.now()
            self._turned[Source.RUNTIME] = self._clock.monotonic()
        self._runtime = view

    @property
    def checkpoint(self) -> CheckpointView | Unknown:
        """The last reading of the checkpoint; when it turned known or unknown is noted."""
        return self._checkpoint

    @checkpoint.setter
    def checkpoint(self, view: CheckpointView | Unknown) -> None:
        if isinstance(view, Unknown) is not isinstance(self._checkpoint, Unknown):
            self.checkpoint_since = self._clock.now()
            self._turned[Source.CHECKPOINT] = self._clock.monotonic()
        self._checkpoint = view

    def unknown_for(self, source: Source) -> float:
        """Return the seconds for which a view has been unknown, 0 while it is known.

        What a standby does not know is nothing to count, so it begins when the process became active.
        """
        if not isinstance(self._runtime if source is Source.RUNTIME else self._checkpoint, Unknown):
            return 0.0
        return self._clock.monotonic() - max(self._turned[source], self.active_since)

    @contextmanager
    def watched(self, wake: Callable[[], None]) -> Iterator[None]:
        """Have ``wake`` called after every change that is an event, for as long as the context lasts."""
        self._watchers.append(wake)
        try:
            yield
        finally:
            self._watchers.remove(wake)

    @property
    def known_pools(self) -> tuple[Pool, ...]:
        """Every pool that may have given an answer: as configured first, then as they were before."""
        return (*self.pools.values(), *(pool for pool in self.earlier if pool not in self.pools.values()))

    def healthy(self, resource: ResourceName) -> bool:
        """Whether devices of a pool may be handed out now, as far as the node goes; see :class:`domain.pool.Pool`."""
        return not self.draining and self.health.get(resource, Pulse()).healthy

    @contextmanager
    def allocating(self) -> Iterator[None]:
        """Count an Allocate as in flight."""
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._answered = self._clock.monotonic()

    @property
    def in_flight(self) -> bool:
        """Whether an Allocate is in flight."""
        return self._in_flight > 0

    def allocated_since(self, moment: float) -> bool:
        """Whether an Allocate is in flight or was answered after a monotonic time."""
        return self._in_flight > 0 or (self._answered is not None and self._answered >= moment)

    @property
    def quiet(self) -> bool:
        """Whether the kubelet may be listed at all now: a listing close to an Allocate feeds a race in it."""
        return not self.allocated_since(self._clock.monotonic() - QUIET)

    def may_list(self, interval: float) -> bool:
        """Whether the kubelet may be listed now to have it forget dead pods, which is done once an interval."""
        return self.quiet and (self._listed is None or self._clock.monotonic() - self._listed >= interval)

    def listing(self) -> None:
        """Note that the kubelet is being listed for that; what a look-up lists is followed by no device list."""
        self._listed = self._clock.monotonic()
