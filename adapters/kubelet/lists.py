"""The device lists that are out with the kubelet, as the use cases see them."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager

from domain.resource import ResourceName


class KubeletLists:
    """Hands publications on to the sessions that serve now; keeps :class:`domain.ports.kubelet.DeviceLists`."""

    def __init__(self) -> None:
        self._publish: dict[ResourceName, Callable[[], None]] = {}
        self._flush: dict[ResourceName, Callable[[], Coroutine[None, None, None]]] = {}

    def publish(self, resources: Iterable[ResourceName] | None = None) -> None:
        """Send the current list of some resources, or of all, again to whoever watches."""
        for resource in tuple(self._publish) if resources is None else resources:
            if resource in self._publish:
                self._publish[resource]()

    async def flush(self) -> None:
        """Wait until what was published last is written to everybody who watches; the caller bounds the wait."""
        async with asyncio.TaskGroup() as tasks:
            for flush in self._flush.values():
                tasks.create_task(flush())

    @contextmanager
    def served(
        self,
        resource: ResourceName,
        publish: Callable[[], None],
        flush: Callable[[], Coroutine[None, None, None]] | None = None,
    ) -> Iterator[None]:
        """Have ``publish`` and ``flush`` called for a resource for as long as the context lasts."""
        self._publish[resource] = publish
        if flush is not None:
            self._flush[resource] = flush
        try:
            yield
        finally:
            del self._publish[resource]
            self._flush.pop(resource, None)
