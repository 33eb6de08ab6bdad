"""Real file systems to try the socket directories on, and the people who mistreat them."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from domain.allocation import Directory, File
from domain.identity import AllocationId
from domain.pool import DirectoryRules

ONE, TWO = AllocationId("bcdfghjklmnpqrstvwxz"), AllocationId("2456789bcdfghjklmnpq")
NOBODY = 65534

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true", reason="mounts file systems and changes owners: run as root"
)


def directory(host_dir: Path | str, name: AllocationId = ONE, *files: File, **rules: str | int | None) -> Directory:
    """Return an allocation's directory; ``rules`` are those that differ from the default."""
    return Directory(host_dir=str(host_dir), id=name, rules=_rules(**rules), files=files)


def _rules(
    mode: str | int | None = 0o2770, group: str | int | None = None, selinux_label: str | int | None = "none"
) -> DirectoryRules:
    return DirectoryRules(mode=int(mode or 0), group=group, selinux_label=str(selinux_label))


@contextmanager
def short_place() -> Iterator[Path]:
    """Make a private directory and remove it afterwards, with whatever is still mounted in it."""
    with tempfile.TemporaryDirectory(prefix="memif-", dir="/tmp") as place:
        try:
            yield Path(place)
        finally:
            for each in reversed(mounts_below(place)):
                run("umount", "--lazy", each)


def mounts_below(place: str) -> list[str]:
    """Return the mount points below a directory, in the order in which they were mounted."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    points = [re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), line.split()[4]) for line in lines]
    return [os.fsdecode(point) for point in points if point.startswith(place.encode() + b"/")]


@contextmanager
def mounted(target: Path, *how: str) -> Iterator[Path]:
    """Mount something for the length of a block; ``how`` are the arguments of mount before the target."""
    target.mkdir(exist_ok=True)
    run("mount", *how, str(target))
    try:
        yield target
    finally:
        if target.is_mount():  # it may have been moved or unmounted meanwhile
            run("umount", "--lazy", str(target))


@contextmanager
def tmpfs(target: Path, options: str = "size=1m") -> Iterator[Path]:
    """Mount a private tmpfs for the length of a block."""
    with mounted(target, "-t", "tmpfs", "-o", options, "tmpfs") as there:
        yield there


def run(*command: str) -> None:
    """Run a tool of the system that must succeed."""
    subprocess.run(command, check=True, capture_output=True)


def open_files() -> list[str]:
    """Return the paths of what this process has open.

    Sockets and the like have none and are not counted: gRPC closes its own some time after the test that used them.
    """
    links = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor by which this directory is read
            links.append(str(each.readlink()))
    return sorted(each for each in links if each.startswith("/"))


def names(host_dir: Path | str) -> set[str]:
    """Return the names in a base directory, those that wait for their deletion included."""
    return {each.name for each in Path(host_dir).iterdir()}
