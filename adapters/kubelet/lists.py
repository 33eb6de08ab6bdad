"""The device lists that are out with the kubelet, as the use cases see them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from domain.resource import ResourceName


class KubeletLists:
    """Hands publications on to the sessions that serve now; keeps :class:`domain.ports.kubelet.DeviceLists`."""

    def __init__(self) -> None:
        self._publish: dict[ResourceName, Callable[[], None]] = {}

    def publish(self, resources: Iterable[ResourceName] | None = None) -> None:
        """Send the current list of some resources, or of all, again to whoever watches."""
        for resource in tuple(self._publish) if resources is None else resources:
            if resource in self._publish:
                self._publish[resource]()

    @contextmanager
    def served(self, resource: ResourceName, publish: Callable[[], None]) -> Iterator[None]:
        """Have ``publish`` called for a resource for as long as the context lasts."""
        self._publish[resource] = publish
        try:
            yield
        finally:
            del self._publish[resource]
