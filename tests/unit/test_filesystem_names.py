import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.filesystem import names

ID = "bcdfghjklmnpqrstvwxz"


def test_a_waiting_name_tells_its_allocation() -> None:
    waiting = names.gone(ID, "0123456789abcdef")

    assert waiting == f".gone-{ID}-0123456789abcdef"
    assert names.gone_allocation(waiting) == ID
    assert names.again(waiting, "f" * 16) == f".gone-{ID}-{'f' * 16}"


@pytest.mark.parametrize(
    "name",
    [
        *(ID, ".gone-", f".gone-{ID}", f".gone-{ID}-0123", f".gone-{ID}-0123456789ABCDEF"),
        *(f"x.gone-{ID}-0123456789abcdef", f".gone-{ID}-0123456789abcdef\n"),
        *(f".gone-../../../../../../x-{'0' * 16}", f".gone-{'é' * 20}-{'0' * 16}"),
    ],
)
def test_other_names_are_not_waiting(name: str) -> None:
    assert names.gone_allocation(name) is None


def test_a_passing_name_is_known_again() -> None:
    assert names.unfinished("0123456789abcdef") == ".new-0123456789abcdef"
    assert names.is_unfinished(names.unfinished("0123456789abcdef"))


@pytest.mark.parametrize("name", [".new-", ".new-0123", f".new-{'G' * 16}", f"x.new-{'0' * 16}", f".new-{'0' * 16}\n"])
def test_other_names_are_not_passing(name: str) -> None:
    assert not names.is_unfinished(name)


@given(st.binary(min_size=1, max_size=300))
def test_whatever_a_name_holds_it_is_shown_as_short_printable_ascii(raw: bytes) -> None:
    shown = names.shown(os.fsdecode(raw))

    assert shown.isascii()
    assert shown.isprintable()
    assert len(shown) <= names.LONGEST_SHOWN


@pytest.mark.parametrize(
    "raw, shown",
    [
        (b"memif.sock", "memif.sock"),
        (b"\xff", r"\xff"),
        (b"a\nb", r"a\nb"),
        (b"it's", "it's"),
        (b"\x1b[0m", r"\x1b[0m"),
    ],
)
def test_foreign_bytes_are_shown_by_their_numbers(raw: bytes, shown: str) -> None:
    assert names.shown(os.fsdecode(raw)) == shown


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "a\0"])
def test_names_that_lead_elsewhere_are_not_plain(name: str) -> None:
    assert not names.is_plain(name)
    assert names.is_plain("secret")
