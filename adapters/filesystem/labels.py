"""SELinux labels of what is mounted into containers.

The kubelet relabels volumes, but not what a device plugin mounts: without the right type an enforcing node denies the
container its own socket.
"""

import errno
import os
from pathlib import Path
from typing import Final, Protocol

from domain.ports.sockets import DirectoryUnusable

SELINUXFS: str = "/sys/fs/selinux"
"""Where the kernel shows SELinux, if it has it."""

ATTRIBUTE: Final = "security.selinux"

CONTAINER_FILE: Final = "system_u:object_r:container_file_t:s0"
"""What every container may use, whatever its categories."""


class Labels(Protocol):
    """Puts labels right."""

    def settle(self, fd: int, rule: str, path: str) -> str | None:
        """Label an open file or directory and return what was changed, in words; ``None`` if nothing was.

        Args:
            fd: open for reading or writing.
            rule: ``auto``, ``none`` or a full label.
            path: names it in errors.

        Raises:
            DirectoryUnusable: the label cannot be set.
        """
        ...

    def difference(self, path: str, rule: str) -> str | None:
        """Say how the label of what lies at a path differs from the rule, ``None`` if it does not; nothing is changed.

        Args:
            path: of what is looked at; a symbolic link there is not followed.
            rule: ``auto``, ``none`` or a full label.

        Raises:
            OSError: it cannot be told.
        """
        ...


def present() -> bool:
    """Tell whether SELinux is there: its file system is mounted and says whether it enforces."""
    return os.access(f"{SELINUXFS}/enforce", os.R_OK)


def enforcing() -> bool:
    """Tell whether SELinux forbids what is not allowed, and does not only report it."""
    try:
        return Path(f"{SELINUXFS}/enforce").read_text(encoding="ascii").strip() == "1"
    except OSError:
        return False


class SelinuxLabels:
    """Labels as extended attributes, which is all that SELinux asks for."""

    def settle(self, fd: int, rule: str, path: str) -> str | None:
        """See :class:`Labels`; ``auto`` does nothing without SELinux or where a mount option fixes the label."""
        automatic, wanted = rule == "auto", _wanted(rule)
        if wanted is None:
            return None
        try:
            now = _read(fd)
            if now == wanted:
                return None
            os.setxattr(fd, ATTRIBUTE, wanted.encode())
        except OSError as error:
            if automatic and error.errno == errno.ENOTSUP:
                return None
            raise DirectoryUnusable(
                f"cannot set the SELinux label {wanted!r} on {path}: {error.strerror}; check the pool's selinux_label,"
                " look for 'avc: denied' in the audit log, or set selinux_label to none"
            ) from error
        return _changed(now, wanted)

    def difference(self, path: str, rule: str) -> str | None:
        """See :class:`Labels`; on a file system without labels there is none that could differ."""
        wanted = _wanted(rule)
        if wanted is None:
            return None
        try:
            now: str | None = _text(os.getxattr(path, ATTRIBUTE, follow_symlinks=False))
        except OSError as error:
            if error.errno == errno.ENOTSUP:
                return None
            if error.errno != errno.ENODATA:
                raise
            now = None
        return None if now == wanted else _changed(now, wanted)


def _read(fd: int) -> str | None:
    try:
        return _text(os.getxattr(fd, ATTRIBUTE))
    except OSError as error:
        if error.errno == errno.ENODATA:
            return None
        raise


def _wanted(rule: str) -> str | None:
    """Return the label by a rule, ``None`` if there is to be none of ours; ``auto`` is none without SELinux."""
    if rule == "auto":
        return CONTAINER_FILE if present() else None
    return None if rule == "none" else rule


def _text(attribute: bytes) -> str:
    return attribute.rstrip(b"\0").decode(errors="backslashreplace")


def _changed(now: str | None, wanted: str) -> str:
    return f"label {now or 'none'} -> {wanted}"
