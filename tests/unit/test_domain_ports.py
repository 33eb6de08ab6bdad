"""Small rules that the ports bring along."""

import pytest

from domain.errors import MemifError
from domain.ports.sockets import Leftover
from domain.ports.worker import OverBudget


@pytest.mark.parametrize(
    "leftover, done",
    [
        (Leftover(), True),
        (Leftover(more=True), False),
        (Leftover(obstacle="a mount point"), False),
        (Leftover(more=True, obstacle="a mount point"), False),
    ],
)
def test_a_removal_is_done_when_nothing_is_left_and_nothing_stood_in_the_way(leftover: Leftover, *, done: bool) -> None:
    assert leftover.done is done


@pytest.mark.parametrize("budget, said", [(2.0, "2 s"), (0.5, "0.5 s")])
def test_a_job_over_budget_says_what_was_slow_and_how_slow(budget: float, said: str) -> None:
    error = OverBudget("making a directory", budget)

    assert str(error).startswith(f"making a directory took longer than {said};")
    assert error.budget == budget
    assert isinstance(error, MemifError)
