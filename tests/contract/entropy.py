"""What every :class:`~domain.ports.entropy.Entropy` promises."""

from typing import Protocol

import pytest

from domain.identity import ALLOCATION_ID_ALPHABET, is_allocation_id
from domain.ports.entropy import Entropy
from domain.secret import LONGEST_SECRET, SECRET_ALPHABET, SHORTEST_SECRET, is_secret

MANY = 2000


class Stage(Protocol):
    """A source of randomness."""

    @property
    def entropy(self) -> Entropy:
        """The source."""
        ...


class EntropyContract:
    """Subclass this for an adapter, with a fixture ``stage``."""

    def test_ids_are_well_formed_and_of_the_alphabet_of_new_ids(self, stage: Stage) -> None:
        drawn = [stage.entropy.allocation_id() for _ in range(MANY)]

        assert all(is_allocation_id(each) for each in drawn)
        assert set("".join(drawn)) <= set(ALLOCATION_ID_ALPHABET)

    def test_no_id_is_drawn_twice(self, stage: Stage) -> None:
        assert len({stage.entropy.allocation_id() for _ in range(MANY)}) == MANY

    @pytest.mark.parametrize("length", range(SHORTEST_SECRET, LONGEST_SECRET + 1))
    def test_secrets_have_the_asked_length_and_nothing_that_a_peer_could_misread(
        self, stage: Stage, length: int
    ) -> None:
        drawn = [stage.entropy.secret(length).reveal() for _ in range(MANY // 10)]

        assert all(len(each) == length and is_secret(each) for each in drawn)
        assert set("".join(drawn)) <= set(SECRET_ALPHABET)

    def test_no_secret_is_drawn_twice(self, stage: Stage) -> None:
        assert len({stage.entropy.secret(SHORTEST_SECRET) for _ in range(MANY)}) == MANY

    def test_a_secret_says_nothing_of_the_id_drawn_with_it(self, stage: Stage) -> None:
        """An id is visible to the pod in its mounts."""
        for _ in range(100):
            name, secret = stage.entropy.allocation_id(), stage.entropy.secret(20).reveal()

            assert name not in secret
            assert secret.lower() not in name
