"""Where the daemon of a measurement lives, and where numbers go."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.bench.book import BOOK, Book
from tests.bench.programs import as_installed

_BOOK = pytest.StashKey[Book]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin with an empty book."""
    config.stash[_BOOK] = Book()


@pytest.fixture(scope="session")
def book(pytestconfig: pytest.Config) -> Book:
    """The numbers of this run."""
    return pytestconfig.stash[_BOOK]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the table, and keep it for :mod:`tests.bench.report`; a run of some benchmarks only shows theirs."""
    book = config.stash[_BOOK]
    if book.rows:
        book.save(BOOK)
        terminalreporter.write(book.text())
        terminalreporter.write_line(f"\nwritten to {BOOK.relative_to(config.rootpath)}")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short path, because Unix sockets have a limit."""
    path = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def warm() -> Iterator[Mapping[str, str]]:
    """The environment of measured programs."""
    with as_installed() as environment:
        yield environment
