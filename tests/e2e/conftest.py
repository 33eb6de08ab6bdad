"""What all tests of the daemon as a process share."""

import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _warm_files() -> Iterator[None]:
    """Let the processes share compiled files that are nobody else's: without, each start compiles everything anew."""
    with tempfile.TemporaryDirectory(prefix="memif-pyc-") as prefix, pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPYCACHEPREFIX", prefix)
        yield
