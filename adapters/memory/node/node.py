"""The embedded node: the kubelet and what surrounds it, with levers for everything that can happen to it."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from adapters.memory.node.devices import Resources
from adapters.memory.node.errors import KubeletCrashed
from adapters.memory.node.front import leave_stale_socket
from adapters.memory.node.kubelet import Kubelet
from adapters.memory.node.machine import Machine, Timing
from adapters.memory.node.pod_resources import Limiter
from adapters.memory.node.pods import ContainerKind, Phase, Pod, PodSpec, Source, new_pod
from adapters.memory.node.trace import Call, Trace
from adapters.memory.node.workers import kill, make_source
from adapters.memory.runtime import MemoryRuntime
from domain.evidence import ObjectState
from domain.ports.clock import Clock

PATIENCE: Final = 10.0
"""Seconds of real time after which waiting for something counts as failed."""


class EmbeddedNode:
    """A node with a kubelet that plugins cannot tell from kubelet 1.36, on real Unix sockets below ``root``.

    The sockets' paths must stay below 108 bytes, so keep ``root`` short.  As an asynchronous context manager it runs
    a kubelet from beginning to end, and :meth:`check` is done at the end.

    Args:
        root: an existing directory that is the node's alone.
        runtime: where containers appear.
        clock: what the rate limit, the five minutes' grace and the trace's times go by.
        seed: decides everything that the kubelet leaves to chance.
        name: of the node; static pods have it as suffix.
        timing: how long things take in real time.
        rate_limited: whether pod-resources refuses more than 100 calls a second.
        missing_source: makes a mount's source that does not exist; by default as runtimes do, root's and 0755.
    """

    def __init__(
        self,
        root: Path,
        runtime: MemoryRuntime,
        *,
        clock: Clock,
        seed: int = 0,
        name: str = "node1",
        timing: Timing | None = None,
        rate_limited: bool = True,
        missing_source: Callable[[str], None] = make_source,
    ) -> None:
        self.name = name
        self.runtime = runtime
        self.rate_limited = rate_limited
        self.timing = timing or Timing()
        self.crashes: list[str] = []
        self.pods: list[Pod] = []
        self._orphans: list[Pod] = []
        self._trace = Trace(clock)
        self._clock = clock
        # Not a secret: which devices are chosen must be the same at each run of a test.
        self._chance = Random(seed)  # noqa: S311
        self._limiter = Limiter(clock)
        self._kubelet: Kubelet | None = None
        self._machine = Machine(
            root=root,
            runtime=runtime,
            clock=clock,
            trace=self._trace,
            chance=self._chance,
            missing_source=missing_source,
            limiter=self._allows,
            crashed=lambda crash: self.crashes.append(str(crash)),
        )

    async def __aenter__(self) -> Self:
        await self.start_kubelet()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop_kubelet()
        if error is None:
            self.check()

    def check(self) -> None:
        """Fail if something happened that crashes the real kubelet.

        Raises:
            KubeletCrashed: it did.
        """
        if self.crashes:
            raise KubeletCrashed("; ".join(self.crashes))

    # -- places ------------------------------------------------------------------------------------------------

    @property
    def plugin_dir(self) -> Path:
        """The directory in which plugins have their sockets and the kubelet its own."""
        return self._machine.plugin_dir

    @property
    def kubelet_socket(self) -> Path:
        """Where plugins register."""
        return self._machine.kubelet_socket

    @property
    def pod_resources_socket(self) -> Path:
        """Where the kubelet tells what pods hold."""
        return self._machine.pod_resources_dir / "kubelet.sock"

    @property
    def checkpoint_path(self) -> Path:
        """The kubelet's checkpoint of devices."""
        return self._machine.checkpoint_path

    # -- the kubelet's life ------------------------------------------------------------------------------------

    @property
    def kubelet(self) -> Kubelet:
        """The kubelet that runs now.

        Raises:
            RuntimeError: none does.
        """
        if self._kubelet is None:
            raise RuntimeError("the embedded kubelet does not run")
        return self._kubelet

    @property
    def running(self) -> bool:
        """Whether a kubelet runs."""
        return self._kubelet is not None

    async def start_kubelet(self, *, withhold: Collection[Source] = ()) -> None:
        """Start a kubelet; it returns when ``kubelet.sock`` accepts connections, before pods are admitted.

        Args:
            withhold: sources whose pods come only with :meth:`deliver_sources`.
        """
        if self._kubelet is not None:
            raise RuntimeError("the embedded kubelet runs already")
        for pod in self.pods:
            pod.admitted = False
        kubelet = Kubelet(self._machine, self.timing, pods=lambda: self.pods, ready=self._bury, withheld=withhold)
        self._kubelet = kubelet
        await kubelet.start()

    async def stop_kubelet(self) -> None:
        """End the kubelet, as SIGTERM or SIGKILL does; containers go on.  Without one, nothing happens."""
        kubelet, self._kubelet = self._kubelet, None
        if kubelet is not None:
            await kubelet.stop()

    async def restart_kubelet(self) -> None:
        """End the kubelet and start another."""
        await self.stop_kubelet()
        await self.start_kubelet()

    async def reboot(self, meanwhile: Callable[[], Awaitable[None] | None] | None = None) -> None:
        """Restart the machine: all containers exit, directories in memory vanish, a kubelet comes up.

        Args:
            meanwhile: called before the kubelet starts; wipes what a reboot wipes, starts what starts earlier.
        """
        await self.stop_kubelet()
        self.runtime.halt()
        for pod in [*self.pods, *self._orphans]:
            pod.sandbox_ready = False
            for container in pod.containers:
                container.state = None if container.id is None else ObjectState.EXITED
                if container.kind is ContainerKind.INIT:
                    container.state = None
        if meanwhile is not None:
            doing = meanwhile()
            if inspect.isawaitable(doing):
                await doing
        await self.start_kubelet()

    async def deliver_sources(self) -> None:
        """Let the sources that were withheld deliver their pods."""
        for source in Source:
            if not self.kubelet.has(source):
                await self.kubelet.deliver(source)

    def leave_stale_socket(self) -> None:
        """Leave a ``kubelet.sock`` on which nobody listens, as a kubelet that died does."""
        self.plugin_dir.mkdir(parents=True, exist_ok=True)
        leave_stale_socket(self.kubelet_socket)

    def die_after_next_answer(self) -> None:
        """Let the kubelet die when a plugin has answered Allocate, before it has recorded the answer."""
        self.kubelet.dies_after_answer = True

    # -- pods --------------------------------------------------------------------------------------------------

    async def admit(self, spec: PodSpec) -> Pod:
        """Hand a pod to the kubelet and return it as the kubelet left it: admitted, or ``Failed`` with a message.

        Nothing is started.  Without a kubelet, or with its source withheld, the pod waits as ``Pending``.
        """
        # No security here either: a uid that is the same at each run.
        uid = str(UUID(int=self._chance.getrandbits(128), version=4))
        pod = new_pod(spec, node=self.name, uid=uid)
        self.pods.append(pod)
        kubelet = self._kubelet
        if kubelet is None:
            return pod
        if kubelet.awaits(pod.source):
            await self.until(lambda: not kubelet.awaits(pod.source))
        elif kubelet.has(pod.source):
            await kubelet.admit(pod)
        if kubelet.dead and self._kubelet is kubelet:
            await self.stop_kubelet()
        return pod

    async def run(self, pod: Pod) -> None:
        """Let the kubelet start a pod's containers, and wait until all run or the kubelet is gone.

        A container that cannot be started is tried again for ever; see its ``waiting``, and :meth:`begin`.
        """
        pod.started = True
        if self._kubelet is not None and pod.admitted:
            self._kubelet.work(pod)
            await self._kubelet.worked(pod)

    def begin(self, pod: Pod) -> None:
        """Let the kubelet start a pod's containers, without waiting."""
        pod.started = True
        if pod.admitted:
            self.kubelet.work(pod)

    async def start(self, spec: PodSpec) -> Pod:
        """Admit a pod and run it."""
        pod = await self.admit(spec)
        await self.run(pod)
        return pod

    def exit_container(self, pod: Pod, name: str) -> None:
        """Let a container end; nobody starts it again until somebody looks at the pod."""
        container = pod.container(name)
        if container.id is not None:
            container.state = ObjectState.EXITED
            self.runtime.set_state(container.id, ObjectState.EXITED)

    async def restart_container(self, pod: Pod, name: str) -> None:
        """Let a container end, and the kubelet start it again in its place; returns when it runs."""
        self.exit_container(pod, name)
        await self.run(pod)

    async def complete(self, pod: Pod) -> None:
        """Let a pod's containers end well: its object stays, its devices can be had by others."""
        await self._stop(pod)
        pod.phase = Phase.SUCCEEDED
        pod.finished = True

    async def delete(self, pod: Pod) -> None:
        """Delete a pod gracefully: containers stop, then it is nobody's, then everything of it is removed.

        Its devices are free when all containers have stopped, but the kubelet looks only at the next Allocate or
        pod-resources List.  Without a kubelet only the object goes; the next kubelet finds the containers and stops
        them.
        """
        if self._kubelet is None:
            self._orphan(pod)
            return
        pod.terminating = True
        await self._stop(pod)
        pod.finished = True
        self._remove(pod)

    async def force_delete(self, pod: Pod) -> None:
        """Delete a pod at once: the kubelet forgets it while its containers run; :meth:`finish` ends those.

        The same happens when a static pod's manifest is removed.
        """
        if self._kubelet is not None:
            await self._kubelet.stop_work(pod)
            self._kubelet.forget(pod)
        self._orphan(pod)

    async def finish(self, pod: Pod) -> None:
        """End what still runs of a pod that was force-deleted, and remove it from the runtime."""
        await self._stop(pod)
        pod.finished = True
        self._remove(pod)

    def _orphan(self, pod: Pod) -> None:
        self.pods.remove(pod)
        self._orphans.append(pod)

    def _bury(self) -> None:
        """What a kubelet does once its sources are ready: end what runs of pods that are gone."""
        for pod in list(self._orphans):
            kill(self.runtime, pod)
            pod.finished = True
            self._remove(pod)

    async def _stop(self, pod: Pod) -> None:
        if self._kubelet is not None:
            await self._kubelet.stop_work(pod)
        kill(self.runtime, pod)
        self._trace.changed()

    def _remove(self, pod: Pod) -> None:
        for sandbox in pod.sandboxes:
            self.runtime.remove(sandbox)
        pod.sandboxes.clear()
        for container in pod.containers:
            container.history.clear()
        if self._kubelet is not None:
            self._kubelet.forget(pod)
        for held in (self.pods, self._orphans):
            if pod in held:
                held.remove(pod)
        self._trace.changed()

    # -- looking -----------------------------------------------------------------------------------------------

    @property
    def calls(self) -> list[Call]:
        """Everything that crossed the kubelet's sockets, in order."""
        return self._trace.calls

    async def until(self, condition: Callable[[], bool], *, within: float = PATIENCE) -> None:
        """Wait until a condition on the node holds; it is looked at whenever the kubelet did something.

        Raises:
            TimeoutError: after so many seconds of real time.
        """
        await self._trace.until(condition, within)

    async def wait_ready(self) -> None:
        """Wait until the kubelet has the pods of every source and has admitted or rejected each."""
        await self.until(lambda: self._kubelet is not None and self._kubelet.sources_ready)

    async def wait_registered(self, resource: str, *, within: float = PATIENCE) -> None:
        """Wait until the kubelet has a plugin and at least one healthy device of a resource."""
        await self.until(lambda: self.registered(resource), within=within)

    def registered(self, resource: str) -> bool:
        """Tell whether the kubelet has a plugin and at least one healthy device of a resource."""
        if self._kubelet is None:
            return False
        endpoint = self._kubelet.devices.endpoints.get(resource)
        alive = endpoint is not None and endpoint.stopped is None
        return alive and bool(self._kubelet.devices.healthy.get(resource))

    def resources(self) -> Mapping[str, Resources]:
        """Return what the node's status would show; this is when a plugin that is long gone is forgotten."""
        before = set(self.kubelet.devices.healthy)
        shown = self.kubelet.devices.resources(now=self._clock.monotonic())
        if before != set(shown):
            self.kubelet.write_checkpoint()
        return shown

    def streams(self, resource: str) -> int:
        """Return how many ListAndWatch streams of a resource are open."""
        return self.kubelet.plugins.streams(resource)

    def devices_of(self, pod: Pod) -> Mapping[str, Mapping[str, frozenset[str]]]:
        """Return what the kubelet has stored for a pod: ids by resource by container, init containers included."""
        found: dict[str, dict[str, frozenset[str]]] = {}
        for entry in self.kubelet.devices.entries.values():
            if entry.uid == pod.uid:
                found.setdefault(entry.container, {})[entry.resource] = entry.ids
        return found

    def _allows(self) -> bool:
        return not self.rate_limited or self._limiter.allows()
