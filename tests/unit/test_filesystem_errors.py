import errno
import os
from pathlib import Path

import pytest

from adapters.filesystem import labels
from adapters.filesystem.errors import in_our_words, obstacle
from domain.ports.sockets import DirectoryUnusable, NoRoom

EVERY_ERROR = sorted(errno.errorcode)
PATH = "/run/contiv/memif/x"


def fail(number: int) -> None:
    with in_our_words("cannot make", PATH, room=lambda: "the largest is y"):
        raise OSError(number, os.strerror(number))


@pytest.mark.parametrize("number", EVERY_ERROR)
def test_every_error_of_the_system_becomes_ours_and_says_on_what_why_and_what_to_do(number: int) -> None:
    with pytest.raises((DirectoryUnusable, NoRoom)) as raised:
        fail(number)

    failed, _, cure = str(raised.value).partition("; ")
    assert failed == f"cannot make {PATH}: {os.strerror(number)}"
    assert len(cure) > 10
    assert isinstance(raised.value.__cause__, OSError)


@pytest.mark.parametrize("number", EVERY_ERROR)
def test_only_a_shortage_is_no_room_and_names_the_largest(number: int) -> None:
    short = number in {errno.ENOSPC, errno.EDQUOT}
    with pytest.raises(NoRoom if short else DirectoryUnusable) as raised:
        fail(number)

    assert str(raised.value).endswith("; the largest is y") == short


def test_an_error_without_a_number_is_ours_too() -> None:
    with (
        pytest.raises(DirectoryUnusable, match=f"cannot read {PATH}: OSError; see dmesg"),
        in_our_words("cannot read", PATH),
    ):
        raise OSError("of somebody who gave none")


def test_our_own_pass_unchanged() -> None:
    ours = NoRoom("as it was")
    with pytest.raises(NoRoom) as raised, in_our_words("cannot make", PATH):
        raise ours

    assert raised.value is ours


@pytest.mark.parametrize("number", EVERY_ERROR)
def test_every_obstacle_says_what_to_do(number: int) -> None:
    words = obstacle(PATH, OSError(number, os.strerror(number)))

    assert words.startswith(f"{PATH}: {os.strerror(number)}; ")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_a_denial_mentions_selinux_only_where_it_is(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "SELINUXFS", str(tmp_path))
    without = obstacle(PATH, OSError(number, ""))
    (tmp_path / "enforce").write_text("1")

    assert "SELinux" not in without
    assert "ausearch" in obstacle(PATH, OSError(number, ""))
    with pytest.raises(DirectoryUnusable, match="CAP_DAC_OVERRIDE; SELinux is on here"):
        fail(number)
