"""A pool as the kubelet uses it: the inbound port, kept by the use cases."""

from collections.abc import Sequence

from app.use_cases.allocate import Allocate
from app.use_cases.pre_start import PreStart
from app.use_cases.state import State
from domain.answer import Answer
from domain.pool import Device, Pool
from domain.resource import ResourceName


class PoolPlugin:
    """One pool's device plugin; keeps :class:`domain.ports.inbound.DevicePlugin`."""

    def __init__(self, *, resource: ResourceName, state: State, allocate: Allocate, pre_start: PreStart) -> None:
        self._resource = resource
        self._state = state
        self._allocate = allocate
        self._pre_start = pre_start

    @property
    def resource(self) -> ResourceName:
        """The resource that is served."""
        return self._resource

    @property
    def list_interval(self) -> float:
        """Seconds after which an unchanged list is sent again, 0 for never."""
        return self._pool.list_interval

    @property
    def _pool(self) -> Pool:
        return self._state.pools[self._resource]

    def devices(self) -> tuple[Device, ...]:
        """Return the whole device list: always the same ids; only their health changes."""
        return self._pool.devices(healthy=self._state.healthy(self._resource))

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[Answer, ...]:
        """Grant container requests, all or none."""
        return await self._allocate(self._pool, requests)

    async def pre_start(self, devices: Sequence[str]) -> None:
        """Make sure of the directories of a container that is about to start."""
        await self._pre_start(self._pool, devices)


def pool_plugins(*, state: State, allocate: Allocate, pre_start: PreStart) -> tuple[PoolPlugin, ...]:
    """Return a plugin for each pool, in the order of the configuration."""
    return tuple(
        PoolPlugin(resource=resource, state=state, allocate=allocate, pre_start=pre_start) for resource in state.pools
    )
