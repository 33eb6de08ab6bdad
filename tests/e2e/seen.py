"""A node whose containers a daemon that is a process can see: the embedded node's, shown over the CRI."""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final

from adapters._pb.cri.runtime.v1 import api_pb2 as cri
from adapters.control.client import ControlClient
from adapters.memory.clock import ManualClock
from adapters.memory.runtime import MemoryRuntime
from domain.evidence import ObjectKind, ObjectState, RuntimeObject
from tests.e2e.daemon import CHECKOUT, PATIENCE, Stand, a_stand, soon
from tests.integration.nodes import QUICK
from tests.unit.cri_server import CriServer, a_cri_server

GRACE: Final = 0.3
"""Seconds; short, so that whatever takes time takes longer than it."""

_STATES: Final = {
    ObjectState.CREATED: cri.CONTAINER_CREATED,
    ObjectState.RUNNING: cri.CONTAINER_RUNNING,
    ObjectState.EXITED: cri.CONTAINER_EXITED,
}


class Seen:
    """A stand, and the runtime that its daemons ask.

    Attributes:
        stand: the node; its kubelet goes by ``clock``.
        runtime: can be stopped and started, while the node's containers go on.
        clock: stands still until it is moved.
    """

    def __init__(self, stand: Stand, runtime: CriServer, clock: ManualClock) -> None:
        self.stand = stand
        self.runtime = runtime
        self.clock = clock

    @property
    def client(self) -> ControlClient:
        """Asks the daemon that is active."""
        return ControlClient(str(self.stand.root / "control.sock"), deadline=PATIENCE)

    async def settled(self) -> None:
        """Have everything done that is due: the grace of all that there is ends, and the rules run again and again.

        The grace is real time of another process, so there is nothing but that to wait for.
        """
        for _ in range(2):
            await asyncio.sleep(GRACE)
            await self.client.reconcile(dry_run=False)

    async def gone(self, names: Collection[str]) -> None:
        """Wait until directories are gone."""
        await soon(lambda: not self.stand.directories & set(names))

    async def released_by_command(self, name: str) -> tuple[int, str]:
        """Report a pod as gone, as a CNI plugin does; return the command's exit code and what it complains of."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app", "release", f"telco/{name}"),
            *("--control-socket", str(self.stand.root / "control.sock")),
            cwd=CHECKOUT,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        _, complaint = await process.communicate()
        return process.returncode or 0, complaint.decode()


@asynccontextmanager
async def a_seen_stand() -> AsyncIterator[Seen]:
    """A stand with a kubelet, whose containers are shown."""
    clock = ManualClock()
    async with a_cri_server() as runtime, a_stand(clock=clock, timing=QUICK) as stand:
        _show(stand.runtime, runtime)
        stand.configuration["runtime"] = {"kind": "cri", "endpoint": f"unix://{runtime.path}"}
        stand.configuration["reconcile"] = {"interval": "1s", "grace": f"{GRACE * 1000:.0f}ms"}
        yield Seen(stand, runtime, clock)


def _show(real: MemoryRuntime, shown: CriServer) -> None:
    """Have a server show what is there whenever it is asked."""

    def look(_: str) -> None:
        containers = [each for each in real.objects if each.kind is ObjectKind.CONTAINER]
        shown.sandboxes = [_sandbox(each) for each in real.objects if each.kind is ObjectKind.SANDBOX]
        shown.containers = [_container(each) for each in containers]
        shown.mounts = {
            each.id: [cri.Mount(container_path=inside, host_path=path) for inside, path in each.mounts.items()]
            for each in containers
        }

    shown.hooks.append(look)


def _sandbox(each: RuntimeObject) -> cri.PodSandbox:
    state = cri.SANDBOX_READY if each.state is ObjectState.RUNNING else cri.SANDBOX_NOTREADY
    return cri.PodSandbox(id=each.id, state=state, labels=_labels(each), annotations=each.claimed)


def _container(each: RuntimeObject) -> cri.Container:
    return cri.Container(
        id=each.id,
        state=_STATES[each.state],
        labels={**_labels(each), "io.kubernetes.container.name": str(each.container)},
        annotations=each.claimed,
    )


def _labels(each: RuntimeObject) -> dict[str, str]:
    return {
        "io.kubernetes.pod.uid": str(each.uid),
        "io.kubernetes.pod.namespace": str(each.namespace),
        "io.kubernetes.pod.name": str(each.name),
    }
