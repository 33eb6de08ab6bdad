"""The node's secure source keeps the port's promises."""

from collections import Counter

import pytest

from adapters.system.entropy import SystemEntropy
from domain.identity import ALLOCATION_ID_ALPHABET, ALLOCATION_ID_LENGTH
from domain.secret import SECRET_ALPHABET
from tests.contract.entropy import EntropyContract, Stage


class _Stage:
    def __init__(self) -> None:
        self.entropy = SystemEntropy()


class TestSystemEntropy(EntropyContract):
    @pytest.fixture
    def stage(self) -> Stage:
        return _Stage()

    def test_every_character_is_equally_likely(self, stage: _Stage) -> None:
        """A byte taken modulo 27 or 62 would show: its first characters come up a tenth or a quarter more often."""
        names = Counter("".join(stage.entropy.allocation_id() for _ in range(10_000)))
        secrets = Counter("".join(stage.entropy.secret(20).reveal() for _ in range(10_000)))

        for counted, alphabet in ((names, ALLOCATION_ID_ALPHABET), (secrets, SECRET_ALPHABET)):
            mean = 10_000 * ALLOCATION_ID_LENGTH / len(alphabet)
            # The standard deviation is 1.2 % and 1.8 % of the mean; six of it happen less than once in 10 million runs.
            margin = 6 * mean**0.5
            assert counted.keys() == set(alphabet)
            assert all(abs(number - mean) < margin for number in counted.values())

    def test_the_bytes_that_would_favour_some_characters_are_not_used(
        self, stage: _Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every byte once: each character of the alphabet comes up equally often, and the rest is thrown away."""
        monkeypatch.setattr("adapters.system.entropy.secrets.token_bytes", lambda _: bytes(range(256)))
        drawn = stage.entropy.secret(62 * 4).reveal()

        assert Counter(drawn) == dict.fromkeys(SECRET_ALPHABET, 4)

    def test_it_asks_again_when_too_many_bytes_were_thrown_away(
        self, stage: _Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answers = iter([b"\xff" * 40, b"\0" * 40])
        monkeypatch.setattr("adapters.system.entropy.secrets.token_bytes", lambda _: next(answers))

        assert stage.entropy.secret(20).reveal() == SECRET_ALPHABET[0] * 20
