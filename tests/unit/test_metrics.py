"""The metrics: which there are, what each is labelled with, and that no value of a label comes from outside."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from adapters.metrics.collector import PREFIX, render
from adapters.metrics.counts import Counts, Spread
from domain.claims import Fault
from domain.figures import Figures, PoolFigures, Source
from domain.ports.measures import ReleasedBy
from domain.resource import ResourceName

ONE, OTHER = ResourceName("contivpp.io/memif"), ResourceName("example.com/fast")
POOLS = (
    PoolFigures(
        resource=ONE,
        healthy=90,
        unhealthy=10,
        pending=1,
        bound=4,
        oldest_pending=12.5,
        registered=True,
        streams=1,
        registrations=3,
        failures=2,
    ),
    PoolFigures(resource=OTHER, unhealthy=4),
)
FIGURES = Figures(pools=POOLS, kubelet_restarts=2, unknown={Source.RUNTIME: 301.5, Source.CHECKPOINT: 0.0})

RESOURCES, RESULTS = {str(ONE), str(OTHER)}, {"ok", "error"}
EVERY: dict[str, tuple[str, dict[str, set[str]]]] = {
    "devices": ("gauge", {"resource": RESOURCES, "health": {"healthy", "unhealthy"}}),
    "allocations": ("gauge", {"resource": RESOURCES, "state": {"pending", "bound"}}),
    "allocate_seconds": ("histogram", {"resource": RESOURCES, "result": RESULTS}),
    "registrations_total": ("counter", {"resource": RESOURCES, "result": RESULTS}),
    "registered": ("gauge", {"resource": RESOURCES}),
    "watch_streams": ("gauge", {"resource": RESOURCES}),
    "kubelet_restarts_total": ("counter", {}),
    "reconcile_runs_total": ("counter", {"result": RESULTS}),
    "reconcile_seconds": ("histogram", {}),
    "released_total": ("counter", {"resource": RESOURCES, "reason": {"rule", "request", "force"}}),
    "orphans_removed_total": ("counter", {"resource": RESOURCES}),
    "claims_rejected_total": ("counter", {"reason": {fault.value for fault in Fault}}),
    "view_unknown_seconds": ("gauge", {"source": {"runtime", "checkpoint"}}),
    "oldest_pending_seconds": ("gauge", {"resource": RESOURCES}),
    "config_reloads_total": ("counter", {"result": RESULTS}),
}
"""Every metric but the one of the program's version: its type, and for each label every value that it ever has."""


def busy() -> Counts:
    """Return counts in which everything has happened."""
    counts = Counts()
    for resource, ok in product((ONE, OTHER), (True, False)):
        counts.allocated(resource, ok=ok, seconds=0.003)
    for ok in (True, False):
        counts.reconciled(ok=ok, seconds=0.1)
        counts.reloaded(ok=ok)
    for by in ReleasedBy:
        counts.released(ONE, by)
    for fault in Fault:
        counts.claim_rejected(fault)
    counts.orphan_removed(ONE)
    return counts


def families(text: bytes) -> dict[str, Metric]:
    """Return our metrics by name, without the prefix; a counter has its ending."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        if family.name.startswith(PREFIX):
            ending = "_total" if family.type == "counter" else ""
            found[family.name.removeprefix(PREFIX) + ending] = family
    return found


def values(text: bytes, name: str) -> dict[tuple[str, ...], float]:
    """Return a metric's values by those of its labels, in the order of the table above."""
    labels = EVERY[name][1]
    return {tuple(sample.labels[each] for each in labels): sample.value for sample in families(text)[name].samples}


def series(family: Metric) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each series of a metric, those of one histogram together."""
    for sample in family.samples:
        yield sample.name, {key: value for key, value in sample.labels.items() if key != "le"}


class TestEverything:
    @pytest.mark.parametrize("counts", [Counts(), busy()], ids=["at first", "later"])
    def test_is_named_typed_and_labelled_as_promised_from_the_start(self, counts: Counts) -> None:
        """A series that appears with its first event hides that one from every rate."""
        found = families(render("0", counts, FIGURES))

        assert found.keys() == {*EVERY, "build_info"}
        for name, (kind, labels) in EVERY.items():
            expected = {frozenset(zip(labels, each, strict=True)) for each in product(*labels.values())}
            assert found[name].type == kind
            assert found[name].documentation
            assert {frozenset(labelled.items()) for _, labelled in series(found[name])} == expected

    def test_says_which_program_it_is(self) -> None:
        (sample,) = families(render("1.2.3", Counts(), FIGURES))["build_info"].samples

        assert sample.value == 1
        assert sample.labels.keys() == {"version", "python"}
        assert sample.labels["version"] == "1.2.3"
        assert re.fullmatch(r"3\.\d+\.\d+\S*", sample.labels["python"])

    def test_comes_with_memory_time_and_descriptors_of_the_process_and_nothing_else(self) -> None:
        names = {family.name for family in text_string_to_metric_families(render("0", Counts(), FIGURES).decode())}

        others = {name for name in names if not name.startswith(PREFIX)}
        assert "process_resident_memory_bytes" in others
        assert all(name.startswith("process_") for name in others)

    def test_is_explained(self) -> None:
        """The manual's table names each metric with its type and its labels."""
        manual = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*)\|", manual, flags=re.MULTILINE)

        told = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
        expected = {name: (kind, set(labels)) for name, (kind, labels) in EVERY.items()}
        assert told == {**expected, "build_info": ("gauge", {"version", "python"})}

    def test_is_in_no_registry_that_others_may_read(self) -> None:
        render("0", busy(), FIGURES)

        assert not [family.name for family in REGISTRY.collect() if family.name.startswith(PREFIX)]

    def test_does_not_grow_with_what_happens(self) -> None:
        """Ten thousand calls and a thousand faults have the series that one has."""
        many = busy()
        for number in range(10_000):
            many.allocated(ONE, ok=bool(number % 2), seconds=number / 1000)
        for _ in range(1000):
            many.claim_rejected(Fault.SHARED)

        lines = [len(render("0", each, FIGURES).splitlines()) for each in (Counts(), many)]
        assert lines[0] == lines[1]

    def test_a_standby_tells_of_itself_only(self) -> None:
        found = families(render("0", busy(), None))

        assert found.keys() == {"build_info"}


class TestFigures:
    def test_of_a_pool_are_what_they_are_now(self) -> None:
        text = render("0", Counts(), FIGURES)

        assert values(text, "devices") == {
            (ONE, "healthy"): 90,
            (ONE, "unhealthy"): 10,
            (OTHER, "healthy"): 0,
            (OTHER, "unhealthy"): 4,
        }
        assert values(text, "allocations") == {
            (ONE, "pending"): 1,
            (ONE, "bound"): 4,
            (OTHER, "pending"): 0,
            (OTHER, "bound"): 0,
        }
        assert values(text, "registered") == {(ONE,): 1, (OTHER,): 0}
        assert values(text, "watch_streams") == {(ONE,): 1, (OTHER,): 0}
        assert values(text, "registrations_total")[ONE, "ok"] == 3
        assert values(text, "registrations_total")[ONE, "error"] == 2
        assert values(text, "oldest_pending_seconds") == {(ONE,): 12.5, (OTHER,): 0}

    def test_of_the_node_are_what_they_are_now(self) -> None:
        text = render("0", Counts(), FIGURES)

        assert values(text, "kubelet_restarts_total") == {(): 2}
        assert values(text, "view_unknown_seconds") == {("runtime",): 301.5, ("checkpoint",): 0}

    def test_what_went_with_a_pool_that_is_gone_still_counts(self) -> None:
        """A counter that vanishes with its last event would hide it."""
        counts = Counts()
        counts.released(OTHER, ReleasedBy.RULE)
        counts.orphan_removed(OTHER)
        text = render("0", counts, replace(FIGURES, pools=POOLS[:1]))

        assert values(text, "released_total")[OTHER, "rule"] == 1
        assert values(text, "orphans_removed_total")[OTHER,] == 1


class TestSpread:
    def test_a_value_on_a_bound_belongs_to_the_range_below(self) -> None:
        spread = Spread((1.0, 2.0))
        for value in (0.0, 1.0, 1.5, 2.0, 2.5):
            spread.add(value)

        assert spread.cumulative == [(1.0, 2), (2.0, 4), (float("inf"), 5)]
        assert spread.sum == 7.0

    @given(st.lists(st.floats(min_value=0, max_value=1e6)))
    def test_every_value_is_counted_once(self, seconds: list[float]) -> None:
        spread = Spread((0.1, 1.0, 10.0))
        for value in seconds:
            spread.add(value)
        counts: list[Any] = [count for _, count in spread.cumulative]

        assert counts == sorted(counts)
        assert counts == [sum(value <= bound for value in seconds) for bound in (0.1, 1.0, 10.0, float("inf"))]

    def test_calls_over_the_budget_are_told_apart_from_those_within(self) -> None:
        counts = Counts()
        counts.allocated(ONE, ok=True, seconds=1.9)
        counts.allocated(ONE, ok=False, seconds=2.1)
        text = render("0", counts, FIGURES)

        below = {
            (sample.labels["result"], sample.value)
            for sample in families(text)["allocate_seconds"].samples
            if sample.labels.get("le") == "2.0" and sample.labels["resource"] == ONE
        }
        assert below == {("ok", 1.0), ("error", 0.0)}
