"""Directories on a file system in memory, for tests that need many and not a disk."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")


@contextmanager
def memory_place() -> Iterator[Path]:
    """Make a private directory with a short path, in memory where that can be had, and remove it afterwards."""
    usable = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
    with tempfile.TemporaryDirectory(prefix="memif-", dir=_MEMORY if usable else None) as place:
        yield Path(place)
