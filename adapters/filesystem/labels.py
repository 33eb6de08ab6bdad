"""SELinux labels of what is mounted into containers.

The kubelet relabels volumes, but not what a device plugin mounts: without the right type an enforcing node denies the
container its own socket.
"""

import errno
import os
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


def present() -> bool:
    """Tell whether SELinux is there: its file system is mounted and says whether it enforces."""
    return os.access(f"{SELINUXFS}/enforce", os.R_OK)


class SelinuxLabels:
    """Labels as extended attributes, which is all that SELinux asks for."""

    def settle(self, fd: int, rule: str, path: str) -> str | None:
        """See :class:`Labels`; ``auto`` does nothing without SELinux or where a mount option fixes the label."""
        automatic = rule == "auto"
        if rule == "none" or (automatic and not present()):
            return None
        wanted = CONTAINER_FILE if automatic else rule
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
        return f"label {now or 'none'} -> {wanted}"


def _read(fd: int) -> str | None:
    try:
        return os.getxattr(fd, ATTRIBUTE).rstrip(b"\0").decode(errors="backslashreplace")
    except OSError as error:
        if error.errno == errno.ENODATA:
            return None
        raise
