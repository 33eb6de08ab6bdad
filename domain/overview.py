"""What people and agents are shown of the daemon: values for display, on which no rule depends."""

from dataclasses import dataclass
from datetime import datetime

from domain.allocation import Allocation
from domain.ports.kubelet import Registration
from domain.ports.runtime import RuntimeIdentity
from domain.resource import ResourceName


@dataclass(frozen=True, slots=True)
class Listed:
    """An allocation, and everything that keeps it.

    Attributes:
        held_by: see :meth:`domain.resync.Hold.reasons`.
        running: whether a container among the holders may run, ``None`` if that cannot be told.
    """

    allocation: Allocation
    held_by: tuple[str, ...]
    running: bool | None


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """Whether a view is known.

    Attributes:
        unknown: why it is not, ``None`` while it is.
        since: when it last turned from known to unknown or back; wall-clock time in UTC.
    """

    unknown: str | None
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStatus:
    """One pool.

    Attributes:
        registration: how it stands with the kubelet.
        listed: devices that the kubelet is shown.
        healthy: those of them that it may hand out.
        allocated: distinct device ids in living allocations.
        reason: why it is not registered, why its devices are unhealthy, and whether it is drained, in words; ``None``
            if nothing is wrong.
    """

    resource: ResourceName
    registration: Registration
    listed: int
    healthy: int
    allocated: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReconcile:
    """The last reconcile that was meant to change something.

    Attributes:
        ended: wall-clock time in UTC.
        error: why it failed, ``None`` if it did not.
    """

    ended: datetime
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The configuration in force.

    Attributes:
        loaded: wall-clock time in UTC.
        error: why a later one was not taken, ``None`` if there was none.
    """

    loaded: datetime
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """How the daemon is.

    Attributes:
        since: when it became active.
        identity: of the container runtime, ``None`` while it has not been found.
        restarts: how often the kubelet started anew while the daemon ran.
        pending, bound: living allocations whose owner is not, and is, completely known.
        reconcile: ``None`` before the first.
    """

    version: str
    instance: str
    since: datetime
    identity: RuntimeIdentity | None
    runtime: ViewStatus
    checkpoint: ViewStatus
    restarts: int
    pools: tuple[PoolStatus, ...]
    pending: int
    bound: int
    reconcile: LastReconcile | None
    configuration: Configuration
