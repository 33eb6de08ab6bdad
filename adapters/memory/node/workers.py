"""How the kubelet starts containers, in the memory runtime."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from adapters.memory.node.allocation import Allocation
from adapters.memory.node.errors import Refused
from adapters.memory.node.merge import RunOptions
from adapters.memory.node.pods import Container, ContainerKind, Phase, Pod
from adapters.memory.node.trace import Trace
from adapters.memory.runtime import MemoryRuntime
from domain.evidence import ObjectState

CONFIG_ERROR: Final = "CreateContainerConfigError"
CREATE_ERROR: Final = "CreateContainerError"


def make_source(path: str) -> None:
    """Make a mount's missing source as runtimes do: a directory that is root's, 0755."""
    if not os.path.lexists(path):
        Path(path).mkdir(mode=0o755, parents=True)
        Path(path).chmod(0o755)  # whatever this process's umask is


class Worker:
    """Starts what a pod still lacks: a sandbox, then its containers one after the other."""

    def __init__(
        self,
        *,
        runtime: MemoryRuntime,
        allocation: Allocation,
        trace: Trace,
        missing_source: Callable[[str], None],
        retry: float,
        pods_dir: Path,
    ) -> None:
        self._runtime = runtime
        self._allocation = allocation
        self._trace = trace
        self._missing_source = missing_source
        self._retry = retry
        self._pods_dir = pods_dir

    async def sync(self, pod: Pod) -> None:
        """Start everything that does not run, and try again for ever what cannot be started."""
        if not pod.sandbox_ready:
            self._add_sandbox(pod)
        for container in pod.in_order():
            if not container.done:
                await self._start(pod, container)
        self._collect(pod)
        pod.phase = Phase.RUNNING
        self._trace.changed()

    def _add_sandbox(self, pod: Pod) -> None:
        pod.sandboxes.append(self._runtime.add_sandbox(uid=pod.uid, namespace=pod.namespace, name=pod.name))
        pod.sandbox_ready = True

    async def _start(self, pod: Pod, container: Container) -> None:
        options = await self._prepared(pod, container)
        container.restarts += bool(container.history)
        container.env = dict(options.env)
        container.mounts = dict(options.mounts)
        container.read_only = options.read_only
        # The kubelet's own annotations override a plugin's of the same key.
        container.annotations = {
            **options.annotations,
            "io.kubernetes.container.restartCount": str(container.restarts),
            "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
        }
        own = self._pods_dir / pod.uid
        container.id = self._runtime.add_container(
            sandbox=pod.sandboxes[-1],
            container=container.name,
            # A pod's own mounts come after the plugins' and win on the same path.
            mounts={
                **options.mounts,
                "/etc/hosts": str(own / "etc-hosts"),
                "/dev/termination-log": str(own / "containers" / container.name / str(container.restarts)),
            },
            annotations=container.annotations,
        )
        container.history.append(container.id)
        self._set(container, ObjectState.CREATED)
        self._set(container, ObjectState.RUNNING)
        if container.kind is ContainerKind.INIT:
            self._set(container, ObjectState.EXITED)

    async def _prepared(self, pod: Pod, container: Container) -> RunOptions:
        while True:
            try:
                options = await self._allocation.prepare(pod, container)
            except Refused as refusal:
                container.waiting = f"{CONFIG_ERROR}: {refusal}"
            else:
                try:
                    for path in options.mounts.values():
                        self._missing_source(path)
                except OSError as error:
                    container.waiting = f"{CREATE_ERROR}: {error}"
                else:
                    container.waiting = None
                    return options
            self._trace.changed()
            await asyncio.sleep(self._retry)

    def _set(self, container: Container, state: ObjectState) -> None:
        if container.id is not None:
            container.state = state
            self._runtime.set_state(container.id, state)
            self._trace.changed()

    def _collect(self, pod: Pod) -> None:
        """Remove what is not needed any more: all sandboxes but the newest, all but the last two of a container."""
        for sandbox in pod.sandboxes[:-1]:
            self._runtime.remove(sandbox)
        del pod.sandboxes[:-1]
        for container in pod.containers:
            for name in container.history[:-2]:
                self._runtime.remove(name)
            del container.history[:-2]


def kill(runtime: MemoryRuntime, pod: Pod) -> None:
    """Stop a pod's containers and sandbox; they stay in the runtime as exited ones."""
    pod.sandbox_ready = False
    for container in pod.containers:
        if container.running and container.id is not None:
            container.state = ObjectState.EXITED
            runtime.set_state(container.id, ObjectState.EXITED)
    for sandbox in pod.sandboxes:
        runtime.set_state(sandbox, ObjectState.EXITED)
