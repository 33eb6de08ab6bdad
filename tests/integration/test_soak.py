"""The short form of the soak: the long one is ``make soak``."""

from tests.integration.daemon import a_stand
from tests.integration.soak import Soak


async def test_many_restarts_and_pods_leave_nothing_behind() -> None:
    async with a_stand() as stand:
        soaked = await Soak(stand, seed=1, pods=8).run(25)
        print(soaked)  # noqa: T201 -- shown with a failure

        assert soaked.pods >= 150
        assert soaked.after == soaked.before
