"""Containers by the hundred on a private runtime: a pod has a sandbox and some containers that hold memif."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

from tests.rig.dockerd import PrivateDockerd
from tests.rig.pods import ContainerPlan, PodName, Pods
from tests.unit.domain_values import an_id

PREFIX: Final = "io.contivpp.memif"
CONTAINERS: Final = 24
"""Of one pod: sandboxes are real processes, which take their time to start."""

Create: TypeAlias = Callable[[str, ContainerPlan], Awaitable[str]]
"""Makes a container in a sandbox and returns its id."""


class Crowd:
    """Pods that grow in number.

    Attributes:
        size: sandboxes and containers together.
        containers: ids of the containers that hold memif.
    """

    def __init__(self, base: Path, *, sandbox: Callable[[PodName], Awaitable[str]], create: Create) -> None:
        self._base = base
        self._make_sandbox = sandbox
        self._create = create
        self._sandbox = ""
        self.size = 0
        self.containers: list[str] = []

    async def grow(self, size: int) -> None:
        """Make pods until there are so many sandboxes and containers."""
        while self.size < size:
            if self.size % (CONTAINERS + 1) == 0:
                self._sandbox = await self._make_sandbox(_name(self.size))
            else:
                number = len(self.containers)
                self.containers.append(await self._create(self._sandbox, self._plan(number)))
            self.size += 1

    def _plan(self, number: int) -> ContainerPlan:
        """Return a container as our answer makes it."""
        directory = self._base / an_id(number)
        directory.mkdir(parents=True, exist_ok=True)
        return ContainerPlan(
            name=f"c{number}",
            mounts={"/run/vpp": str(directory)},
            annotations={
                f"{PREFIX}.socket.host": f"{directory}/memif.sock",
                f"{PREFIX}.socket.container": "/run/vpp/memif.sock",
                f"{PREFIX}.secret": "HushHushHushHushHush",
            },
            envs={"MEMIF_SOCKET": "/run/vpp/memif.sock", "MEMIF_SECRET": "HushHushHushHushHush"},
        )


def _name(number: int) -> PodName:
    return PodName(uid=f"00000000-0000-4000-8000-{number:012d}", namespace="telco", name=f"cnf-{number}")


def on_containerd(pods: Pods, base: Path) -> Crowd:
    """Return a crowd of containerd's; ``base`` is where the directories lie that it mounts."""
    return Crowd(base, sandbox=pods.run_sandbox, create=pods.create)


def on_docker(rig: PrivateDockerd, base: Path) -> Crowd:
    """Return a crowd of Docker's, likewise."""

    async def sandbox(pod: PodName) -> str:
        return rig.run_sandbox(pod.uid, pod.namespace, pod.name)

    async def create(within: str, plan: ContainerPlan) -> str:
        return rig.create_container(within, plan.name, mounts=plan.mounts, annotations=plan.annotations)

    return Crowd(base, sandbox=sandbox, create=create)
