"""A directory that hangs for whoever opens it, as one on a dead disk or server does."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# From <linux/fanotify.h>.
_CLASS_CONTENT: Final = 0x04
_MARK_ADD: Final = 0x01
_OPEN_PERM: Final = 0x0001_0000
_ON_DIRECTORIES: Final = 0x4000_0000
_AT_FDCWD: Final = -100


@contextmanager
def hanging(directory: Path) -> Iterator[None]:
    """Let every opening of a directory hang for the length of a block: the kernel asks us whether it may, in vain.

    This process must not open it meanwhile.  Needs root.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.fanotify_init(_CLASS_CONTENT, os.O_RDONLY | os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "fanotify_init")
    try:
        events = ctypes.c_uint64(_OPEN_PERM | _ON_DIRECTORIES)
        if libc.fanotify_mark(descriptor, _MARK_ADD, events, _AT_FDCWD, os.fsencode(directory)) != 0:
            raise OSError(ctypes.get_errno(), "fanotify_mark")
        yield
    finally:
        os.close(descriptor)  # which allows everything
