"""What daemons of containers leave behind: their shims, and mounts."""

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from subprocess import run
from typing import Final

_PATIENCE: Final = 10.0
"""Seconds that killed processes have to go."""


def kill_those_that_name(path: str) -> None:
    """Kill the processes that were started with a path of a rig's own, such as its shims, with what they started.

    A daemon detaches its shims, so they are found by the socket that they were given; it is unique to the rig.
    """
    shims = [pid for pid in _pids() if path in _arguments(pid)]
    _end(shims + [child for shim in shims for child in _children(shim)])


def kill_those_that_live_below(home: Path) -> None:
    """Kill the processes of containers whose root file system lies below a rig's home, whoever is left of the rest."""
    _end([pid for pid in _pids() if f"{home}/" in _root_mount(pid)])


def _end(doomed: list[int]) -> None:
    for pid in doomed:
        _kill(pid)
    end = time.monotonic() + _PATIENCE
    while any(_alive(pid) for pid in doomed) and time.monotonic() < end:
        time.sleep(0.01)


def unmount_below(directory: Path) -> None:
    """Unmount everything below a directory, the innermost first."""
    root = f"{directory.resolve()}/"
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed([each for each in mounts if f"{each}/".startswith(root)]):
        run(["umount", "--lazy", mount], check=True, capture_output=True)  # noqa: S607 -- wherever it is installed


def group_of(home: Path) -> str:
    """Return the name of a rig's own control group, which no other rig and no real runtime has."""
    return str(home).strip("/").replace("/", "-")


def remove_groups(*names: str) -> None:
    """Remove control groups with those below them, in whatever hierarchies there are; one in use is not ours."""
    root = Path("/sys/fs/cgroup")
    for name in names:
        for top in (root / name, *(hierarchy / name for hierarchy in root.iterdir())):
            for directory, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    Path(directory).rmdir()


def remove_runc_state(home: Path) -> None:
    """Remove what runc, in its usual place, still knows of containers whose files lie below a rig's home."""
    for state in Path("/run/containerd/runc").glob("*/*/state.json"):
        if f'"{home}/' in state.read_text():
            shutil.rmtree(state.parent)


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208 -- no paths wanted


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def _children(pid: int) -> list[int]:
    """Return the children of all its threads."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, file.read_text().split())
        except OSError:  # the thread has ended
            continue
    return found


def _root_mount(pid: int) -> str:
    """Return the line that says what a process has mounted on its root."""
    try:
        lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.split()[4] == "/"), "")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
