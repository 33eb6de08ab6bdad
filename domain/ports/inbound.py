"""What adapters may ask of the core: the use cases, as the outside sees them."""

from collections.abc import Sequence
from typing import Protocol

from domain.answer import Answer
from domain.lookup import PodMemif
from domain.pool import Device
from domain.resource import ResourceName


class DevicePlugin(Protocol):
    """One pool, as the kubelet uses it."""

    @property
    def resource(self) -> ResourceName:
        """The resource that is served."""
        ...

    @property
    def list_interval(self) -> float:
        """Seconds after which an unchanged list is sent again, 0 for never."""
        ...

    def devices(self) -> tuple[Device, ...]:
        """Return the whole device list as it is now."""
        ...

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[Answer, ...]:
        """Grant container requests, all or none, and return one answer each."""
        ...

    async def pre_start(self, devices: Sequence[str]) -> None:
        """Make sure that every directory that a container with these devices may be about to mount exists."""
        ...


class LooksUp(Protocol):
    """Tells what a pod was given."""

    async def __call__(self, namespace: str, name: str, uid: str | None = None) -> PodMemif:
        """Return the memif of a pod's newest incarnation, or of the one with this uid."""
        ...
