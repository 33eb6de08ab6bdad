"""What may be the name of an allocation's directory."""

import pytest
from hypothesis import given

from domain.identity import ALLOCATION_ID_ALPHABET, ALLOCATION_ID_LENGTH, AllocationId, is_allocation_id
from tests.unit import domain_values as values


def test_new_ids_are_drawn_as_contiv_vpp_drew_them() -> None:
    assert ALLOCATION_ID_LENGTH == 20
    assert ALLOCATION_ID_ALPHABET == "bcdfghjklmnpqrstvwxz2456789"
    assert len(set(ALLOCATION_ID_ALPHABET)) == 27


@given(name=values.ids)
def test_whatever_is_drawn_is_well_formed(name: AllocationId) -> None:
    assert is_allocation_id(name)


@pytest.mark.parametrize("name", ["abcdefghijklmnopqrst", "01234567890123456789", "aeiouaeiouaeiouaeiou"])
def test_names_beyond_the_alphabet_of_new_ids_are_well_formed_too(name: str) -> None:
    """Directories that somebody else's agent made are adopted as they are."""
    assert is_allocation_id(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "bcdfghjklmnpqrstvwx",
        "bcdfghjklmnpqrstvwxzb",
        "bcdfghjklmnpqrstvwxZ",
        "bcdfghjklmnpqrstvwx-",
        "bcdfghjklmnpqrstvwx/",
        "bcdfghjklmnpqrstvwx.",
        "bcdfghjklmnpqrstvwx ",
        "bcdfghjklmnpqrstvwxz\n",
        "bcdfghjklmnpqrstvwx\n",
        "bcdfghjklmnpqrstvwx٣",  # a digit, but of another script
        "bcdfghjklmnpqrstvwxß",
        "..",
        ".gone-bcdfghjklmnpqrstvwxz-2456",
    ],
    ids=repr,
)
def test_any_other_name_is_not(name: str) -> None:
    assert not is_allocation_id(name)
