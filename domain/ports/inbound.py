"""What adapters may ask of the core: the use cases, as the outside sees them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from domain.answer import Answer
from domain.events import Event
from domain.evidence import CheckpointView, RuntimeView, Unknown
from domain.identity import AllocationId
from domain.lookup import PodMemif, Question
from domain.overview import Listed, Overview
from domain.pool import Device
from domain.resource import ResourceName
from domain.resync import Effect


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


class ListsAllocations(Protocol):
    """Tells everything that is there."""

    def __call__(self) -> tuple[Listed, ...]:
        """Return living allocations and forced records, in the order of their grant."""
        ...


class Watches(Protocol):
    """Tells how the set of living allocations changes.

    * Every event has a number that counts within one instance.
    * What a watcher has not drawn yet is kept for all of them together, and not for ever.
    """

    @property
    def instance(self) -> str:
        """The process."""
        ...

    @property
    def busy(self) -> bool:
        """Whether something that must be answered fast is going on."""
        ...

    def begin(self) -> tuple[Event, ...]:
        """Return what lives, and SYNCED."""
        ...

    def resume(self, seq: int, instance: str) -> tuple[Event, ...]:
        """Return what came after an event of an instance, and SYNCED; RESYNC_NEEDED alone if that is gone."""
        ...

    def after(self, seq: int) -> tuple[Event, ...]:
        """Return the events after a number; RESYNC_NEEDED alone if some are gone."""
        ...

    def watched(self, wake: Callable[[], None]) -> AbstractContextManager[None]:
        """Have ``wake`` called after every event, for as long as the context lasts."""
        ...


class ReleasesPods(Protocol):
    """Lets what a pod holds go."""

    async def __call__(self, question: Question, *, reason: str) -> tuple[AllocationId, ...]:
        """Release what the rule lets go and return it; what stays is a refusal."""
        ...

    async def force(self, question: Question, *, reason: str) -> tuple[AllocationId, ...]:
        """Remove the directories although something may use them, and return the allocations."""
        ...


class Outcome(Protocol):
    """What one reconcile saw and decided."""

    @property
    def runtime(self) -> RuntimeView | Unknown:
        """The reading of the runtime."""
        ...

    @property
    def checkpoint(self) -> CheckpointView | Unknown:
        """The reading of the checkpoint."""
        ...

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What followed, in order."""
        ...


class Reconciles(Protocol):
    """Runs the resync rules."""

    async def once(self, *, dry_run: bool = False) -> Outcome:
        """Run them now, or as soon as the run that is going on is done; a dry run changes nothing."""
        ...


class TellsStatus(Protocol):
    """Tells how the daemon is."""

    def __call__(self) -> Overview:
        """Return how everything stands, asking nobody."""
        ...
