"""How much room is left, and who uses the most."""

import os
import time
from dataclasses import dataclass
from typing import Final

from adapters.filesystem import tree
from adapters.filesystem.base import Base
from adapters.filesystem.names import gone_allocation
from domain.identity import is_allocation_id
from domain.ports.sockets import NoRoom

LEAST: Final = 0.05
"""Share of space and of inodes that must be left for another directory."""

_BLOCK: Final = 512
_MIB: Final = 1024 * 1024

# The search for the largest happens inside Allocate, whose whole budget is two seconds.
_SEARCH_ENTRIES: Final = 10_000
_SEARCH_SECONDS: Final = 0.25
_SEARCH_LEVELS: Final = 32
_FIRST_SHARE: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """What a directory holds, as far as it was counted."""

    entries: int
    blocks: int
    whole: bool


def check(base: Base) -> None:
    """Make sure that there is room for another directory.

    Raises:
        NoRoom: less than 5 % of space or inodes is left.
    """
    found = os.fstatvfs(base.fd)
    # Without a total there is no limit: tmpfs of unlimited size, btrfs and other systems without inode tables.
    space = found.f_bavail / found.f_blocks if found.f_blocks else 1.0
    inodes = found.f_favail / found.f_files if found.f_files else 1.0
    short, share = ("space", space) if space <= inodes else ("inodes", inodes)
    if share < LEAST:
        raise NoRoom(
            f"the file system of {base.host_dir} is short of {short}: {share:.1%} is left, {LEAST:.0%} is the least"
            f" for a new directory; {largest(base, by_entries=short == 'inodes')}"
        )


def largest(base: Base, *, by_entries: bool = False) -> str:
    """Say which allocation directory is the largest, by space or by number of entries, as far as a short look tells."""
    try:
        uses = _measured(base)
    except OSError:
        uses = {}  # this only explains another error, and must not hide it
    if not uses:
        return "no allocation directory uses it; find with du and df what does"
    name = max(uses, key=lambda each: (uses[each].entries if by_entries else uses[each].blocks, each))
    use = uses[name]
    least = "" if use.whole else "at least "
    return (
        f"the largest directory is {name} with {least}{use.entries} entries and {use.blocks * _BLOCK / _MIB:.1f} MiB;"
        " make its pod clean up or delete the pod, or enlarge the file system"
    )


def _measured(base: Base) -> dict[str, _Use]:
    """Measure the allocation directories: each a little at first, and the big ones further, so that none hides."""
    uses: dict[str, _Use] = {}
    until = time.monotonic() + _SEARCH_SECONDS
    spent, share = 0, _FIRST_SHARE
    with os.scandir(base.fd) as found:
        cut = [entry.name for entry in found if is_allocation_id(entry.name) or gone_allocation(entry.name)]
    while cut and spent < _SEARCH_ENTRIES:
        for name in cut:
            if time.monotonic() > until:
                return uses
            try:
                uses[name] = _measure(base, name, share)
            except OSError:
                continue  # vanished, not a directory, a mount: nothing that we could name
            spent += uses[name].entries
        cut = [name for name in cut if name in uses and not uses[name].whole]
        share *= 4
    return uses


def _measure(base: Base, name: str, share: int) -> _Use:
    entries = blocks = 0
    whole = True

    def count(parent: int, below: str, level: int) -> None:
        nonlocal entries, blocks, whole
        with tree.entered(parent, below, within=base.place) as fd, os.scandir(fd) as found:
            for entry in found:
                if entries >= share or level >= _SEARCH_LEVELS:
                    whole = False
                    return
                entries += 1
                try:
                    blocks += entry.stat(follow_symlinks=False).st_blocks
                    if entry.is_dir(follow_symlinks=False):
                        count(fd, entry.name, level + 1)
                except OSError:
                    continue  # the tenant goes on working while we look

    count(base.fd, name, 0)
    return _Use(entries=entries, blocks=blocks, whole=whole)
