"""The programs that are measured, as processes: what they find around them, and the bare ones."""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from tests.e2e.daemon import CHECKOUT, PATIENCE

_LOCK: Final = CHECKOUT / "requirements.lock"

_LOADED: Final = ", ".join(
    (
        *("app.cli.process", "app.settings.document", "app.daemon", "tests.bench.bare"),
        *("adapters.containerd.api", "adapters.cri.runtime", "adapters.docker.conversation", "prometheus_client"),
    )
)
"""Everything that a measured program loads, at once or later: what compiles would take more memory ever after."""


@contextmanager
def as_installed() -> Iterator[Mapping[str, str]]:
    """Yield the environment in which programs find what an installation has, and every module compiled.

    What development tools bring along is hidden, because some libraries load more when it is there.  Compiled modules
    are kept in a directory of this run, so that neither what lies in the checkout nor a setting of whoever measures
    decides what a start costs.
    """
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/tmp") as home:
        hidden = f"import sys\nsys.modules.update(dict.fromkeys({_only_for_development()!r}))\n"
        (Path(home) / "sitecustomize.py").write_text(hidden, encoding="utf-8")
        clean = {name: text for name, text in os.environ.items() if not name.startswith("MEMIF_DP_")}
        environment = {
            **clean,
            "PYTHONPATH": home,
            "PYTHONPYCACHEPREFIX": f"{home}/compiled",
            "PYTHONDONTWRITEBYTECODE": "",
            "GRPC_VERBOSITY": "NONE",
        }
        subprocess.run((sys.executable, "-c", f"import {_LOADED}"), cwd=CHECKOUT, env=environment, check=True)
        yield environment


def _only_for_development() -> list[str]:
    """Return the modules of every distribution that is here and not among the locked ones."""
    locked = {
        _normal(line.partition("==")[0]) for line in _LOCK.read_text(encoding="utf-8").splitlines() if "==" in line
    }
    return sorted(
        module
        for module, distributions in metadata.packages_distributions().items()
        if locked.isdisjoint(map(_normal, distributions))
    )


def _normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A program that serves.

    Attributes:
        pid: of its process.
        imported: seconds from its start until its modules were loaded.
    """

    pid: int
    imported: float


@asynccontextmanager
async def bare(
    kind: str, directory: Path, host_dir: Path, warm: Mapping[str, str], *, resource: str = ""
) -> AsyncIterator[Started]:
    """Run :mod:`tests.bench.bare`, serving on ``bare-<kind>.sock`` in a directory, until the context is left."""
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.bare", kind, str(directory), f"bare-{kind}.sock", str(host_dir), resource),
        cwd=CHECKOUT,
        env=warm,
        stdin=DEVNULL,
        stdout=PIPE,
    )
    try:
        await _says(process, b"imported\n")
        imported = time.perf_counter() - begun
        await _says(process, b"serving\n")
        yield Started(pid=process.pid, imported=imported)
    finally:
        process.kill()
        await process.wait()


async def _says(process: asyncio.subprocess.Process, line: bytes) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert await process.stdout.readline() == line
