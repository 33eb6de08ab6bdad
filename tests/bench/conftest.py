"""Where the daemon of a measurement lives."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short path, because Unix sockets have a limit."""
    path = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))
    yield path
    shutil.rmtree(path)
