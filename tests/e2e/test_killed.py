"""The process killed: before changes that it makes to the disk, and at random while the kubelet calls it all the time.

Every change of everything is in ``make soak``; and in the integration tests, where the process is not a real one.
"""

from typing import Final

import pytest

from tests.e2e.cuts import THINGS, survived
from tests.e2e.daemon import a_stand
from tests.e2e.storm import Storm

KILLS, SEED = 8, 1

CHANGE: Final = 3
"""Before which it is killed here: in the middle of whatever it does."""


@pytest.mark.parametrize("name", THINGS)
async def test_a_change_that_is_not_made(name: str) -> None:
    """By SIGKILL; the next process finds nothing lost, and leaves nothing."""
    assert await survived(THINGS[name], [CHANGE]) == [False]


async def test_nothing_is_lost_and_nothing_is_left() -> None:
    """Every grant that the kubelet has an answer of survives; every other one is gone in the end."""
    print(f"{KILLS} kills of the seed {SEED}")  # noqa: T201 -- shown with a failure
    async with a_stand() as stand:
        await Storm(stand, seed=SEED).rage(KILLS)
