"""What is asked of the kubelet itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from domain.errors import MemifError
from domain.evidence import PodDevices
from domain.identity import DeviceId
from domain.resource import ResourceName


class KubeletUnavailable(MemifError):
    """The pod-resources service does not answer, is rate-limited, or answers what we do not understand."""


class NoSinglePod(KubeletUnavailable):
    """The kubelet cannot be asked for one pod: the method is unimplemented or switched off; only listing is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """How a pool stands with the kubelet.

    Attributes:
        registered: the kubelet accepted the current session.
        watched: it has its device-list stream open and takes us for the provider.
        endpoint: base name of the current socket.
        registrations: how often the kubelet accepted us since the process started.
        failures: how often it did not.
        streams: device-list streams that it has open on the current socket.
        reason: why not, in the kubelet's words where there are any.
    """

    registered: bool = False
    watched: bool = False
    endpoint: str | None = None
    registrations: int = 0
    failures: int = 0
    streams: int = 0
    reason: str | None = None


class Registrations(Protocol):
    """How all pools stand with the kubelet, as it is known without asking anybody."""

    @property
    def obstacle(self) -> str | None:
        """Why no pool registers at all, ``None`` if nothing stands in the way."""
        ...

    @property
    def kubelet_restarts(self) -> int:
        """How often the kubelet started anew while we watched."""
        ...

    def registrations(self) -> Mapping[ResourceName, Registration]:
        """Return how each pool stands; none before they are served."""
        ...


class PodResources(Protocol):
    """The kubelet's pod-resources service, version 1.

    * Every call has a deadline.
    * No call is made from inside Allocate: a listing then feeds a race in the kubelet that gives one device twice.
    * ``pods`` makes the kubelet forget dead pods, so it is used only where the rules say.
    """

    async def pod(self, namespace: str, name: str) -> PodDevices | None:
        """Return what one pod holds, ``None`` if the kubelet does not know the pod.

        Raises:
            NoSinglePod: this kubelet can only list.
            KubeletUnavailable: nothing can be said.
        """
        ...

    async def pods(self) -> tuple[PodDevices, ...]:
        """Return what every active pod holds.

        Raises:
            KubeletUnavailable: nothing can be said.
        """
        ...

    async def allocatable(self, resource: ResourceName) -> frozenset[DeviceId]:
        """Return the healthy devices that the kubelet knows of a resource, allocated ones included.

        Raises:
            KubeletUnavailable: nothing can be said.
        """
        ...


class DeviceLists(Protocol):
    """The device lists that the kubelet watches.

    * The list goes out at once on every new stream, then whenever it is published.
    """

    def publish(self, resources: Iterable[ResourceName] | None = None) -> None:
        """Send the current list of some resources, or of all, again to whoever watches."""
        ...
