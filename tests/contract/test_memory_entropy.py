"""The source without chance keeps the port's promises."""

import pytest

from adapters.memory.entropy import SeededEntropy
from domain.identity import AllocationId
from tests.contract.entropy import EntropyContract, Stage


class _Stage:
    def __init__(self) -> None:
        self.entropy = SeededEntropy()


class TestSeededEntropy(EntropyContract):
    @pytest.fixture
    def stage(self) -> Stage:
        return _Stage()

    def test_the_same_seed_draws_the_same(self, stage: _Stage) -> None:
        again = SeededEntropy()

        assert [again.allocation_id() for _ in range(50)] == [stage.entropy.allocation_id() for _ in range(50)]
        assert [again.secret(20) for _ in range(50)] == [stage.entropy.secret(20) for _ in range(50)]

    def test_two_seeds_never_draw_the_same(self) -> None:
        one, other = SeededEntropy(1), SeededEntropy(27)

        assert {one.allocation_id() for _ in range(800)}.isdisjoint(other.allocation_id() for _ in range(800))
        assert {one.secret(16) for _ in range(800)}.isdisjoint(other.secret(16) for _ in range(800))

    def test_it_is_readable(self) -> None:
        entropy = SeededEntropy(2)

        assert entropy.allocation_id() == "bbbdbbbbbbbbbbbbbbbc"
        assert entropy.secret(20).reveal() == "Secret2n000000000001"

    def test_an_id_can_be_ordered(self, stage: _Stage) -> None:
        first = stage.entropy.allocation_id()
        wanted = AllocationId("k" * 20)
        stage.entropy.draw_next(wanted, first)

        assert [stage.entropy.allocation_id() for _ in range(2)] == [wanted, first]
        assert stage.entropy.allocation_id() not in {wanted, first}
