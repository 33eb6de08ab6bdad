"""The daemon as a process, on a node whose kubelet runs in the test."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from adapters.journal.journal import SqliteJournal
from adapters.memory.node import EmbeddedNode, Source, Timing
from adapters.memory.runtime import MemoryRuntime
from adapters.system.clock import SystemClock
from domain.ports.clock import Clock
from domain.ports.journal import Recovered
from tests.e2e.silence import assert_silent
from tests.integration.filesystem import short_place

RESOURCE: Final = "contivpp.io/memif"
CAPACITY: Final = 8
PATIENCE: Final = 60.0
"""Seconds of real time after which waiting for something counts as failed."""

CHECKOUT: Final = Path(__file__).parents[2]

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true", reason="mounts file systems and changes owners: run as root"
)

ANYBODY: Final = (
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    # May read whatever the interpreter lies in, and write nothing.
    "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
)
"""What runs a program as somebody without rights."""


def dev(index: int) -> str:
    """Return a device's id."""
    return f"{RESOURCE}/{index}"


class Daemon:
    """One process of the daemon, and the lines that it logs as they come."""

    def __init__(self, process: Process, *, parsed: bool) -> None:
        self.process = process
        self.stdout: list[str] = []
        self.stderr: list[str] = []
        self.lines: list[dict[str, Any]] = []
        self._parsed = parsed
        self._came = asyncio.Event()
        self._readers = [
            asyncio.create_task(self._read(stream, kept))
            for stream, kept in ((process.stdout, self.stdout), (process.stderr, self.stderr))
        ]

    async def _read(self, stream: asyncio.StreamReader | None, kept: list[str]) -> None:
        assert stream is not None
        async for raw in stream:
            text = raw.decode().rstrip("\n")
            kept.append(text)
            if self._parsed and kept is self.stderr and text.startswith("{"):
                self.lines.append(json.loads(text))
            self._wake()
        self._wake()

    def _wake(self) -> None:
        self._came.set()
        self._came = asyncio.Event()

    def said(self, event: str, **facts: object) -> list[dict[str, Any]]:
        """Return the lines with that event and at least these facts."""
        return [
            line
            for line in self.lines
            if line["event"] == event and all(line.get(key) == fact for key, fact in facts.items())
        ]

    @property
    def events(self) -> list[str]:
        """The events of all lines, in order."""
        return [str(line["event"]) for line in self.lines]

    @property
    def warnings(self) -> list[dict[str, Any]]:
        """The lines that need attention."""
        return [line for line in self.lines if line["level"] not in {"debug", "info"}]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is true of what was logged.

        Raises:
            AssertionError: it does not become true, or the process ends first; shows what was logged.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    if all(reader.done() for reader in self._readers):
                        raise AssertionError("the daemon ended first:\n" + "\n".join(self.stderr))
                    await self._came.wait()
        except TimeoutError as error:
            raise AssertionError("this was never so:\n" + "\n".join(self.stderr)) from error

    async def says(self, event: str, times: int = 1, **facts: object) -> dict[str, Any]:
        """Wait until a line was logged so many times, and return the last one."""
        await self.until(lambda: len(self.said(event, **facts)) >= times)
        return self.said(event, **facts)[-1]

    async def registered(self, times: int = 1) -> Path:
        """Wait until the default pool is registered for so many times, and return its socket's base name."""
        return Path(str((await self.says("registered with the kubelet", times, resource=RESOURCE))["endpoint"]))

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.returncode is None

    async def ended(self) -> int:
        """Wait until the process has ended and everything that it wrote is read, and return its exit code."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self._readers)
            return await self.process.wait()

    async def stop(self) -> int:
        """Stop it as systemd does, and return its exit code."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def kill(self) -> None:
        """End it as a crash does; a process that has ended already is fine."""
        if self.running:
            self.process.kill()
        await self.ended()


async def begun(
    configuration: Mapping[str, Any],
    root: Path,
    *arguments: str,
    through: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    log_format: str = "json",
) -> Daemon:
    """Start a daemon whose configuration is put below a directory; ``through`` is a program that starts it."""
    path = root / "plugin.yaml"
    path.write_text(json.dumps(configuration), encoding="utf-8")  # JSON is YAML
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MEMIF_DP_")}
    process = await asyncio.create_subprocess_exec(
        *through,
        *(sys.executable, "-m", "app", "run", "--config", str(path), "--log-format", log_format),
        *arguments,
        cwd=CHECKOUT,
        env={**clean, **(environment or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    return Daemon(process, parsed=log_format == "json")


class Stand:
    """A node in a directory of its own: the kubelet in this process, daemons as processes of their own."""

    def __init__(self, root: Path, *, timing: Timing | None = None, clock: Clock | None = None) -> None:
        self.root = root
        clock = clock or SystemClock()
        self.runtime = MemoryRuntime(clock)
        self.node = EmbeddedNode(
            root, self.runtime, clock=clock, timing=timing or Timing(retry=0.05, readmit_after=0.5), rate_limited=False
        )
        self.daemons: list[Daemon] = []
        self.host_dir = root / "memif"
        self.state_dir = root / "state"
        self.configuration: dict[str, Any] = {
            "pools": [{"resource": RESOURCE, "capacity": CAPACITY, "host_dir": str(self.host_dir)}],
            "runtime": {"kind": "memory"},
            "kubelet": {
                "plugin_dir": str(self.node.plugin_dir),
                "pod_resources": str(self.node.pod_resources_socket),
            },
            "state": str(self.state_dir / "state.db"),
            "control": {"socket": str(root / "control.sock")},
            "http": {"listen": None},
            "reconcile": {"interval": "1s", "grace": "1s"},
            "log": {"level": "debug"},  # all that is ever printed is searched for secrets
        }

    @property
    def pool(self) -> dict[str, Any]:
        """The first pool's configuration, to be changed before a daemon is started."""
        first: dict[str, Any] = self.configuration["pools"][0]
        return first

    async def run(
        self,
        *arguments: str,
        through: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        log_format: str = "json",
    ) -> Daemon:
        """Start a daemon with the configuration as it is now; ``through`` is a program that starts it."""
        daemon = await begun(
            self.configuration,
            self.root,
            *arguments,
            through=through,
            environment=environment,
            log_format=log_format,
        )
        self.daemons.append(daemon)
        return daemon

    async def registered(self, *arguments: str) -> Daemon:
        """Start a daemon and wait until the kubelet has its devices."""
        daemon = await self.run(*arguments)
        await daemon.registered()
        await self.node.wait_registered(RESOURCE, within=PATIENCE)
        return daemon

    async def kubelet_restarted(self, daemon: Daemon) -> None:
        """Restart the kubelet; its pods come when it has the daemon's devices, a race that is measured elsewhere."""
        times = len(daemon.said("registered with the kubelet", resource=RESOURCE))
        await self.node.stop_kubelet()
        await self.node.start_kubelet(withhold=tuple(Source))
        await daemon.registered(times + 1)
        await self.node.wait_registered(RESOURCE, within=PATIENCE)
        await self.node.deliver_sources()
        await self.node.wait_ready()

    # -- looking at what is left -------------------------------------------------------------------------------

    @property
    def directories(self) -> set[str]:
        """The names in the base directory, hidden ones too."""
        return {each.name for each in self.host_dir.iterdir()} if self.host_dir.exists() else set()

    @property
    def sockets(self) -> set[str]:
        """The names of plugins' sockets in the kubelet's directory."""
        return {each.name for each in self.node.plugin_dir.glob("*.sock")} - {self.node.kubelet_socket.name}

    def journal(self) -> Recovered:
        """Read the journal of a daemon that runs no more."""
        journal = SqliteJournal(self.state_dir / "state.db", SystemClock())
        try:
            return journal.open()
        finally:
            journal.close()

    @property
    def recorded(self) -> set[str]:
        """The allocations in the journal of a daemon that runs no more."""
        return {allocation.id for allocation, _ in self.journal().allocations}


@asynccontextmanager
async def a_stand(
    *, kubelet: bool = True, timing: Timing | None = None, clock: Clock | None = None
) -> AsyncIterator[Stand]:
    """A stand that is taken down with all its processes, mounts and files, whatever happened on it.

    The clock is the kubelet's, for its five minutes; daemons have the machine's.
    """
    async with AsyncExitStack() as stack:
        stand = Stand(stack.enter_context(short_place()), timing=timing, clock=clock)
        stack.push_async_callback(stand.node.stop_kubelet)
        stack.push_async_callback(_end, stand)
        if kubelet:
            await stand.node.start_kubelet()
            await stand.node.wait_ready()
        yield stand
        stand.node.check()


async def _end(stand: Stand) -> None:
    for daemon in stand.daemons:
        await daemon.kill()
    for daemon in stand.daemons:
        assert_silent((*daemon.stdout, *daemon.stderr), stand.state_dir)


@asynccontextmanager
async def plugin(path: Path) -> AsyncIterator[api_pb2_grpc.DevicePluginStub]:
    """A client of a plugin's socket, such as the kubelet has."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with aio.insecure_channel(f"unix:{path}", options=options) as channel:
        yield api_pb2_grpc.DevicePluginStub(channel)


def asking(*requests: Sequence[str]) -> api_pb2.AllocateRequest:
    """Return an Allocate call; one list of ids for each container."""
    return api_pb2.AllocateRequest(
        container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=list(ids)) for ids in requests]
    )


def granted_name(answer: api_pb2.AllocateResponse) -> str:
    """Return the name of the only directory that an answer mounts."""
    ((mount,),) = [each.mounts for each in answer.container_responses]
    return mount.host_path.rpartition("/")[2]


async def soon(condition: Callable[[], object]) -> None:
    """Wait for what no event tells: a file, a process."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - there is nothing to wait on
            await asyncio.sleep(0.01)
