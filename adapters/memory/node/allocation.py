"""How devices get to a container: the choice of ids, the calls to plugins, and their order."""

from collections.abc import Collection
from typing import Protocol

from adapters.memory.node.devices import DeviceManager, Plugin
from adapters.memory.node.errors import Refused
from adapters.memory.node.merge import RunOptions, merge
from adapters.memory.node.pods import Container, Pod


class Surroundings(Protocol):
    """What allocation needs of the kubelet around it."""

    @property
    def sources_ready(self) -> bool:
        """Whether every source has delivered its pods."""
        ...

    def purge(self) -> None:
        """Drop what dead pods hold, once the sources are ready."""
        ...

    def knows(self, pod: Pod) -> bool:
        """Whether the pod is active."""
        ...

    def answered(self) -> None:
        """Called when a plugin has answered Allocate and nothing is stored yet."""
        ...

    def write_checkpoint(self) -> None:
        """Write the file."""
        ...


class Allocation:
    """Allocate at admission, PreStartContainer at each start, and the late Allocate in between."""

    def __init__(
        self, devices: DeviceManager, around: Surroundings, running_at_start: Collection[tuple[str, str]]
    ) -> None:
        self._devices = devices
        self._around = around
        self._running_at_start = running_at_start

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Give one container everything that it asks for.

        One call a resource, in random order; the file is written at the end of the container, so what a kubelet that
        dies in between was given is lost.

        Raises:
            Refused: the pod is rejected with this text; what other calls of the pod were answered stays stored until
                somebody's call, or a List, finds the pod dead.
        """
        self._devices.begin(pod.uid)
        purged = changed = False
        for resource in self._devices.shuffled(container.spec.limits):
            if not self._devices.knows(resource):
                continue
            if not purged:
                self._around.purge()
                purged = True
            if not self._around.sources_ready and (pod.uid, container.name) in self._running_at_start:
                continue
            ids = await self._choose(pod, container, resource)
            if ids:
                changed = True
                await self._call(pod, container, resource, ids)
        if changed:
            self._around.write_checkpoint()
        self._devices.settle(pod.uid, container.name, container.kind)

    async def _choose(self, pod: Pod, container: Container, resource: str) -> list[str]:
        wanted = container.spec.limits[resource]
        needed = self._devices.needs(pod.uid, container.name, resource, wanted)
        chosen = self._devices.reuse(pod.uid, resource, needed)
        if len(chosen) == needed:
            return chosen
        free = self._devices.available(resource, needed - len(chosen))
        endpoint = self._devices.endpoints.get(resource)
        if (
            endpoint is not None
            and endpoint.options is not None
            and endpoint.options.get_preferred_allocation_available
        ):
            wish = await self._preferred(endpoint.callable(resource), free, chosen, wanted)
            chosen += self._devices.take(resource, wish & free, needed - len(chosen))
        return chosen + self._devices.take(resource, free - set(chosen), needed - len(chosen))

    async def _preferred(self, plugin: Plugin, free: frozenset[str], chosen: list[str], wanted: int) -> frozenset[str]:
        try:
            return await plugin.preferred(sorted(free.union(chosen)), sorted(chosen), wanted)
        except Refused as error:
            raise Refused(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from error

    async def _call(self, pod: Pod, container: Container, resource: str, ids: list[str]) -> None:
        endpoint = self._devices.endpoints.get(resource)
        if endpoint is None:
            self._devices.recount()
            raise Refused(f"unknown Device Plugin {resource}")
        try:
            answers = await endpoint.callable(resource).allocate(self._devices.shuffled(ids))
        except Refused:
            self._devices.recount()
            raise
        self._around.answered()
        if not answers:
            # The ids stay in use, though nobody has them, until something makes the kubelet count anew.
            raise Refused("no containers return in allocation response")
        self._devices.store(pod.uid, container.name, resource, ids, answers[0])

    async def prepare(self, pod: Pod, container: Container) -> RunOptions:
        """Do what comes before each start of a container, and return what it is created with.

        Raises:
            Refused: the container is not created; the kubelet tries again later.
        """
        missing = False
        for resource in self._devices.shuffled(container.spec.limits):
            if not self._devices.knows(resource) or container.spec.limits[resource] == 0:
                continue
            await self._pre_start(pod, container, resource)
            if self._around.knows(pod) and self._devices.held(pod.uid, container.name, resource) is None:
                missing = True
        if missing:
            await self.allocate(pod, container)
        stored = {entry.resource: entry.answer for entry in self._devices.of(pod.uid, container.name)}
        return merge(stored[resource] for resource in self._devices.shuffled(stored))

    async def _pre_start(self, pod: Pod, container: Container, resource: str) -> None:
        endpoint = self._devices.endpoints.get(resource)
        if endpoint is None:
            raise Refused(f"endpoint not found in cache for a registered resource: {resource}")
        if endpoint.options is None or not endpoint.options.pre_start_required:
            # Unknown options: the kubelet was restarted and the plugin is not back, so nobody is asked.
            return
        ids = self._devices.held(pod.uid, container.name, resource)
        if ids is None:
            raise Refused(
                f"no devices found allocated in local cache for pod {pod.uid}, "
                f"container {container.name}, resource {resource}"
            )
        try:
            await endpoint.callable(resource).pre_start(self._devices.shuffled(ids))
        except Refused as error:
            raise Refused(f"device plugin PreStartContainer rpc failed with err: {error}") from error
