"""What the kernel tells of mounts."""

import os
import re
from pathlib import Path
from typing import Final

from adapters.filesystem.tree import mounted
from domain.diagnosis.places import MountFacts

_OCTAL: Final = re.compile(rb"\\([0-7]{3})")


def mount_of(fd: int) -> MountFacts | None:
    """Return the mount on which an open file lies, ``None`` if the kernel does not show it to us.

    Raises:
        OSError: the kernel does not tell.
    """
    wanted = str(mounted(fd).mount).encode()
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields, _, more = line.partition(b" - ")
        number, _, _, root, point, options, *_ = fields.split(b" ")
        if number == wanted:
            kind, _, own = more.split(b" ", 2)
            return MountFacts(
                kind=_text(kind),
                point=_text(point),
                root=_text(root),
                options=frozenset(_text(each) for each in (*options.split(b","), *own.split(b","))),
            )
    return None


def _text(field: bytes) -> str:
    """Undo the escapes with which the kernel writes spaces and line breaks in paths."""
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8)]), field))
