"""The fake that remembers what was counted keeps the port's promises."""

import pytest

from adapters.memory.measures import MemoryMeasures
from domain.claims import Fault
from domain.ports.measures import ReleasedBy
from domain.resource import ResourceName
from tests.contract.measures import MeasuresContract, Stage


class _Stage:
    def __init__(self) -> None:
        self.measures = MemoryMeasures()

    def calls(self, resource: ResourceName, *, ok: bool) -> tuple[int, float]:
        found = [seconds for name, well, seconds in self.measures.calls if (name, well) == (resource, ok)]
        return len(found), sum(found)

    def reconciles(self, *, ok: bool) -> int:
        return sum(well is ok for well, _ in self.measures.reconciles)

    def reconcile_seconds(self) -> float:
        return sum(seconds for _, seconds in self.measures.reconciles)

    def releases(self, resource: ResourceName, by: ReleasedBy) -> int:
        return self.measures.releases.count((resource, by))

    def orphans(self, resource: ResourceName) -> int:
        return self.measures.orphans.count(resource)

    def claims(self, fault: Fault) -> int:
        return self.measures.claims.count(fault)

    def reloads(self, *, ok: bool) -> int:
        return self.measures.reloads.count(ok)


class TestMemoryMeasures(MeasuresContract):
    @pytest.fixture
    def stage(self) -> Stage:
        return _Stage()
