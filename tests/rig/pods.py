"""Pods on a container runtime, made by the calls that a kubelet 1.36 makes."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from adapters._pb.cri.runtime.v1 import api_pb2 as cri
from adapters._pb.cri.runtime.v1 import api_pb2_grpc
from tests.rig import images
from tests.rig.leftovers import group_of

_PATIENCE: Final = 30.0
"""Seconds for one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodName:
    """A pod as the kubelet knows it."""

    uid: str
    namespace: str
    name: str

    @property
    def labels(self) -> dict[str, str]:
        """The labels that the kubelet puts on everything of the pod."""
        return {
            "io.kubernetes.pod.name": self.name,
            "io.kubernetes.pod.namespace": self.namespace,
            "io.kubernetes.pod.uid": self.uid,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """What a container is to be.

    Attributes:
        mounts: host paths by container path, as device plugins gave them.
        annotations: those of device plugins.
        read_only: which of the mounts' container paths are mounted read-only.
        user: who it runs as, with a group of the same number; ``None`` for the image's, which is root.
        groups: of the pod's security context, beside that.
        restarts: how often the container was started before.
    """

    name: str
    mounts: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    envs: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ("/bin/sleep", "2147483647")
    read_only: frozenset[str] = frozenset()
    user: int | None = None
    groups: tuple[int, ...] = ()
    restarts: int = 0


class Pods:
    """The kubelet's end of the CRI.

    Attributes:
        stub: everything else that the CRI can do.
    """

    def __init__(self, stub: api_pb2_grpc.RuntimeServiceStub, home: Path) -> None:
        self.stub = stub
        self._home = home
        self._configs: dict[str, tuple[PodName, cri.PodSandboxConfig]] = {}

    async def run_sandbox(
        self,
        pod: PodName,
        *,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        attempt: int = 0,
    ) -> str:
        """Run a pod's sandbox on the host's network, with the pod's own annotations and labels; return its id."""
        config = cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name=pod.name, uid=pod.uid, namespace=pod.namespace, attempt=attempt),
            log_directory=str(self._logs(pod)),
            labels={**(labels or {}), **pod.labels},
            annotations=annotations,
            linux=cri.LinuxPodSandboxConfig(
                cgroup_parent=f"/{group_of(self._home)}",
                security_context=cri.LinuxSandboxSecurityContext(
                    namespace_options=cri.NamespaceOption(network=cri.NODE, pid=cri.CONTAINER)
                ),
            ),
        )
        answer = await self.stub.RunPodSandbox(cri.RunPodSandboxRequest(config=config), timeout=_PATIENCE)
        self._configs[answer.pod_sandbox_id] = (pod, config)
        return answer.pod_sandbox_id

    async def create(self, sandbox: str, plan: ContainerPlan) -> str:
        """Create a container in a sandbox that was made here, without starting it; return its id."""
        pod, sandbox_config = self._configs[sandbox]
        (self._logs(pod) / plan.name).mkdir(parents=True, exist_ok=True)
        config = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name=plan.name, attempt=plan.restarts),
            image=cri.ImageSpec(image=images.BUSYBOX),
            command=plan.command,
            envs=[cri.KeyValue(key=key, value=value.encode()) for key, value in plan.envs.items()],
            mounts=[
                *(
                    cri.Mount(container_path=inside, host_path=outside, readonly=inside in plan.read_only)
                    for inside, outside in plan.mounts.items()
                ),
                *self._kubelets_mounts(pod, plan.name),
            ],
            labels={**pod.labels, "io.kubernetes.container.name": plan.name},
            annotations={**plan.annotations, **_kubelets_annotations(plan)},
            log_path=f"{plan.name}/{plan.restarts}.log",
            linux=None if plan.user is None and not plan.groups else _security(plan),
        )
        request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config, sandbox_config=sandbox_config)
        answer = await self.stub.CreateContainer(request, timeout=_PATIENCE)
        return answer.container_id

    async def start(self, container: str) -> None:
        """Start a container."""
        await self.stub.StartContainer(cri.StartContainerRequest(container_id=container), timeout=_PATIENCE)

    async def execute(self, container: str, *command: str) -> str:
        """Run a command in a running container; return what it printed."""
        answer = await self.stub.ExecSync(cri.ExecSyncRequest(container_id=container, cmd=command), timeout=_PATIENCE)
        if answer.exit_code != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {answer.exit_code}: {answer.stderr!r}")
        return answer.stdout.decode()

    async def end(self, container: str) -> None:
        """End a started container at once; it still exists."""
        await self.stub.StopContainer(cri.StopContainerRequest(container_id=container), timeout=_PATIENCE)

    async def remove(self, container: str) -> None:
        """Remove a container."""
        await self.stub.RemoveContainer(cri.RemoveContainerRequest(container_id=container), timeout=_PATIENCE)

    async def end_sandbox(self, sandbox: str) -> None:
        """End a sandbox with its containers; they still exist."""
        await self.stub.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox), timeout=_PATIENCE)

    async def remove_sandbox(self, sandbox: str) -> None:
        """Remove a sandbox with its containers."""
        await self.stub.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox), timeout=_PATIENCE)
        self._configs.pop(sandbox, None)

    async def remove_all(self) -> None:
        """Remove every pod that the runtime has, whoever made it: it is a private one."""
        listed = await self.stub.ListPodSandbox(cri.ListPodSandboxRequest(), timeout=_PATIENCE)
        await asyncio.gather(*(self._clear(sandbox.id) for sandbox in listed.items))

    async def _clear(self, sandbox: str) -> None:
        await self.end_sandbox(sandbox)
        await self.remove_sandbox(sandbox)

    def _logs(self, pod: PodName) -> Path:
        return self._home / "logs" / f"{pod.namespace}_{pod.name}_{pod.uid}"

    def _kubelets_mounts(self, pod: PodName, container: str) -> list[cri.Mount]:
        """Return what the kubelet itself mounts in every container, after what device plugins gave."""
        directory = self._home / "pods" / pod.uid
        hosts, message = directory / "etc-hosts", directory / "containers" / container / "message"
        message.parent.mkdir(parents=True, exist_ok=True)
        for file in (hosts, message):
            file.touch()
        return [
            cri.Mount(container_path="/etc/hosts", host_path=str(hosts)),
            cri.Mount(container_path="/dev/termination-log", host_path=str(message)),
        ]


def _security(plan: ContainerPlan) -> cri.LinuxContainerConfig:
    security = cri.LinuxContainerSecurityContext(supplemental_groups=plan.groups)
    if plan.user is not None:
        security.run_as_user.value = security.run_as_group.value = plan.user
    return cri.LinuxContainerConfig(security_context=security)


def _kubelets_annotations(plan: ContainerPlan) -> dict[str, str]:
    return {
        "io.kubernetes.container.hash": "1fb36bbe",
        "io.kubernetes.container.restartCount": str(plan.restarts),
        "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.pod.terminationGracePeriod": "1",
    }


@asynccontextmanager
async def pods_of(socket: str, home: Path) -> AsyncIterator[Pods]:
    """Speak to the runtime behind a socket; what pods need on the node is put below ``home``.

    Afterwards the runtime has no pods any more, whoever made them.
    """
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 100))
    async with grpc.aio.insecure_channel(f"unix://{socket}", options=options) as channel:
        pods = Pods(api_pb2_grpc.RuntimeServiceStub(channel), home)
        try:
            yield pods
        finally:
            await pods.remove_all()
