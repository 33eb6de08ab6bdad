"""DPDK's testpmd as the other end of memif links."""

import asyncio
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from domain.secret import Secret

_PROGRAM: Final = "dpdk-testpmd"

VERBOSE: Final = "--log-level=pmd.net.memif:debug"
"""Lets the driver say what it does on the control channel."""

_RUNTIME: Final = Path("/var/run/dpdk")

_PATIENCE: Final = 60.0
"""Seconds of real time after which waiting for something counts as failed; several share the one CPU that it takes."""

_PORT: Final = re.compile(r"NIC statistics for port (\d+)")
_PACKETS: Final = re.compile(r"^\s*RX-packets: (\d+)\s+RX-missed")

ENOUGH: Final = 1_000
"""Packets that no handshake and no stray make: from there on, traffic flows."""


def missing() -> str | None:
    """Return why testpmd cannot run here, ``None`` if it can."""
    if os.geteuid() != 0:
        return "DPDK needs root"
    if shutil.which(_PROGRAM) is None:
        return "needs dpdk-testpmd: install dpdk-dev and librte-net-memif23"
    return None


class Pmd:
    """A running testpmd, what it printed, and the packets that came.

    Attributes:
        lines: everything that it printed.
        packets: received since its start, by port; its ports are the interfaces in the order in which they were given.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._came = asyncio.Event()
        self._port = 0
        self.lines: list[str] = []
        self.packets: dict[int, int] = {}
        self._reading = asyncio.create_task(self._read())

    async def until(self, text: str) -> None:
        """Wait until it has printed a line with a text."""
        await self._until(lambda: any(text in line for line in self.lines), text)

    async def flows(self, *ports: int) -> None:
        """Wait until enough packets more have come on each of some ports."""
        goals = {port: self.packets.get(port, 0) + ENOUGH for port in ports}
        await self._until(lambda: all(self.packets.get(port, 0) > goal for port, goal in goals.items()), f"{goals}")

    async def stop(self) -> None:
        """Let it end as an operator would."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(10):
                await self._reading
        except TimeoutError:
            self._process.kill()
            await self._reading
        await self._process.wait()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for raw in self._process.stdout:
            line = raw.decode(errors="replace")
            self.lines.append(line)
            if port := _PORT.search(line):
                self._port = int(port[1])
            elif packets := _PACKETS.match(line):
                self.packets[self._port] = int(packets[1])
            self._wake()
        self._wake()

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                while not condition():
                    assert not self._reading.done(), f"testpmd ended before {what!r}: {''.join(self.lines)}"
                    await self._came.wait()
        except TimeoutError as error:
            raise AssertionError(f"never {what!r}: {self.packets}, {''.join(self.lines[-80:])}") from error

    def _wake(self) -> None:
        self._came.set()
        self._came = asyncio.Event()


@asynccontextmanager
async def running_testpmd(role: str, path: str, secret: Secret) -> AsyncIterator[Pmd]:
    """Run testpmd with interface 1 on a socket, as ``server`` or ``client``."""
    prefix = f"memif-test-{os.getpid()}-{role}"
    command = (
        *(_PROGRAM, "--lcores", "0@1,1@1", "--no-huge", "-m", "128", "--no-pci", f"--file-prefix={prefix}", VERBOSE),
        f"--vdev=net_memif0,role={role},id=1,socket={path},socket-abstract=no,secret={secret.reveal()}",
        *("--", f"--forward-mode={'rxonly' if role == 'server' else 'txonly'}"),
        *("--stats-period", "2", "--total-num-mbufs=4096", "--no-mlockall"),
    )
    async with running(command, prefix) as pmd:
        yield pmd


@asynccontextmanager
async def running(
    command: Sequence[str], prefix: str, *, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Pmd]:
    """Run a command that is, or becomes, testpmd.

    Args:
        command: program and arguments.
        prefix: its ``--file-prefix``; what lies in DPDK's directory under that name is removed at the end.
        environment: of the program, beside our own.
    """
    process = await asyncio.create_subprocess_exec(
        *("stdbuf", "--output=L"),  # what it prints shows at once
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
    )
    pmd = Pmd(process)
    try:
        yield pmd
    finally:
        await pmd.stop()
        shutil.rmtree(_RUNTIME / prefix, ignore_errors=True)
