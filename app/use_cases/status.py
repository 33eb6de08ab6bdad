"""Status: how the daemon is."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from app.use_cases.state import State
from domain.evidence import CheckpointView, RuntimeView, Unknown
from domain.health import Pulse
from domain.overview import Overview, PoolStatus, ViewStatus
from domain.pool import Health, Pool
from domain.ports.clock import Clock
from domain.ports.inbound import DevicePlugin
from domain.ports.kubelet import Registration, Registrations

_DRAINED = "not configured any more; served until its last allocation is gone"
_RETIRED = "devices above the capacity stay listed as unhealthy until a start at which nobody holds them: {count}"
_LEAVING = "the daemon is leaving and has withdrawn every device"
_UNKNOWN = Registration(reason="not started")


class Status:
    """Tells how the daemon is, from what is known already: it asks nobody, so it answers whatever hangs.

    Args:
        registrations: how pools stand with the kubelet.
        plugins: returns every pool as the kubelet sees it.
        version: of the program.
        instance: names the process.
    """

    def __init__(
        self,
        *,
        state: State,
        registrations: Registrations,
        plugins: Callable[[], Sequence[DevicePlugin]],
        clock: Clock,
        version: str,
        instance: str,
    ) -> None:
        self._state = state
        self._registrations = registrations
        self._plugins = plugins
        self._clock = clock
        self._version = version
        self._instance = instance

    def __call__(self) -> Overview:
        """Return how everything stands now."""
        state = self._state
        active = timedelta(seconds=self._clock.monotonic() - state.active_since)
        live = state.ledger.live()
        bound = sum(each.owner.complete for each in live)
        standing = self._registrations.registrations()
        return Overview(
            version=self._version,
            instance=self._instance,
            since=self._clock.now() - active,
            identity=state.identity,
            runtime=ViewStatus(_unknown(state.runtime), state.runtime_since),
            checkpoint=ViewStatus(_unknown(state.checkpoint), state.checkpoint_since),
            restarts=self._registrations.kubelet_restarts,
            pools=tuple(self._pool(plugin, standing.get(plugin.resource, _UNKNOWN)) for plugin in self._plugins()),
            pending=len(live) - bound,
            bound=bound,
            reconcile=state.reconciled,
            configuration=state.configuration,
        )

    def _pool(self, plugin: DevicePlugin, registration: Registration) -> PoolStatus:
        pool, devices = self._state.pools[plugin.resource], plugin.devices()
        return PoolStatus(
            resource=plugin.resource,
            registration=registration,
            listed=len(devices),
            healthy=sum(each.health is Health.HEALTHY for each in devices),
            allocated=len(self._state.ledger.devices_held(plugin.resource)),
            reason="; ".join(self._troubles(pool, registration)) or None,
        )

    def _troubles(self, pool: Pool, registration: Registration) -> Iterator[str]:
        """Say everything that keeps a pool's devices from pods: one trouble does not hide the other."""
        obstacle = None if registration.registered else self._registrations.obstacle
        if (reason := obstacle or registration.reason) is not None:
            yield reason
        if (trouble := self._state.health.get(pool.resource, Pulse()).trouble) is not None:
            yield f"devices are unhealthy: {trouble}"
        if self._state.draining:
            yield _LEAVING
        if pool.drained:
            yield _DRAINED
        elif pool.retired:
            yield _RETIRED.format(count=len(pool.retired))


def _unknown(view: RuntimeView | CheckpointView | Unknown) -> str | None:
    return view.reason if isinstance(view, Unknown) else None
