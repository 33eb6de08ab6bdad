"""What is measured of the daemon at one moment: numbers for display, on which no rule depends."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from domain.resource import ResourceName


class Source(StrEnum):
    """A view that may be unknown."""

    RUNTIME = "runtime"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """One pool, or a resource that has no pool any more and still has allocations.

    Attributes:
        healthy, unhealthy: devices as the kubelet is shown them.
        pending, bound: living allocations whose owner is not, and is, completely known.
        oldest_pending: seconds since the grant of the oldest pending one, 0 if there is none.
        registered: the kubelet accepted the current session.
        streams: device-list streams that the kubelet has open.
        registrations: how often the kubelet accepted us.
        failures: how often it did not.
    """

    resource: ResourceName
    healthy: int = 0
    unhealthy: int = 0
    pending: int = 0
    bound: int = 0
    oldest_pending: float = 0.0
    registered: bool = False
    streams: int = 0
    registrations: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything at one moment.

    Attributes:
        kubelet_restarts: how often the kubelet started anew while we watched.
        unknown: seconds for which each view has been unknown, 0 while it is known.
    """

    pools: tuple[PoolFigures, ...]
    kubelet_restarts: int
    unknown: Mapping[Source, float]
