"""What becomes metrics keeps the port's promises; it is read as a scraper reads it."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from adapters.metrics.collector import PREFIX, render
from adapters.metrics.counts import Counts
from domain.claims import Fault
from domain.figures import Figures, PoolFigures, Source
from domain.ports.measures import ReleasedBy
from domain.resource import ResourceName
from tests.contract.measures import ONE, OTHER, MeasuresContract, Stage

RESULTS = {True: "ok", False: "error"}


class _Stage:
    def __init__(self) -> None:
        self.measures = Counts()

    def _value(self, name: str, **labels: str) -> float:
        pools = tuple(PoolFigures(resource=resource) for resource in (ONE, OTHER))
        figures = Figures(pools=pools, kubelet_restarts=0, unknown=dict.fromkeys(Source, 0.0))
        text = render("0", self.measures, figures).decode()
        (value,) = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"{PREFIX}{name}" and sample.labels == labels
        ]
        return value

    def calls(self, resource: ResourceName, *, ok: bool) -> tuple[int, float]:
        labels = {"resource": resource, "result": RESULTS[ok]}
        return (
            int(self._value("allocate_seconds_count", **labels)),
            self._value("allocate_seconds_sum", **labels),
        )

    def reconciles(self, *, ok: bool) -> int:
        return int(self._value("reconcile_runs_total", result=RESULTS[ok]))

    def reconcile_seconds(self) -> float:
        return self._value("reconcile_seconds_sum")

    def releases(self, resource: ResourceName, by: ReleasedBy) -> int:
        return int(self._value("released_total", resource=resource, reason=by.value))

    def orphans(self, resource: ResourceName) -> int:
        return int(self._value("orphans_removed_total", resource=resource))

    def claims(self, fault: Fault) -> int:
        return int(self._value("claims_rejected_total", reason=fault.value))

    def reloads(self, *, ok: bool) -> int:
        return int(self._value("config_reloads_total", result=RESULTS[ok]))


class TestCounts(MeasuresContract):
    @pytest.fixture
    def stage(self) -> Stage:
        return _Stage()
