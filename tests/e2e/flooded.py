"""A daemon under a flood, and what an honest kubelet and an operator make of it meanwhile."""

import asyncio
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2_grpc
from tests.e2e.daemon import CAPACITY, CHECKOUT, Daemon, Stand, asking, dev, plugin
from tests.integration.web import LOCALHOST, free_port, get

DESCRIPTORS: Final = 1024
"""What the daemon may open at most: the usual limit of a process."""

LIMITED: Final = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")


@dataclass(slots=True, kw_only=True)
class Seen:
    """What was measured.

    Attributes:
        allocates: seconds of each Allocate.
        resident: MiB, as often as it was looked at.
        descriptors: open ones, as often.
    """

    allocates: list[float] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)


def resident(daemon: Daemon) -> float:
    """Return a daemon's resident memory in MiB."""
    status = Path(f"/proc/{daemon.process.pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def descriptors(daemon: Daemon) -> int:
    """Return how many descriptors a daemon has open."""
    return len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir()))


async def limited(stand: Stand) -> Daemon:
    """Start a daemon with the usual limit of descriptors and with every socket that it can have."""
    stand.configuration["http"] = {"listen": f"{LOCALHOST}:{free_port()}"}
    stand.configuration["control"]["agent_socket"] = str(stand.root / "agent.sock")
    daemon = await stand.run("--log-level", "warning", through=LIMITED)
    await stand.node.wait_registered(stand.pool["resource"], within=30)
    return daemon


@asynccontextmanager
async def flooding(stand: Stand) -> AsyncIterator[None]:
    """Flood every socket of the daemon for the length of a block."""
    addresses = [
        str(stand.root / "control.sock"),
        str(stand.root / "agent.sock"),
        str(stand.node.plugin_dir / next(iter(stand.sockets))),
        stand.configuration["http"]["listen"],
    ]
    process = await asyncio.create_subprocess_exec(
        *("prlimit", "--nofile=20000", sys.executable, "-m", "tests.e2e.flood", *addresses), cwd=CHECKOUT, stdout=PIPE
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"flooding\n"
        yield
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def kubelet(stand: Stand) -> AsyncIterator[api_pb2_grpc.DevicePluginStub]:
    """A connection such as the kubelet has since the registration: it is there before any flood."""
    async with plugin(stand.node.plugin_dir / next(iter(stand.sockets))) as client:
        await client.Allocate(asking([dev(0)]))
        yield client


async def used(client: api_pb2_grpc.DevicePluginStub, daemon: Daemon, seconds: float, *, pause: float = 0.02) -> Seen:
    """Allocate for so many seconds, and look at the daemon meanwhile."""
    seen = Seen()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.perf_counter()
        await client.Allocate(asking([dev(len(seen.allocates) % CAPACITY)]), timeout=10)
        seen.allocates.append(time.perf_counter() - begun)
        if len(seen.allocates) % 20 == 1:
            seen.resident.append(resident(daemon))
            seen.descriptors.append(descriptors(daemon))
        await asyncio.sleep(pause)
    return seen


async def health(stand: Stand) -> int:
    """Return the status of the liveness page, as a probe gets it that tries three times."""
    port = int(stand.configuration["http"]["listen"].rpartition(":")[2])
    for _ in range(3):
        try:
            return (await get(port, "/healthz"))[0]
        except (OSError, TimeoutError):
            continue
    return 0
