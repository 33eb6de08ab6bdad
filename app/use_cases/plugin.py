"""A pool as the kubelet uses it: the inbound port, kept by the use cases."""

from collections.abc import Sequence

from app.use_cases.allocate import Allocate
from app.use_cases.pre_start import PreStart
from app.use_cases.state import State
from domain.answer import Answer
from domain.pool import Device, Pool
from domain.resource import ResourceName
from domain.start import NotServing


class PoolPlugin:
    """One pool's device plugin; keeps :class:`domain.ports.inbound.DevicePlugin`.

    It outlives the pool by the moment in which its session ends: the list stays as it was, and calls are refused.
    """

    def __init__(self, *, resource: ResourceName, state: State, allocate: Allocate, pre_start: PreStart) -> None:
        self._resource = resource
        self._state = state
        self._last = state.pools[resource]
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
        self._last = self._state.pools.get(self._resource, self._last)
        return self._last

    @property
    def _served(self) -> Pool:
        if self._resource not in self._state.pools:
            raise NotServing(f"a call for {self._resource}, which was taken out of the configuration,")
        return self._pool

    def devices(self) -> tuple[Device, ...]:
        """Return the whole device list: always the same ids; only their health changes."""
        return self._pool.devices(healthy=self._state.healthy(self._resource))

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[Answer, ...]:
        """Grant container requests, all or none."""
        return await self._allocate(self._served, requests)

    async def pre_start(self, devices: Sequence[str]) -> None:
        """Make sure of the directories of a container that is about to start."""
        await self._pre_start(self._served, devices)


def pool_plugins(*, state: State, allocate: Allocate, pre_start: PreStart) -> tuple[PoolPlugin, ...]:
    """Return a plugin for each pool, in the order of the configuration."""
    return tuple(
        PoolPlugin(resource=resource, state=state, allocate=allocate, pre_start=pre_start) for resource in state.pools
    )
