"""A node with a real container runtime, whose pods and whose dataplane speak memif by DPDK.

Kubelet and dataplane are on the node, the daemon is a process of its own.  What a container is given by the kubelet is
given to a real one, and nothing else but the programs that it runs and a place for their files.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from adapters.control.client import ControlClient
from adapters.control.shapes import Shape
from adapters.memory.node import Container, ContainerSpec, Pod, PodSpec
from tests.documents import named
from tests.e2e.daemon import Stand, soon
from tests.e2e.real_runtimes import RealRuntime
from tests.integration import testpmd
from tests.integration.testpmd import VERBOSE, Pmd
from tests.rig.pods import ContainerPlan

USING_MEMIF: Final = Path("docs/using-memif.md")
"""The page whose commands are run here."""

_PROGRAMS: Final = ("/usr", "/lib", "/lib64", "/etc")
"""The node's own, which containers see read-only."""

_SCRATCH: Final = ("/tmp", "/var/run")
"""Where a container may write."""


def block(name: str) -> str:
    """Return what our users are told on the page about memif, by the name in the comment above it."""
    return "".join(f"{line}\n" for line in named(USING_MEMIF, name).lines)


def cnf() -> tuple[PodSpec, int]:
    """Return the pod that our users are shown, of one container with two interfaces, and its group."""
    written = yaml.safe_load(block("pod"))
    containers = tuple(
        ContainerSpec(name=each["name"], limits=each["resources"]["limits"]) for each in written["spec"]["containers"]
    )
    (group,) = written["spec"]["securityContext"]["supplementalGroups"]
    return PodSpec(**written["metadata"], containers=containers), group


def verbose(commands: str) -> str:
    """Return commands in whose place testpmd runs in the end, and tells what its driver does."""
    return commands.replace("dpdk-testpmd ", f"exec stdbuf --output=L dpdk-testpmd {VERBOSE} ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What a container runs, and as whom.

    Attributes:
        commands: for a shell; what it prints is kept, and what is written to its standard input by the test arrives.
        user: ``None`` for root.
        groups: that it is in beside its own.
    """

    commands: str
    user: int | None = None
    groups: tuple[int, ...] = ()


class Node:
    """The node, with everything that pods on it need."""

    def __init__(self, stand: Stand, runtime: RealRuntime) -> None:
        self.stand = stand
        self._runtime = runtime
        self._containers: dict[str, str] = {}
        stand.configuration["runtime"] = runtime.settings
        self.control_socket = str(stand.root / "control.sock")
        self.daemon = ControlClient(self.control_socket, deadline=20.0)

    async def given(self, pod: Pod) -> Mapping[str, Shape]:
        """Ask the daemon, as a dataplane agent does, what the containers of a pod were given."""
        answer = await self.daemon.pod(pod.namespace, pod.name, None, wait=20, secrets=True)
        return {each["name"]: each for each in answer["containers"]}

    async def run(self, pod: Pod, clients: Mapping[str, Client]) -> None:
        """Let the kubelet start an admitted pod, and the runtime its containers, with exactly what they are given."""
        await self.stand.node.run(pod)
        assert pod.running, pod.message
        self._containers |= await self._runtime.run(pod, lambda each: self._plan(each, clients[each.name]))

    async def execute(self, container: str, *command: str) -> str:
        """Run a command in a container and return what it printed."""
        return await self._runtime.execute(self._containers[container], "/bin/busybox", *command)

    async def says(self, container: str, text: str, times: int = 1) -> None:
        """Wait until a client has said something so many times."""
        log = self._scratch(container) / "log"
        try:
            await soon(lambda: log.exists() and log.read_text(errors="replace").count(text) >= times)
        except TimeoutError as error:
            raise AssertionError(f"{container} never said {text!r}: {log.read_text(errors='replace')}") from error

    def clients_said(self) -> str:
        """Return the last that each client said."""
        logs = sorted(self.stand.root.glob("scratch/*/log"))
        return "\n".join(f"{each.parent.name}: {each.read_text(errors='replace')[-4000:]}" for each in logs)

    def tell(self, container: str, commands: str) -> None:
        """Write to a client's standard input."""
        pipe = os.open(self._scratch(container) / "commands", os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(pipe, commands.encode())
        finally:
            os.close(pipe)

    async def rests(self, container: str, times: int = 1) -> None:
        """Let a client send no more, for the first time or a later one.

        DPDK 22.11 was seen to crash in its driver when the other end went while it was sending.
        """
        self.tell(container, "stop\n")
        await self.says(container, "Waiting for lcores to finish", times)

    async def delete(self, pod: Pod) -> None:
        """Delete a pod: its containers end and are removed, then the kubelet forgets it."""
        await self._runtime.remove(pod)
        await self.stand.node.delete(pod)

    def _plan(self, container: Container, client: Client) -> ContainerPlan:
        scratch = self._scratch(container.name)
        scratch.mkdir(parents=True)
        scratch.chmod(0o1777)
        os.mkfifo(scratch / "commands")
        (scratch / "commands").chmod(0o666)
        script = "exec 3<>/tmp/commands; export PATH=/usr/bin:/bin XDG_RUNTIME_DIR=/tmp\nexec >/tmp/log 2>&1 <&3\n"
        return ContainerPlan(
            name=container.name,
            mounts={
                **container.mounts,
                **{path: path for path in _PROGRAMS},
                **dict.fromkeys(_SCRATCH, str(scratch)),
            },
            read_only=container.read_only.union(_PROGRAMS),
            annotations=container.annotations,
            envs=container.env,
            command=("/bin/sh", "-c", script + client.commands),
            user=client.user,
            groups=client.groups,
        )

    def _scratch(self, container: str) -> Path:
        return self.stand.root / "scratch" / container


@asynccontextmanager
async def dataplane(given: Shape) -> AsyncIterator[Pmd]:
    """Run the node's dataplane, as our users are told to, for what a container was given."""
    async with serving(block("dpdk-node"), offered(given)) as pmd:
        yield pmd


def offered(given: Shape, other: Shape | None = None) -> Mapping[str, str]:
    """Return the variables by which the node's commands know what one container was given, or two were."""
    variables = {"HOST_SOCKET": given["host_socket"], "SECRET": given["secret"]}
    if other is not None:
        variables |= {"OTHER_SOCKET": other["host_socket"], "OTHER_SECRET": other["secret"]}
    return variables


@asynccontextmanager
async def serving(commands: str, environment: Mapping[str, str]) -> AsyncIterator[Pmd]:
    """Run commands for testpmd on the node, under a file prefix that is nobody else's, until its sockets are there."""
    prefix = f"memif-node-{os.getpid()}"
    command = ("/bin/sh", "-c", verbose(commands).replace("--file-prefix=node", f"--file-prefix={prefix}"))
    async with testpmd.running(command, prefix, environment=environment) as pmd:
        await pmd.until("Checking link statuses")  # its ports are started
        yield pmd
