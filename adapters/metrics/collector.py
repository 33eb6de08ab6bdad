"""Every metric, with its name, its labels and what it means.

Gauges are read off the daemon's state whenever somebody asks, so none can be stale; counters show 0 from the start,
so that their first step is seen too.  The values of every label are those listed here, the configured resources, or
members of an enumeration.
"""

import platform
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from adapters.metrics.counts import ALLOCATE_BOUNDS, Counts, Spread
from domain.claims import Fault
from domain.figures import Figures, PoolFigures, Source
from domain.ports.measures import ReleasedBy
from domain.resource import ResourceName

PREFIX: Final = "memif_device_plugin_"

_RESULTS: Final = {True: "ok", False: "error"}


def render(version: str, counts: Counts, figures: Figures | None) -> bytes:
    """Return the text of every metric of the daemon and of its process (memory, processor time, descriptors)."""
    registry = CollectorRegistry()
    registry.register(DaemonCollector(version=version, counts=counts, figures=figures))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class DaemonCollector(Collector):
    """Yields what is known of the daemon.

    Args:
        version: of the program.
        counts: what happened.
        figures: what is so now; ``None`` for a standby, which has nothing of its own to tell.
    """

    def __init__(self, *, version: str, counts: Counts, figures: Figures | None) -> None:
        self._version = version
        self._counts = counts
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield self._build()
        if self._figures is None:
            return
        yield from _gauges(self._figures)
        yield from _registrations(self._figures)
        yield from self._calls(self._figures.pools)
        yield from self._reconciles()
        yield from self._departures(self._figures.pools)
        yield self._by_result("config_reloads", "Attempts to take over a changed configuration.", self._counts.reloads)

    def _build(self) -> Metric:
        # Its name ends in _info by itself.
        family = InfoMetricFamily(f"{PREFIX}build", "Which program this is; always 1.", labels=())
        family.add_metric((), {"version": self._version, "python": platform.python_version()})
        return family

    def _calls(self, pools: Iterable[PoolFigures]) -> Iterator[Metric]:
        family = HistogramMetricFamily(
            f"{PREFIX}allocate_seconds", "Time that Allocate calls of the kubelet took.", labels=("resource", "result")
        )
        for pool in pools:
            for ok, result in _RESULTS.items():
                spread = self._counts.calls.get((pool.resource, ok), Spread(ALLOCATE_BOUNDS))
                family.add_metric((pool.resource, result), _buckets(spread), spread.sum)
        yield family

    def _reconciles(self) -> Iterator[Metric]:
        yield self._by_result("reconcile_runs", "Runs of the resync rules.", self._counts.runs)
        spread = self._counts.run_seconds
        family = HistogramMetricFamily(f"{PREFIX}reconcile_seconds", "Time that runs of the resync rules took.")
        family.add_metric((), _buckets(spread), spread.sum)
        yield family

    def _departures(self, pools: Iterable[PoolFigures]) -> Iterator[Metric]:
        released = CounterMetricFamily(
            f"{PREFIX}released", "Allocations that are gone, by what let them go.", labels=("resource", "reason")
        )
        orphans = CounterMetricFamily(
            f"{PREFIX}orphans_removed", "Directories that belonged to nobody and were removed.", labels=("resource",)
        )
        for resource in self._resources(pools):
            for by in ReleasedBy:
                released.add_metric((resource, by), self._counts.releases[resource, by])
            orphans.add_metric((resource,), self._counts.orphans[resource])
        yield released
        yield orphans
        claims = CounterMetricFamily(
            f"{PREFIX}claims_rejected", "What containers claim about themselves and is ignored.", labels=("reason",)
        )
        for fault in Fault:
            claims.add_metric((fault,), self._counts.claims[fault])
        yield claims

    def _resources(self, pools: Iterable[PoolFigures]) -> list[ResourceName]:
        """Return every resource of which something is known: the last allocation of one may be what is counted."""
        known = {pool.resource: None for pool in pools}
        known.update(dict.fromkeys(resource for resource, _ in self._counts.releases))
        known.update(dict.fromkeys(self._counts.orphans))
        return list(known)

    def _by_result(self, name: str, text: str, counts: dict[bool, int]) -> Metric:
        family = CounterMetricFamily(f"{PREFIX}{name}", text, labels=("result",))
        for ok, result in _RESULTS.items():
            family.add_metric((result,), counts.get(ok, 0))
        return family


def _gauges(figures: Figures) -> Iterator[Metric]:
    devices = _gauge("devices", "Devices as the kubelet is shown them.", "resource", "health")
    allocations = _gauge(
        "allocations", "Living allocations, by whether their owner is completely known.", "resource", "state"
    )
    oldest = _gauge("oldest_pending_seconds", "Age of the oldest allocation whose owner is not known.", "resource")
    for pool in figures.pools:
        devices.add_metric((pool.resource, "healthy"), pool.healthy)
        devices.add_metric((pool.resource, "unhealthy"), pool.unhealthy)
        allocations.add_metric((pool.resource, "pending"), pool.pending)
        allocations.add_metric((pool.resource, "bound"), pool.bound)
        oldest.add_metric((pool.resource,), pool.oldest_pending)
    yield from (devices, allocations, oldest)
    unknown = _gauge("view_unknown_seconds", "Time for which a view of the node has been unknown, else 0.", "source")
    for source in Source:
        unknown.add_metric((source,), figures.unknown[source])
    yield unknown


def _registrations(figures: Figures) -> Iterator[Metric]:
    registered = _gauge("registered", "Whether the kubelet has accepted the present session.", "resource")
    streams = _gauge("watch_streams", "Device-list streams that the kubelet has open; 1 is right.", "resource")
    attempts = CounterMetricFamily(
        f"{PREFIX}registrations", "Registrations with the kubelet.", labels=("resource", "result")
    )
    for pool in figures.pools:
        registered.add_metric((pool.resource,), pool.registered)
        streams.add_metric((pool.resource,), pool.streams)
        attempts.add_metric((pool.resource, _RESULTS[True]), pool.registrations)
        attempts.add_metric((pool.resource, _RESULTS[False]), pool.failures)
    yield from (registered, streams, attempts)
    restarts = CounterMetricFamily(f"{PREFIX}kubelet_restarts", "Starts of the kubelet while the daemon ran.")
    restarts.add_metric((), figures.kubelet_restarts)
    yield restarts


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}{name}", text, labels=labels)


def _buckets(spread: Spread) -> list[tuple[str, float]]:
    return [("+Inf" if bound == float("inf") else str(bound), float(count)) for bound, count in spread.cumulative]
