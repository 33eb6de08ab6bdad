"""Whatever SQLite or the kernel complains about, the operator reads what to do."""

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from adapters.journal import faults

FAMILIES = (
    *("ERROR", "INTERNAL", "PERM", "ABORT", "BUSY", "LOCKED", "NOMEM", "READONLY", "INTERRUPT", "IOERR", "CORRUPT"),
    *("NOTFOUND", "FULL", "CANTOPEN", "PROTOCOL", "EMPTY", "SCHEMA", "TOOBIG", "CONSTRAINT", "MISMATCH", "MISUSE"),
    *("NOLFS", "AUTH", "FORMAT", "RANGE", "NOTADB"),
)
CODES = {
    name: int(value)
    for name, value in vars(sqlite3).items()
    if name.startswith(tuple(f"SQLITE_{family}" for family in FAMILIES))
}
"""Every result code, with and without extension, that Python knows of."""


def raised(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("Could not decode to UTF-8 column 'secret' with text 'Hush'")
    error.sqlite_errorcode = code
    error.sqlite_errorname = f"SQLITE_{code}"
    return error


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_every_result_code_is_explained_with_the_path_and_without_sqlite_s_text(code: int, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    told = faults.explain(path, raised(code))

    assert told.startswith(f"the journal {path} cannot be used: ")
    assert f"SQLITE_{code}" in told
    assert "Hush" not in told


def test_every_family_of_result_codes_is_in_the_test_above() -> None:
    assert len({code & 0xFF for code in CODES.values()}) == len(FAMILIES)


@pytest.mark.parametrize(
    "code", [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT_INDEX]
)
def test_damage_is_cured_by_a_restart(code: int, tmp_path: Path) -> None:
    assert faults.is_damage(raised(code))
    assert "restart the daemon" in faults.explain(tmp_path / "state.db", raised(code))


@pytest.mark.parametrize(
    "code",
    [
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY_DIRECTORY,
        sqlite3.SQLITE_IOERR_READ,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
    ],
)
def test_what_is_wrong_around_the_file_is_no_damage(code: int) -> None:
    """A disk that fails or a lock that is held says nothing against what is in the file: it is not set aside for it."""
    assert not faults.is_damage(raised(code))


def test_an_error_of_the_python_module_itself_is_damage(tmp_path: Path) -> None:
    """It raises one without a code for a text column that is no UTF-8 any more, and quotes the text."""
    error = sqlite3.OperationalError("Could not decode to UTF-8 column 'secret' with text 'Hush'")

    assert faults.is_damage(error)
    assert "Hush" not in faults.explain(tmp_path / "state.db", error)


@pytest.mark.parametrize(
    "number, hint",
    [
        (errno.ENOSPC, "no space or inode is left"),
        (errno.EDQUOT, "no space or inode is left"),
        (errno.EROFS, "it is read-only"),
        (errno.EACCES, "access is denied"),
        (errno.EPERM, "access is denied"),
        (errno.ENOTDIR, "Not a directory at /x"),
    ],
)
def test_the_kernel_s_errors_are_explained(number: int, hint: str, tmp_path: Path) -> None:
    told = faults.explain_os(tmp_path / "state.db", OSError(number, os.strerror(number), "/x"))

    assert hint in told
    assert errno.errorcode[number] in told
    assert str(tmp_path / "state.db") in told


def test_a_directory_that_cannot_be_asked_for_its_space_is_no_reason_to_say_nothing(tmp_path: Path) -> None:
    told = faults.explain(tmp_path / "gone" / "state.db", raised(sqlite3.SQLITE_IOERR))

    assert "look for disk errors" in told
