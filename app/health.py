"""Whether our own loops turn, and whether we are of use to the node.

The first is what a liveness probe asks: if not, only a restart helps.  The second is what a readiness probe asks, and
a rollout waits for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from adapters.system.lock import Holder, NodeLock
from adapters.system.worker import ThreadWorker
from app.use_cases.state import State
from domain.ports.clock import Clock
from domain.ports.kubelet import Registration, Registrations
from domain.resource import ResourceName

PATIENCE: Final = 9.0
"""Seconds after which a loop or a storage job that does not move counts as hung, so that a probe that asks every second
knows it within ten."""

SILENCE: Final = 10.0
"""Seconds without a heartbeat after which a standby takes the other process for hung."""

Turn: TypeAlias = Callable[[float], None]
"""Says that a loop turns, and will again within so many seconds."""


class Loops:
    """The loops that must turn for as long as they are there."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}

    @contextmanager
    def loop(self, name: str) -> Iterator[Turn]:
        """Watch over a loop until it is told to end; one that just ends does not turn any more."""

        def turn(within: float) -> None:
            self._due[name] = self._clock.monotonic() + within

        turn(PATIENCE)
        try:
            yield turn
        except BaseException:  # told to end, or it takes the daemon with it
            del self._due[name]
            raise
        turn(0)

    def hung(self) -> tuple[str, ...]:
        """Return the loops that should have turned by now."""
        now = self._clock.monotonic()
        return tuple(name for name, due in self._due.items() if now >= due)


class Phase(StrEnum):
    """How far the process is."""

    STARTING = "starting"
    STANDBY = "standby"
    RECOVERING = "recovering"
    SERVING = "serving"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether we are of use.

    Attributes:
        phase: how far the process is.
        reasons: why not; none = ready.
        pools: how each pool stands with the kubelet.
        obstacle: why no pool registers at all.
        holder: the process that a standby waits for.
    """

    phase: Phase
    reasons: tuple[str, ...] = ()
    pools: tuple[tuple[ResourceName, Registration], ...] = ()
    obstacle: str | None = None
    holder: Holder | None = None

    @property
    def ready(self) -> bool:
        """Whether we are."""
        return not self.reasons

    @property
    def summary(self) -> str:
        """The same in a line for people."""
        if self.reasons:
            return "; ".join(self.reasons)
        if self.phase is Phase.STANDBY and self.holder is not None:
            return f"standby behind process {self.holder.pid}"
        names = ", ".join(resource for resource, _ in self.pools)
        return f"registered with the kubelet: {names}" if names else "no pool is configured"


class Health:
    """What probes and the service manager are told.  It asks nobody, so it answers whatever hangs.

    Args:
        loops: of the daemon.
        worker: of storage.
    """

    def __init__(
        self,
        *,
        loops: Loops,
        worker: ThreadWorker,
        lock: NodeLock,
        state: State,
        registrations: Registrations,
        clock: Clock,
    ) -> None:
        self._loops = loops
        self._worker = worker
        self._lock = lock
        self._state = state
        self._registrations = registrations
        self._clock = clock
        self._phase = Phase.STARTING
        self._watchers: list[Callable[[], None]] = []

    @property
    def phase(self) -> Phase:
        """How far the process is."""
        return self._phase

    def enter(self, phase: Phase) -> None:
        """Enter another phase; STOPPING is the last."""
        if self._phase is not Phase.STOPPING:
            self._phase = phase
            for wake in tuple(self._watchers):
                wake()

    @contextmanager
    def watched(self, wake: Callable[[], None]) -> Iterator[None]:
        """Have ``wake`` called after every change of the phase, for as long as the context lasts."""
        self._watchers.append(wake)
        try:
            yield
        finally:
            self._watchers.remove(wake)

    def troubles(self) -> tuple[str, ...]:
        """Return what only a restart can help; nothing is well."""
        hung = tuple(f"{name} does not turn any more" for name in self._loops.hung())
        began = self._worker.busy_since
        if began is None or (took := self._clock.monotonic() - began) < PATIENCE:
            return hung
        return (*hung, f"a storage job has been running for {took:.0f} s; a disk or mount does not answer")

    def readiness(self) -> Readiness:
        """Return whether we are of use now."""
        match self._phase:
            case Phase.STANDBY:
                return _standby(self._lock.holder())
            case Phase.SERVING:
                return self._serving()
            case _:
                return Readiness(phase=self._phase, reasons=(self._phase.value,))

    def _serving(self) -> Readiness:
        standing = self._registrations.registrations()
        pools = tuple((each, standing.get(each, Registration(reason="not started"))) for each in self._state.pools)
        obstacle = self._registrations.obstacle
        waiting = tuple(f"{resource}: {_waiting(each)}" for resource, each in pools if not _usable(each))
        return Readiness(
            phase=Phase.SERVING,
            reasons=waiting if obstacle is None else (obstacle,),
            pools=pools,
            obstacle=obstacle,
        )


def _standby(holder: Holder | None) -> Readiness:
    reasons: tuple[str, ...] = ()
    if holder is None:
        reasons = ("standby, and the process that holds the lock has not said who it is",)
    elif holder.age >= SILENCE:
        reasons = (f"standby, and the last heartbeat of process {holder.pid} is {holder.age:.0f} s old",)
    return Readiness(phase=Phase.STANDBY, reasons=reasons, holder=holder)


def _usable(standing: Registration) -> bool:
    return standing.registered and standing.watched


def _waiting(standing: Registration) -> str:
    return standing.reason or ("not watched by the kubelet yet" if standing.registered else "not registered yet")
