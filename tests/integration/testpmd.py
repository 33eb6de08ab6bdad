"""DPDK's testpmd as the other end of a memif link."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from domain.secret import Secret

_PROGRAM: Final = "dpdk-testpmd"
_RUNTIME: Final = Path("/var/run/dpdk")


def missing() -> str | None:
    """Return why testpmd cannot run here, ``None`` if it can."""
    if os.geteuid() != 0:
        return "DPDK needs root"
    if shutil.which(_PROGRAM) is None:
        return "needs dpdk-testpmd: install dpdk-dev and librte-net-memif23"
    return None


class Pmd:
    """A running testpmd and what it printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[str] = []

    async def until(self, text: str) -> None:
        """Wait until it prints a line with a text."""
        assert self._process.stdout is not None
        async with asyncio.timeout(30):
            while True:
                line = (await self._process.stdout.readline()).decode(errors="replace")
                assert line, f"testpmd ended before it said {text!r}: {''.join(self.lines)}"
                self.lines.append(line)
                if text in line:
                    return

    async def stop(self) -> None:
        """Let it end as an operator would."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(10):
                await self._process.communicate()
        except TimeoutError:
            self._process.kill()
            await self._process.communicate()


@asynccontextmanager
async def running_testpmd(role: str, path: str, secret: Secret) -> AsyncIterator[Pmd]:
    """Run testpmd with interface 1 on a socket, as ``server`` or ``client``."""
    prefix = f"memif-test-{os.getpid()}-{role}"
    process = await asyncio.create_subprocess_exec(
        *("stdbuf", "--output=L"),  # what it prints shows at once
        _PROGRAM,
        *("--lcores", "0@1,1@1", "--no-huge", "-m", "128", "--no-pci"),
        f"--file-prefix={prefix}",
        "--log-level=pmd.net.memif:debug",
        f"--vdev=net_memif0,role={role},id=1,socket={path},socket-abstract=no,secret={secret.reveal()}",
        "--",
        f"--forward-mode={'rxonly' if role == 'server' else 'txonly'}",
        *("--stats-period", "2", "--total-num-mbufs=4096", "--no-mlockall"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    running = Pmd(process)
    try:
        yield running
    finally:
        await running.stop()
        shutil.rmtree(_RUNTIME / prefix, ignore_errors=True)
