"""Owner, group, mode and label of what we make, set and mended through an open descriptor."""

import grp
import os
import stat
from dataclasses import dataclass, replace
from typing import Final

from adapters.filesystem import rights
from adapters.filesystem.labels import Labels
from domain.allocation import Directory
from domain.ports.sockets import DirectoryUnusable

_LARGEST_GID: Final = 2**32 - 2
"""The value above means "leave it as it is" to the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What something must look like on disk; the owner is always ourselves, root in production."""

    uid: int
    gid: int
    mode: int
    label: str

    def with_mode(self, mode: int) -> "Attributes":
        """Return the same with other permission bits."""
        return replace(self, mode=mode)


def of(directory: Directory) -> Attributes:
    """Return what an allocation's directory must look like; group names are looked up now.

    Raises:
        DirectoryUnusable: there is no such group.
    """
    rules = directory.rules
    return Attributes(uid=os.geteuid(), gid=_gid(rules.group), mode=stat.S_IMODE(rules.mode), label=rules.selinux_label)


def settle(fd: int, wanted: Attributes, labels: Labels, path: str) -> tuple[str, ...]:
    """Make an open file or directory look as wanted and return what was changed, in words.

    Raises:
        OSError: the system refuses owner, group or mode.
        DirectoryUnusable: the label cannot be set, or the set-group-ID bit was dropped.
    """
    found = os.fstat(fd)
    changed = differences(found, wanted)
    if (found.st_uid, found.st_gid) != (wanted.uid, wanted.gid):
        os.fchown(fd, wanted.uid, wanted.gid)
    if changed:
        # After the owner, because a change of owner may clear the set-id bits; and not by mkdir, because of the umask.
        os.fchmod(fd, wanted.mode)
        _keep_group_bit(fd, wanted, path)
    label = labels.settle(fd, wanted.label, path)
    return (*changed, label) if label is not None else changed


def _keep_group_bit(fd: int, wanted: Attributes, path: str) -> None:
    """Make sure of the set-group-ID bit: the kernel drops it without a word where we may not give it to that group."""
    if wanted.mode & stat.S_ISGID and not os.fstat(fd).st_mode & stat.S_ISGID:
        raise DirectoryUnusable(
            f"{path} does not keep mode {wanted.mode:04o} with group {wanted.gid}, so a dataplane's socket in it would"
            f" not get that group; {rights.cure()}"
        )


def differences(found: os.stat_result, wanted: Attributes) -> tuple[str, ...]:
    """Return in what something differs from what is wanted, in words; the label is not looked at."""
    mode = stat.S_IMODE(found.st_mode)
    pairs = (
        (f"owner {found.st_uid}", f"{wanted.uid}", found.st_uid == wanted.uid),
        (f"group {found.st_gid}", f"{wanted.gid}", found.st_gid == wanted.gid),
        (f"mode {mode:04o}", f"{wanted.mode:04o}", mode == wanted.mode),
    )
    return tuple(f"{before} -> {after}" for before, after, same in pairs if not same)


def _gid(group: str | int | None) -> int:
    if group is None:
        return os.getegid()
    if isinstance(group, str) and not group.isdecimal():
        try:
            return grp.getgrnam(group).gr_gid
        except (KeyError, ValueError) as error:
            raise DirectoryUnusable(
                f"directory_group {group!r} is no group in the daemon's /etc/group; make it there or give its number"
            ) from error
    number = int(group)
    if not 0 <= number <= _LARGEST_GID:
        raise DirectoryUnusable(f"directory_group {group} is not the number of a group; 0 to {_LARGEST_GID} are")
    return number
