"""A secret is shown to those who are meant to see it, and to nobody by accident."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.secret import LONGEST_SECRET, MASK, SECRET_ALPHABET, SHORTEST_SECRET, Secret, is_secret
from tests.unit import domain_values as values

TEXT = "HushHushHushHushHush"


def test_only_revealing_gives_the_text() -> None:
    assert Secret(TEXT).reveal() == TEXT


WAYS: tuple[Callable[[Secret], str], ...] = (
    repr,
    str,
    format,
    ascii,
    lambda secret: f"{secret}",
    lambda secret: f"{secret!r}",
    lambda secret: f"{secret:>30}",
    "{:s}".format,
    lambda secret: "%s" % secret,  # noqa: UP031  # each way of formatting is a case of its own
    lambda secret: "%r" % secret,  # noqa: UP031  # as above
    lambda secret: str([secret]),
    lambda secret: str({"secret": secret}),
)


@pytest.mark.parametrize("shown", WAYS, ids=range(len(WAYS)))
def test_every_other_way_of_showing_gives_the_mask(shown: Callable[[Secret], str]) -> None:
    text = shown(Secret(TEXT))

    assert MASK in text
    assert TEXT[:4] not in text


def test_a_format_applies_to_the_mask() -> None:
    assert f"{Secret(TEXT):>8}" == "     ***"


def test_a_format_that_does_not_fit_fails_without_the_text() -> None:
    with pytest.raises(ValueError, match="format code") as failure:
        f"{Secret(TEXT):d}"

    assert TEXT not in str(failure.value)


@given(secret=values.secrets)
def test_the_mask_does_not_betray_the_length(secret: Secret) -> None:
    """Contiv-VPP masked a secret with as many asterisks as it had characters."""
    assert str(secret) == "***"
    assert repr(secret) == "Secret(***)"


def test_secrets_are_equal_by_their_text() -> None:
    different: Any = TEXT

    assert Secret(TEXT) == Secret(TEXT)
    assert hash(Secret(TEXT)) == hash(Secret(TEXT))
    assert Secret(TEXT) != Secret(TEXT[1:])
    assert Secret(TEXT) != different


def test_a_new_secret_has_16_to_23_letters_and_digits() -> None:
    """The control protocol carries 24 bytes, of which the last is the terminator."""
    assert (SHORTEST_SECRET, LONGEST_SECRET) == (16, 23)
    assert len(set(SECRET_ALPHABET)) == 62
    assert SECRET_ALPHABET.isalnum()
    assert SECRET_ALPHABET.isascii()


@given(secret=values.secrets)
def test_whatever_is_drawn_can_be_used_by_memif_peers(secret: Secret) -> None:
    assert is_secret(secret.reveal())


@pytest.mark.parametrize("text", ["x", "b2c4d5f6g7h8j9k2l4m5", "!#$%&()*+-./:;<=>?@[]", "x" * 23], ids=repr)
def test_shorter_secrets_and_other_printable_ones_are_taken_as_they_are(text: str) -> None:
    """An earlier Contiv agent drew others than we do, and its pods live on with them."""
    assert is_secret(text)


@pytest.mark.parametrize(
    "text",
    ["", "x" * 24, "two words", "tab\there", "nul\0", "line\n", "a,b", 'a"b', "a'b", "müde", "del\x7f"],
    ids=repr,
)
def test_what_peers_could_not_use_is_no_secret(text: str) -> None:
    """VPP's command line and DPDK's device arguments split at blanks, commas and quotes; longer ones never match."""
    assert not is_secret(text)


@given(text=st.text(max_size=30))
def test_a_secret_fits_the_field_of_the_control_protocol(text: str) -> None:
    assert not is_secret(text) or len(text.encode() + b"\0") <= 24
