"""What every :class:`~domain.ports.measures.Measures` promises."""

from typing import Protocol

import pytest

from domain.claims import Fault
from domain.ports.measures import Measures, ReleasedBy
from domain.resource import ResourceName

ONE, OTHER = ResourceName("contivpp.io/memif"), ResourceName("example.com/fast")


class Stage(Protocol):
    """Something that counts, and what it has counted."""

    @property
    def measures(self) -> Measures:
        """The port."""
        ...

    def calls(self, resource: ResourceName, *, ok: bool) -> tuple[int, float]:
        """Return how many Allocate calls there were, and the seconds that they took together."""
        ...

    def reconciles(self, *, ok: bool) -> int:
        """Return how many reconciles there were."""
        ...

    def reconcile_seconds(self) -> float:
        """Return the seconds that they took together."""
        ...

    def releases(self, resource: ResourceName, by: ReleasedBy) -> int:
        """Return how many allocations are gone."""
        ...

    def orphans(self, resource: ResourceName) -> int:
        """Return how many orphans were removed."""
        ...

    def claims(self, fault: Fault) -> int:
        """Return how many claims were rejected."""
        ...

    def reloads(self, *, ok: bool) -> int:
        """Return how many reloads there were."""
        ...


class MeasuresContract:
    """Subclass this for an adapter, with a fixture ``stage``."""

    def test_nothing_has_happened_at_first(self, stage: Stage) -> None:
        assert stage.calls(ONE, ok=True) == stage.calls(ONE, ok=False) == (0, 0.0)
        assert stage.reconciles(ok=True) == stage.reconciles(ok=False) == 0
        assert stage.reconcile_seconds() == 0.0
        assert all(stage.releases(ONE, by) == 0 for by in ReleasedBy)
        assert stage.orphans(ONE) == 0
        assert all(stage.claims(fault) == 0 for fault in Fault)
        assert stage.reloads(ok=True) == stage.reloads(ok=False) == 0

    def test_calls_are_counted_by_resource_and_result(self, stage: Stage) -> None:
        stage.measures.allocated(ONE, ok=True, seconds=0.25)
        stage.measures.allocated(ONE, ok=True, seconds=0.5)
        stage.measures.allocated(ONE, ok=False, seconds=2.0)
        stage.measures.allocated(OTHER, ok=True, seconds=100.0)

        assert stage.calls(ONE, ok=True) == (2, 0.75)
        assert stage.calls(ONE, ok=False) == (1, 2.0)
        assert stage.calls(OTHER, ok=True) == (1, 100.0)
        assert stage.calls(OTHER, ok=False) == (0, 0.0)

    def test_reconciles_are_counted_by_result(self, stage: Stage) -> None:
        stage.measures.reconciled(ok=True, seconds=0.25)
        stage.measures.reconciled(ok=False, seconds=10.0)
        stage.measures.reconciled(ok=False, seconds=0.0)

        assert (stage.reconciles(ok=True), stage.reconciles(ok=False)) == (1, 2)
        assert stage.reconcile_seconds() == 10.25

    @pytest.mark.parametrize("by", ReleasedBy)
    def test_what_is_gone_is_counted_by_resource_and_reason(self, stage: Stage, by: ReleasedBy) -> None:
        stage.measures.released(ONE, by)
        stage.measures.released(ONE, by)
        stage.measures.released(OTHER, by)

        assert {each: stage.releases(ONE, each) for each in ReleasedBy} == {
            each: 2 * (each is by) for each in ReleasedBy
        }
        assert stage.releases(OTHER, by) == 1

    def test_orphans_are_counted_by_resource(self, stage: Stage) -> None:
        stage.measures.orphan_removed(ONE)
        stage.measures.orphan_removed(ONE)

        assert (stage.orphans(ONE), stage.orphans(OTHER)) == (2, 0)

    @pytest.mark.parametrize("fault", Fault)
    def test_claims_are_counted_by_what_is_wrong(self, stage: Stage, fault: Fault) -> None:
        stage.measures.claim_rejected(fault)

        assert {each: stage.claims(each) for each in Fault} == {each: int(each is fault) for each in Fault}

    def test_reloads_are_counted_by_result(self, stage: Stage) -> None:
        stage.measures.reloaded(ok=True)
        stage.measures.reloaded(ok=False)
        stage.measures.reloaded(ok=False)

        assert (stage.reloads(ok=True), stage.reloads(ok=False)) == (1, 2)
