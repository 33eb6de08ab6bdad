"""Commands as processes."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from adapters.memory.node import ContainerSpec, Pod, PodSpec
from tests.e2e.daemon import CHECKOUT, RESOURCE, Daemon, Stand, a_stand

CNF = PodSpec(namespace="telco", name="cnf", containers=(ContainerSpec(name="app", limits={RESOURCE: 2}),))
PLAIN = PodSpec(namespace="telco", name="plain", containers=(ContainerSpec(name="app", limits={}),))


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    error: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


async def command(
    *arguments: str, through: Sequence[str] = (), environment: dict[str, str] | None = None
) -> asyncio.subprocess.Process:
    """Begin a command."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MEMIF_DP_", "NO_COLOR"))}
    return await asyncio.create_subprocess_exec(
        *through,
        *(sys.executable, "-m", "app", *arguments),
        cwd=CHECKOUT,
        env={**clean, **(environment or {})},
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )


async def ran(*arguments: str, through: Sequence[str] = (), environment: dict[str, str] | None = None) -> Ran:
    """Run a command to its end."""
    process = await command(*arguments, through=through, environment=environment)
    out, error = await process.communicate()
    return Ran(process.returncode or 0, out.decode(), error.decode())


async def unreachable(*arguments: str, through: Sequence[str] = ()) -> str:
    """Have a command fail because the daemon cannot be asked, and return the one line that says why."""
    done = await ran(*arguments, "--json", through=through)

    assert done.code == 5
    assert done.json["error"]["reason"] == "UNREACHABLE"
    assert done.error == f"Error: {done.json['error']['message']}\n"
    return done.error


class Served:
    """A daemon on a stand, with a pod that holds memif and one that holds none."""

    def __init__(self, stand: Stand, daemon: Daemon, pod: Pod) -> None:
        self.stand = stand
        self.daemon = daemon
        self.pod = pod
        self.socket = str(stand.root / "control.sock")
        self.secret = pod.container("app").env["MEMIF_SECRET"]

    async def ask(self, *arguments: str) -> Ran:
        """Run a command against this daemon."""
        return await ran(*arguments, "--control-socket", self.socket)


@asynccontextmanager
async def a_served() -> AsyncIterator[Served]:
    """A daemon that serves, on a stand that is taken down afterwards."""
    async with a_stand() as stand:
        # The daemon's own runtime shows no pod, so nothing is released here.
        daemon = await stand.registered()
        pod = await stand.node.start(CNF)
        await stand.node.start(PLAIN)
        yield Served(stand, daemon, pod)
