"""What happened since the process started."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from domain.claims import Fault
from domain.ports.measures import ReleasedBy
from domain.resource import ResourceName

ALLOCATE_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
"""Seconds: from what a healthy disk needs to above the budget of two."""

RECONCILE_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: a few calls to a runtime, up to several that each meet their deadline."""


class Spread:
    """How values are spread over ranges.

    Args:
        bounds: the upper ends of the ranges, ascending; each belongs to its range.  One more range has no end.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def cumulative(self) -> list[tuple[float, int]]:
        """How many values are not above each bound, the last of which is infinite."""
        found, total = [], 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            found.append((bound, total))
        return found


@dataclass(slots=True)
class Counts:
    """The port :class:`~domain.ports.measures.Measures`, in plain numbers.

    Attributes:
        calls: seconds of Allocate calls, by resource and whether they went well.
        runs: reconciles, by whether they went well.
        run_seconds: how long they took.
        releases: allocations that are gone.
        orphans: directories that were swept.
        claims: what containers claim and is ignored.
        reloads: of the configuration, by whether they went well.
    """

    calls: dict[tuple[ResourceName, bool], Spread] = field(default_factory=dict)
    runs: Counter[bool] = field(default_factory=Counter)
    run_seconds: Spread = field(default_factory=lambda: Spread(RECONCILE_BOUNDS))
    releases: Counter[tuple[ResourceName, ReleasedBy]] = field(default_factory=Counter)
    orphans: Counter[ResourceName] = field(default_factory=Counter)
    claims: Counter[Fault] = field(default_factory=Counter)
    reloads: Counter[bool] = field(default_factory=Counter)

    def allocated(self, resource: ResourceName, *, ok: bool, seconds: float) -> None:
        """See the port."""
        spread = self.calls.get((resource, ok))
        if spread is None:
            spread = self.calls[resource, ok] = Spread(ALLOCATE_BOUNDS)
        spread.add(seconds)

    def reconciled(self, *, ok: bool, seconds: float) -> None:
        """See the port."""
        self.runs[ok] += 1
        self.run_seconds.add(seconds)

    def released(self, resource: ResourceName, by: ReleasedBy) -> None:
        """See the port."""
        self.releases[resource, by] += 1

    def orphan_removed(self, resource: ResourceName) -> None:
        """See the port."""
        self.orphans[resource] += 1

    def claim_rejected(self, fault: Fault) -> None:
        """See the port."""
        self.claims[fault] += 1

    def reloaded(self, *, ok: bool) -> None:
        """See the port."""
        self.reloads[ok] += 1
