"""Counting, kept as what was said."""

from dataclasses import dataclass, field

from domain.claims import Fault
from domain.ports.measures import ReleasedBy
from domain.resource import ResourceName


@dataclass(slots=True)
class MemoryMeasures:
    """The port :class:`~domain.ports.measures.Measures`, with everything that was counted in order.

    Attributes:
        calls: (resource, whether it went well, seconds) of each Allocate.
        reconciles: (whether it went well, seconds) of each.
        releases: (resource, by what) of each allocation that is gone.
        orphans: the resource of each orphan.
        claims: why each claim was rejected.
        reloads: whether each went well.
    """

    calls: list[tuple[ResourceName, bool, float]] = field(default_factory=list)
    reconciles: list[tuple[bool, float]] = field(default_factory=list)
    releases: list[tuple[ResourceName, ReleasedBy]] = field(default_factory=list)
    orphans: list[ResourceName] = field(default_factory=list)
    claims: list[Fault] = field(default_factory=list)
    reloads: list[bool] = field(default_factory=list)

    def allocated(self, resource: ResourceName, *, ok: bool, seconds: float) -> None:
        """See the port."""
        self.calls.append((resource, ok, seconds))

    def reconciled(self, *, ok: bool, seconds: float) -> None:
        """See the port."""
        self.reconciles.append((ok, seconds))

    def released(self, resource: ResourceName, by: ReleasedBy) -> None:
        """See the port."""
        self.releases.append((resource, by))

    def orphan_removed(self, resource: ResourceName) -> None:
        """See the port."""
        self.orphans.append(resource)

    def claim_rejected(self, fault: Fault) -> None:
        """See the port."""
        self.claims.append(fault)

    def reloaded(self, *, ok: bool) -> None:
        """See the port."""
        self.reloads.append(ok)
