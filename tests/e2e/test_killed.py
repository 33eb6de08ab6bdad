"""The process killed at random moments, while the kubelet calls it without a pause."""

from tests.e2e.daemon import a_stand
from tests.e2e.storm import Storm

KILLS, SEED = 8, 1


async def test_nothing_is_lost_and_nothing_is_left() -> None:
    """Every grant that the kubelet has an answer of survives; every other one is gone in the end."""
    print(f"{KILLS} kills of the seed {SEED}")  # noqa: T201 -- shown with a failure
    async with a_stand() as stand:
        await Storm(stand, seed=SEED).rage(KILLS)
