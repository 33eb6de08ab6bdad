"""What there is of a pool's base directory; nothing is made or mended for the answer."""

import os
from contextlib import suppress
from itertools import islice
from typing import Final

from adapters.filesystem import base, labels
from adapters.filesystem.mounts import mount_of
from domain.diagnosis.places import BaseFacts, MountFacts, RoomFacts, SelinuxFacts
from domain.identity import is_allocation_id
from domain.pool import DirectoryRules
from domain.ports.sockets import DirectoryUnusable, NoRoom

_EXAMINED: Final = 1_000
"""Directories whose label is looked at; where one was not set, none was."""

_SHOWN: Final = 5


def survey(host_dir: str, rules: DirectoryRules) -> BaseFacts:
    """Return what is seen of a base directory, or of what would hold it.

    Args:
        host_dir: as configured.
        rules: of the allocations' directories.
    """
    there, spellings, trouble = _usable(host_dir)
    hidden = os.geteuid() != 0
    place = _nearest(host_dir)
    mount = room = selinux = None
    with suppress(OSError):
        fd = os.open(place, os.O_PATH | os.O_DIRECTORY)
        try:
            mount, room = mount_of(fd), _room(fd)
            selinux = _selinux(fd, rules.selinux_label, mount, there=there)
        finally:
            os.close(fd)
    return BaseFacts(
        host_dir=host_dir,
        there=there,
        trouble=None if hidden and there else trouble,
        hidden=hidden,
        mount=mount,
        room=room,
        selinux=selinux,
        spellings=spellings,
    )


def _usable(host_dir: str) -> tuple[bool, frozenset[str], str | None]:
    """Return whether a base directory is there, by which paths it may be named, and why it cannot be used."""
    spellings = frozenset({host_dir, os.path.realpath(host_dir)})
    try:
        found = base.open_base(host_dir, create=False)
        if found is None:
            return False, spellings, None
        try:
            spellings |= found.spellings
            found.check_writable()
        finally:
            found.close()
    except (DirectoryUnusable, NoRoom) as error:
        return True, spellings, str(error)
    return True, spellings, None


def _nearest(host_dir: str) -> str:
    """Return the directory, or the nearest above it that exists and that we may look at."""
    place = os.path.realpath(host_dir)
    while not os.path.isdir(place):  # noqa: PTH112 -- pathlib's raises where we may not look
        place = os.path.dirname(place)  # noqa: PTH120
    return place


def _room(fd: int) -> RoomFacts:
    found = os.fstatvfs(fd)
    return RoomFacts(
        space=found.f_bavail / found.f_blocks if found.f_blocks else None,
        inodes=found.f_favail / found.f_files if found.f_files else None,
    )


def _selinux(fd: int, rule: str, mount: MountFacts | None, *, there: bool) -> SelinuxFacts | None:
    if not labels.present():
        return None
    options = mount.options if mount is not None else frozenset()
    wanted = labels.CONTAINER_FILE if rule == "auto" else rule
    fixed = any(each.startswith("context=") and _kind(wanted) in each for each in options)
    return SelinuxFacts(
        enforcing=labels.enforcing(),
        rule=rule,
        labelled=fixed or "seclabel" in options,
        bare=() if fixed or not there else _bare(fd, rule),
    )


def _kind(label: str) -> str:
    """Return the type, the third part of a label, which decides for containers."""
    parts = label.split(":")
    return parts[2] if len(parts) > 2 else label  # noqa: PLR2004  user, role, type


def _bare(base_fd: int, rule: str) -> tuple[str, ...]:
    """Return the allocations' directories, some of them, that are not labelled as they must be."""
    place = f"/proc/self/fd/{base_fd}"
    names: list[str] = []
    with suppress(OSError), os.scandir(place) as found:
        for each in islice(found, _EXAMINED):
            if is_allocation_id(each.name) and len(names) < _SHOWN and _differs(f"{place}/{each.name}", rule):
                names.append(each.name)
    return tuple(sorted(names))


def _differs(path: str, rule: str) -> bool:
    try:
        return labels.SelinuxLabels().difference(path, rule) is not None
    except OSError:
        return False  # gone meanwhile, or not ours to look at
