"""One life of the embedded kubelet, from its start to its end."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2_grpc as device_plugin
from adapters._pb.kubelet.podresources.v1 import api_pb2_grpc as pod_resources
from adapters.memory.node import checkpoint
from adapters.memory.node.allocation import Allocation
from adapters.memory.node.devices import DeviceManager
from adapters.memory.node.errors import KubeletCrashed, Refused
from adapters.memory.node.front import Front, wipe_sockets
from adapters.memory.node.machine import SOCKET_NAME, Machine, Timing
from adapters.memory.node.pod_resources import PodResourcesServicer
from adapters.memory.node.pods import Pod, Source
from adapters.memory.node.registration import Plugins, RegistrationServicer
from adapters.memory.node.workers import Worker, kill
from domain.evidence import ObjectKind, ObjectState


class Kubelet:
    """The kubelet's process.  What is not on disk is gone with it.

    Args:
        machine: the node.
        timing: how long things take.
        pods: returns the pods that the sources would deliver now.
        ready: called when every source has delivered.
        withheld: sources that deliver nothing until :meth:`deliver` is called for them.
    """

    def __init__(
        self,
        machine: Machine,
        timing: Timing,
        *,
        pods: Callable[[], Iterable[Pod]],
        ready: Callable[[], None],
        withheld: Collection[Source] = (),
    ) -> None:
        self._machine = machine
        self._timing = timing
        self._pods = pods
        self._ready = ready
        self._withheld = frozenset(withheld)
        self._delivered: set[Source] = set()
        self._known: list[Pod] = []
        self._admission = asyncio.Lock()
        self._workers: dict[Pod, asyncio.Task[None]] = {}
        self._servers: list[aio.Server] = []
        self._front: Front | None = None
        self._bringing: asyncio.Task[None] | None = None
        self.dead = False
        self.dies_after_answer = False
        self.devices = DeviceManager(machine.chance)
        self.allocation = Allocation(self.devices, self, self._running())
        self.plugins = Plugins(
            machine.plugin_dir,
            devices=self.devices,
            clock=machine.clock,
            trace=machine.trace,
            dial_timeout=timing.dial_timeout,
            pre_start_deadline=timing.pre_start_deadline,
            on_list=self.write_checkpoint,
        )
        self.worker = Worker(
            runtime=machine.runtime,
            allocation=self.allocation,
            trace=machine.trace,
            missing_source=machine.missing_source,
            retry=timing.retry,
            pods_dir=machine.pods_dir,
        )

    def _running(self) -> frozenset[tuple[str, str]]:
        """The containers that run when the kubelet starts; none if the runtime does not answer, as after a reboot."""
        if not self._machine.runtime.reachable:
            return frozenset()
        return frozenset(
            (str(thing.uid), str(thing.container))
            for thing in self._machine.runtime.objects
            if thing.kind is ObjectKind.CONTAINER and thing.state is ObjectState.RUNNING
        )

    # -- life --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start in the kubelet's order.

        Pod-resources answers first, and knows nothing yet; then the checkpoint is read, the sockets in the plugins'
        directory are wiped, ``kubelet.sock`` is bound and listens; pods are admitted a moment later.
        """
        machine = self._machine
        machine.pod_resources_dir.mkdir(mode=0o750, parents=True, exist_ok=True)
        lister = PodResourcesServicer(pods=self, devices=self.devices, limiter=machine.limiter, trace=machine.trace)
        server = aio.server()
        pod_resources.add_PodResourcesListerServicer_to_server(lister, server)
        temporary = machine.pod_resources_dir / f"{machine.chance.randrange(10**9)}.sock"
        await self._serve(server, str(temporary))
        temporary.rename(machine.pod_resources_dir / SOCKET_NAME)
        if self._timing.pod_resources_lead:
            await asyncio.sleep(self._timing.pod_resources_lead)

        self.devices.restore(*checkpoint.read(machine.checkpoint_path), now=machine.clock.monotonic())
        machine.plugin_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
        wipe_sockets(machine.plugin_dir)
        registration = aio.server()
        servicer = RegistrationServicer(self.plugins, machine.trace)
        device_plugin.add_RegistrationServicer_to_server(servicer, registration)
        backend = str(machine.root / f".{machine.chance.randrange(10**9)}.sock")
        await self._serve(registration, backend)
        self._front = Front(machine.kubelet_socket, backend, listen_delay=self._timing.listen_delay)
        await self._front.open()
        self._bringing = asyncio.create_task(self._bring(), name="delivery of pods")

    async def _serve(self, server: aio.Server, path: str) -> None:
        server.add_insecure_port(f"unix:{path}")
        self._servers.append(server)
        await server.start()

    async def _bring(self) -> None:
        await asyncio.sleep(self._timing.readmit_after)
        for source in Source:
            if source not in self._withheld:
                await self.deliver(source)

    async def stop(self) -> None:
        """End the process, cleanly or not: the difference does not show outside.  Both socket files stay."""
        self.dead = True
        ours = [task for task in (self._bringing, *self._workers.values()) if task is not None]
        for task in ours:
            task.cancel()
        await asyncio.gather(*ours, return_exceptions=True)
        if self._front is not None:
            await self._front.close()
        for server in reversed(self._servers):
            await server.stop(None)
        await self.plugins.close()
        self._machine.trace.changed()

    # -- pods --------------------------------------------------------------------------------------------------

    async def deliver(self, source: Source) -> None:
        """Hand over a source's pods; only then does the source count as ready."""
        while pods := [p for p in self._pods() if p.source is source and p not in self._known]:
            await self.admit(pods[0])
            if self.dead:
                return
            if pods[0].started and pods[0].admitted:
                self.work(pods[0])
        self._delivered.add(source)
        if self.sources_ready:
            self._ready()
        self._machine.trace.changed()

    def awaits(self, source: Source) -> bool:
        """Tell whether a source is still to deliver its pods without being told to."""
        return not self.dead and source not in self._delivered and source not in self._withheld

    def has(self, source: Source) -> bool:
        """Tell whether a source has delivered its pods, so that a new one of it is admitted at once."""
        return source in self._delivered

    async def admit(self, pod: Pod) -> None:
        """Admit a pod or reject it for good; one at a time, and a plugin that takes long holds up everybody."""
        async with self._admission:
            if self.dead:
                return
            self._known.append(pod)
            if not pod.terminal:
                await self._allocate(pod)
        self._machine.trace.changed()

    async def _allocate(self, pod: Pod) -> None:
        try:
            for container in pod.in_order():
                await self.allocation.allocate(pod, container)
        except Refused as refusal:
            # A kubelet that died in the middle says nothing; the pod is admitted anew by the next one.
            if not self.dead:
                self._reject(pod, f"Pod was rejected: Allocate failed due to {refusal}, which is unexpected")
        except KubeletCrashed as crash:
            self._machine.crashed(crash)
            raise
        else:
            if pod.spec.oversized:
                self._reject(pod, "Pod was rejected: Node didn't have enough resource: cpu")
            else:
                pod.admitted = True

    def _reject(self, pod: Pod, message: str) -> None:
        pod.fail(message)
        kill(self._machine.runtime, pod)

    def work(self, pod: Pod) -> None:
        """Let the pod's worker start what the pod lacks."""
        task = self._workers.get(pod)
        if task is None or task.done():
            self._workers[pod] = asyncio.create_task(self._work(pod), name=f"worker of {pod.name}")

    async def worked(self, pod: Pod) -> None:
        """Wait until the pod's worker has started everything, or is stopped."""
        task = self._workers.get(pod)
        if task is not None:
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()

    async def _work(self, pod: Pod) -> None:
        try:
            await self.worker.sync(pod)
        except KubeletCrashed as crash:
            self._machine.crashed(crash)
            raise

    async def stop_work(self, pod: Pod) -> None:
        """Let the pod's worker start nothing any more."""
        task = self._workers.pop(pod, None)
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def forget(self, pod: Pod) -> None:
        """Take a pod out of the kubelet's own list: from now on nobody holds its devices, whatever still runs."""
        if pod in self._known:
            self._known.remove(pod)

    # -- what the parts need of the whole ----------------------------------------------------------------------

    @property
    def active(self) -> Iterable[Pod]:
        """The pods that were delivered and are neither rejected nor finished."""
        return [pod for pod in self._known if pod.active]

    def knows(self, pod: Pod) -> bool:
        """Tell whether a pod is active."""
        return pod in self._known and pod.active

    @property
    def sources_ready(self) -> bool:
        """Whether every source has delivered."""
        return self._delivered == set(Source)

    def purge(self) -> None:
        """Drop what dead pods hold from memory, not from the file; nothing happens before the sources are ready."""
        if self.sources_ready:
            self.devices.purge({pod.uid for pod in self.active})

    def answered(self) -> None:
        """Die, if that is wanted, between a plugin's answer and its record."""
        if self.dies_after_answer:
            self.dead = True
            raise Refused("the kubelet was killed")

    def write_checkpoint(self) -> None:
        """Write everything that is in memory to the file."""
        if self.dead:
            return
        devices = self.devices
        registered = {resource: devices.shuffled(names) for resource, names in devices.healthy.items()}
        text = checkpoint.encode(devices.entries.values(), registered)
        checkpoint.write(self._machine.checkpoint_path, text, self._machine.chance)
