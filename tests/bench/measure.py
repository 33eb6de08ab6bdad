"""The daemon as a process, and numbers about processes."""

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.e2e.daemon import CHECKOUT


@contextmanager
def daemon(
    place: Path, warm: Mapping[str, str], *, host_dir: Path | None = None, inotify: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the daemon on a kubelet's directories below a place, where its log goes, too: nobody reads it meanwhile.

    Args:
        place: with everything of the daemon's.
        warm: the environment that it runs in.
        host_dir: where allocations' directories lie, if not there.
        inotify: whether it may use that.
    """
    config = place / "config.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "version": 1,
                "pools": [{"resource": "contivpp.io/memif", "host_dir": str(host_dir or place / "memif")}],
                "runtime": {"kind": "memory"},
                "kubelet": {
                    "plugin_dir": f"{place}/device-plugins",
                    "pod_resources": f"{place}/pod-resources/kubelet.sock",
                },
                "state": f"{place}/state/state.db",
                "control": {"socket": f"{place}/control.sock"},
                "http": {"listen": None},
            }
        )
    )
    code = f"from app import daemon as d; from app.settings import load; d.run(load({str(config)!r}), d.new_process(inotify={inotify}))"  # noqa: E501 -- one line of a program
    with (
        (place / "log").open("wb") as log,
        subprocess.Popen([sys.executable, "-c", code], stderr=log, cwd=CHECKOUT, env=warm) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mebibytes(pid: int) -> float:
    """Return a process's resident memory."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def percentile(values: Sequence[float], part: int) -> float:
    """Return the value that so many per cent of all values do not exceed."""
    return statistics.quantiles(values, n=100, method="inclusive")[part - 1]
