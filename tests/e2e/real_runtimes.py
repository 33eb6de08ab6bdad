"""The embedded kubelet's pods on a real container runtime, which is the one that the daemon sees."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from adapters.control.client import ControlClient
from adapters.memory.node import ContainerKind, Pod
from adapters.memory.node.pods import Container
from domain.allocation import Allocation
from tests.e2e.daemon import PATIENCE, Daemon, Stand
from tests.rig.containerd import PrivateContainerd
from tests.rig.dockerd import PrivateDockerd
from tests.rig.pods import ContainerPlan, PodName, Pods

SEEN: Final = ".seen"
"""What a container appends to its socket's name to say that it is there; it writes its secret into that file."""

_SAYS: Final = f'echo "$MEMIF_SECRET" > "$MEMIF_SOCKET{SEEN}"'


class RealRuntime(ABC):
    """A private runtime of a kind that the daemon can be configured for.

    Attributes:
        settings: of the daemon.
    """

    def __init__(self, kind: str, socket: str) -> None:
        self.settings = {"kind": kind, "endpoint": f"unix://{socket}"}
        self._sandboxes: dict[str, str] = {}

    async def run(self, pod: Pod, planned: Callable[[Container], ContainerPlan] | None = None) -> dict[str, str]:
        """Run a pod's sandbox and containers with exactly what the kubelet was given for them.

        Args:
            pod: admitted and started by the kubelet.
            planned: adds what a container runs; by default it says that it is there, and waits.

        Returns:
            The containers' ids by name.
        """
        sandbox = self._sandboxes[pod.uid] = await self._run_sandbox(pod)
        return {each.name: await self._start(sandbox, (planned or _planned)(each)) for each in pod.in_order()}

    @abstractmethod
    async def execute(self, container: str, *command: str) -> str:
        """Run a command in a container that runs; return what it printed."""

    @abstractmethod
    async def forge(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Let a tenant write annotations wherever tenants can; return what shows them, and why that means nothing."""

    @abstractmethod
    async def remove(self, pod: Pod) -> None:
        """Remove everything of a pod, as after its end."""

    @abstractmethod
    async def stop(self) -> None:
        """End the runtime's daemon, while containers run on."""

    @abstractmethod
    async def hang(self) -> None:
        """Let it answer nobody."""

    @abstractmethod
    async def restore(self) -> None:
        """Let it answer again."""

    @abstractmethod
    async def _run_sandbox(self, pod: Pod) -> str: ...

    @abstractmethod
    async def _start(self, sandbox: str, plan: ContainerPlan) -> str: ...


class RealContainerd(RealRuntime):
    """A private containerd, seen by its own API or by the CRI."""

    def __init__(self, kind: str, rig: PrivateContainerd, pods: Pods) -> None:
        super().__init__(kind, rig.socket)
        self._rig = rig
        self._pods = pods

    async def forge(self, annotations: Mapping[str, str]) -> dict[str, str]:
        pod = PodName(uid="forger", namespace="telco", name="forger")
        return {await self._pods.run_sandbox(pod, annotations=annotations): "sandbox"}

    async def remove(self, pod: Pod) -> None:
        sandbox = self._sandboxes.pop(pod.uid)
        await self._pods.end_sandbox(sandbox)
        await self._pods.remove_sandbox(sandbox)

    async def stop(self) -> None:
        await asyncio.to_thread(self._rig.stop)

    async def hang(self) -> None:
        await asyncio.to_thread(self._rig.freeze)

    async def restore(self) -> None:
        await asyncio.to_thread(self._rig.thaw)
        await asyncio.to_thread(self._rig.start)

    async def _run_sandbox(self, pod: Pod) -> str:
        return await self._pods.run_sandbox(PodName(uid=pod.uid, namespace=pod.namespace, name=pod.name))

    async def execute(self, container: str, *command: str) -> str:
        return await self._pods.execute(container, *command)

    async def _start(self, sandbox: str, plan: ContainerPlan) -> str:
        made = await self._pods.create(sandbox, plan)
        await self._pods.start(made)
        return made


class RealDocker(RealRuntime):
    """A private dockerd with containers as cri-dockerd makes them."""

    def __init__(self, rig: PrivateDockerd) -> None:
        super().__init__("docker", rig.socket)
        self._rig = rig
        self._containers: dict[str, list[str]] = {}

    async def forge(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Labels of an image end up on its containers."""
        labels = {f"annotation.{key}": text for key, text in annotations.items()}
        image = await asyncio.to_thread(self._rig.build, "localhost/forged:1", labels)
        sandbox = await asyncio.to_thread(self._rig.run_sandbox, "forger", "telco", "forger", annotations)
        container = await asyncio.to_thread(partial(self._rig.create_container, sandbox, "app", image=image))
        return {sandbox: "sandbox", container: "not_mounted"}

    async def remove(self, pod: Pod) -> None:
        sandbox = self._sandboxes.pop(pod.uid)
        for each in (*self._containers.pop(sandbox, ()), sandbox):
            await asyncio.to_thread(self._rig.remove_container, each)

    async def stop(self) -> None:
        await asyncio.to_thread(self._rig.stop)

    async def hang(self) -> None:
        await asyncio.to_thread(self._rig.freeze)

    async def restore(self) -> None:
        await asyncio.to_thread(self._rig.thaw)
        await asyncio.to_thread(self._rig.start)

    async def _run_sandbox(self, pod: Pod) -> str:
        return await asyncio.to_thread(self._rig.run_sandbox, pod.uid, pod.namespace, pod.name)

    async def execute(self, container: str, *command: str) -> str:
        return await asyncio.to_thread(self._rig.execute, container, *command)

    async def _start(self, sandbox: str, plan: ContainerPlan) -> str:
        made = await asyncio.to_thread(self._rig.create_planned, sandbox, plan)
        self._containers.setdefault(sandbox, []).append(made)
        await asyncio.to_thread(self._rig.start_container, made)
        return made


def _planned(container: Container) -> ContainerPlan:
    """Return a container that says that it is there, and then waits if it is one that stays."""
    stays = container.kind is not ContainerKind.INIT
    return ContainerPlan(
        name=container.name,
        mounts=container.mounts,
        annotations={key: text for key, text in container.annotations.items() if not key.startswith("io.kubernetes.")},
        envs=container.env,
        command=("/bin/sh", "-c", f"{_SAYS}; exec sleep 2147483647" if stays else _SAYS),
        read_only=container.read_only,
    )


def was_heard(container: Container) -> bool:
    """Tell whether a container said that it is there, through the directory that it was given, with its secret."""
    said = _said(container)
    return said.exists() and said.read_text() == f"{container.env['MEMIF_SECRET']}\n"


def unhear(container: Container) -> None:
    """Forget what a container said, so that it can be heard again."""
    _said(container).unlink()


def _said(container: Container) -> Path:
    (directory,) = container.mounts.values()
    return Path(directory) / f"memif.sock{SEEN}"


def given(one: Pod) -> dict[str, tuple[str, str]]:
    """Return where each container's socket is on the node, and its secret."""
    return {each.name: (f"{each.mounts['/run/vpp']}/memif.sock", each.env["MEMIF_SECRET"]) for each in one.containers}


def kept(allocations: list[Allocation]) -> dict[str | None, tuple[str, str]]:
    """Return the same of what is in a journal."""
    return {each.owner.container: (each.host_socket, each.secret.reveal()) for each in allocations}


async def recorded(stand: Stand, daemon: Daemon) -> list[Allocation]:
    """Stop a daemon and return what its journal holds."""
    assert await daemon.stop() == 0
    return [allocation for allocation, _ in stand.journal().allocations]


async def empty(stand: Stand) -> None:
    """Wait until the daemon knows of no allocation any more."""
    client = ControlClient(str(stand.root / "control.sock"))
    async with asyncio.timeout(PATIENCE):
        while await client.allocations():
            await client.reconcile(dry_run=False)
