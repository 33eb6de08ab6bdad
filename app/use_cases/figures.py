"""Figures: what can be measured of the daemon now."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from app.use_cases.state import State
from domain.allocation import Allocation
from domain.figures import Figures, PoolFigures, Source
from domain.pool import Health
from domain.ports.clock import Clock
from domain.ports.inbound import DevicePlugin
from domain.ports.kubelet import Registration, Registrations
from domain.resource import ResourceName


class TellFigures:
    """Tells what can be measured, from what is known already: it asks nobody, so it answers whatever hangs.

    Args:
        registrations: how pools stand with the kubelet.
        plugins: returns every pool as the kubelet sees it.
    """

    def __init__(
        self,
        *,
        state: State,
        registrations: Registrations,
        plugins: Callable[[], Sequence[DevicePlugin]],
        clock: Clock,
    ) -> None:
        self._state = state
        self._registrations = registrations
        self._plugins = plugins
        self._clock = clock

    def __call__(self) -> Figures:
        """Return everything as it is now."""
        held: dict[ResourceName, list[Allocation]] = {}
        for each in self._state.ledger.live():
            held.setdefault(each.resource, []).append(each)
        standing = self._registrations.registrations()
        pools = [
            self._pool(plugin, held.pop(plugin.resource, []), standing.get(plugin.resource, Registration()))
            for plugin in self._plugins()
        ]
        return Figures(
            pools=(*pools, *(self._allocations(resource, left) for resource, left in held.items())),
            kubelet_restarts=self._registrations.kubelet_restarts,
            unknown={source: self._state.unknown_for(source) for source in Source},
        )

    def _pool(self, plugin: DevicePlugin, allocations: Sequence[Allocation], standing: Registration) -> PoolFigures:
        devices = plugin.devices()
        healthy = sum(each.health is Health.HEALTHY for each in devices)
        return replace(
            self._allocations(plugin.resource, allocations),
            healthy=healthy,
            unhealthy=len(devices) - healthy,
            registered=standing.registered,
            streams=standing.streams,
            registrations=standing.registrations,
            failures=standing.failures,
        )

    def _allocations(self, resource: ResourceName, allocations: Sequence[Allocation]) -> PoolFigures:
        pending = [each for each in allocations if not each.owner.complete]
        now = self._clock.now()
        return PoolFigures(
            resource=resource,
            pending=len(pending),
            bound=len(allocations) - len(pending),
            oldest_pending=max((max(0.0, (now - each.granted).total_seconds()) for each in pending), default=0.0),
        )
