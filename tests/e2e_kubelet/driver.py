"""What the scenes need of a kubelet, and nothing of how it is had."""

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from adapters._pb.cri.runtime.v1 import api_pb2 as cri
from adapters.memory.node import PodSpec
from tests.rig.pods import Pods

NODE: Final = "node1"
"""The node's name, which static pods have as suffix."""

_PATIENCE: Final = 30.0
"""Seconds for one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A container as the runtime has it.

    Attributes:
        id: the runtime's.
        attempt: how often the container was started before.
        state: a ``ContainerState`` of the CRI.
        env: its environment, secrets included, so it is not shown.
        mounts: host path by container path.
    """

    id: str
    attempt: int
    state: int
    env: Mapping[str, str] = field(repr=False)
    mounts: Mapping[str, str]

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self.state == cri.CONTAINER_RUNNING

    @property
    def given(self) -> tuple[str, str, str]:
        """What the plugin gave it: the socket's path inside, the directory's outside, and the secret."""
        socket = self.env["MEMIF_SOCKET"]
        return socket, self.mounts[socket.rpartition("/")[0]], self.env["MEMIF_SECRET"]


class KubeletDriver(Protocol):
    """A kubelet on a containerd, in standalone mode: its pods are static, so that taking one away is a forced deletion.

    Attributes:
        about: what it is, for the report.
        plugin_dir: where plugins register.
        pod_resources: its pod-resources socket.
        runtime: its container runtime's socket.
    """

    about: str
    plugin_dir: Path
    pod_resources: Path
    runtime: str

    async def start(self) -> None:
        """Start the kubelet, and wait until plugins can register."""

    async def stop(self) -> None:
        """End the kubelet; containers run on."""

    async def place(self, spec: PodSpec) -> None:
        """Give it a pod, and wait until every container of it runs, or has run."""

    async def take_away(self, spec: PodSpec) -> None:
        """Take a pod's manifest away, and wait until the kubelet has forgotten it; its containers may still run."""

    async def buried(self, spec: PodSpec) -> None:
        """Wait until nothing of a pod that was taken away exists in the runtime."""

    async def end(self, spec: PodSpec, container: str) -> None:
        """Let a container end, and wait until the kubelet has started another in its place."""

    async def power_cycle(self, specs: Collection[PodSpec], meanwhile: Callable[[], Awaitable[None]]) -> None:
        """End kubelet and containers, let something happen, start the kubelet, and wait until the pods run again."""


def shown_name(spec: PodSpec) -> str:
    """Return the name by which a static pod is known everywhere."""
    return f"{spec.name}-{NODE}"


async def containers(pods: Pods, spec: PodSpec) -> Mapping[str, Seen]:
    """Return the newest container of each name that a pod has in the runtime."""
    selector = {"io.kubernetes.pod.name": shown_name(spec), "io.kubernetes.pod.namespace": spec.namespace}
    request = cri.ListContainersRequest(filter=cri.ContainerFilter(label_selector=selector))
    listed = await pods.stub.ListContainers(request, timeout=_PATIENCE)
    newest = {each.metadata.name: each for each in sorted(listed.containers, key=lambda each: each.created_at)}
    return {name: await _seen(pods, each) for name, each in newest.items()}


async def sandboxes(pods: Pods, spec: PodSpec) -> tuple[str, ...]:
    """Return the ids of the sandboxes that a pod has in the runtime."""
    selector = {"io.kubernetes.pod.name": shown_name(spec), "io.kubernetes.pod.namespace": spec.namespace}
    request = cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(label_selector=selector))
    listed = await pods.stub.ListPodSandbox(request, timeout=_PATIENCE)
    return tuple(each.id for each in listed.items)


async def _seen(pods: Pods, container: cri.Container) -> Seen:
    request = cri.ContainerStatusRequest(container_id=container.id, verbose=True)
    answer = await pods.stub.ContainerStatus(request, timeout=_PATIENCE)
    config = json.loads(answer.info["info"])["config"]
    return Seen(
        id=container.id,
        attempt=container.metadata.attempt,
        state=container.state,
        env={each["key"]: each.get("value", "") for each in config.get("envs", ())},
        mounts={each.container_path: each.host_path for each in answer.status.mounts},
    )
