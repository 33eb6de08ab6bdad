import errno
import os
from pathlib import Path

import pytest

from adapters.filesystem import rights
from adapters.filesystem.errors import in_our_words, obstacle
from domain.ports.sockets import DirectoryUnusable

PATH = "/run/contiv/memif/x"
ALL = 0x1FF_FFFF_FFFF


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the kernel says of the process; it is root's."""
    file = tmp_path / "status"
    monkeypatch.setattr(rights, "_STATUS", file)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return file


def have(status: Path, mask: int) -> None:
    status.write_text(f"Name:\tpython3\nCapPrm:\t{ALL:016x}\nCapEff:\t{mask:016x}\nCapBnd:\t{ALL:016x}\n")


@pytest.mark.parametrize("name, number", rights.NEEDED.items())
def test_one_that_is_taken_away_is_missed_by_name(name: str, number: int, status: Path) -> None:
    have(status, ALL & ~(1 << number))

    assert rights.missing() == (name,)
    assert f"the daemon lacks {name}: add that to the capabilities of its container" in rights.cure()


def test_nothing_is_missed_where_everything_is_there(status: Path) -> None:
    have(status, ALL)

    assert rights.missing() == ()
    assert rights.cure().startswith("run the daemon as root")


def test_four_are_enough(status: Path) -> None:
    have(status, sum(1 << number for number in rights.NEEDED.values()))

    assert rights.missing() == ()


@pytest.mark.parametrize("text", ["", "CapEff:\tmany\n", "Name:\tCapEff:\n"])
def test_nothing_is_claimed_where_the_kernel_does_not_tell(text: str, status: Path) -> None:
    assert rights.missing() == ()
    status.write_text(text)
    assert rights.missing() == ()


def test_who_is_not_root_is_told_to_be(status: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    have(status, 0)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert rights.cure().startswith("run the daemon as root")


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES])
def test_a_denial_names_what_is_missing(number: int, status: Path) -> None:
    have(status, 0)
    with (
        pytest.raises(DirectoryUnusable, match="lacks CAP_CHOWN and CAP_DAC_OVERRIDE and CAP_FOWNER and CAP_FSETID"),
        in_our_words("cannot make", PATH),
    ):
        raise OSError(number, os.strerror(number))
    assert "the daemon lacks" in obstacle(PATH, OSError(number, ""))


def test_a_right_that_has_to_do_with_it_is_not_confused_with_an_immutable_file(status: Path) -> None:
    have(status, ALL & ~(1 << rights.NEEDED["CAP_CHOWN"]))
    assert "chattr" in obstacle(PATH, OSError(errno.EPERM, ""))

    have(status, ALL & ~(1 << rights.NEEDED["CAP_FOWNER"]))
    assert "chattr" not in obstacle(PATH, OSError(errno.EPERM, ""))
