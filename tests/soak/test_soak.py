"""What a long life leaves behind: nothing.  The figures are printed."""

from random import Random

import pytest

from tests.e2e import daemon as processes
from tests.e2e.storm import Storm
from tests.integration import daemon
from tests.integration.nodes import slow_readmission
from tests.integration.soak import Soak, slope
from tests.soak.process import held

RESTARTS, PODS = 500, 5_000
KILLS = 60

WARM_UP = 100
"""Restarts after which memory is looked at: allocators take their time to find their level."""

STEEPEST = 4.0
"""KiB that a restart may cost."""


@pytest.mark.timeout(3600)
async def test_kubelet_restarts_pods_and_failures() -> None:
    async with daemon.a_stand() as stand:
        soaked = await Soak(stand, seed=2, pods=PODS // RESTARTS + 1).run(RESTARTS)
        print(f"\n{soaked}")  # noqa: T201

        assert soaked.pods >= PODS
        assert soaked.after == soaked.before


@pytest.mark.timeout(3600)
async def test_kubelet_restarts_of_a_process() -> None:
    """Its memory is nobody else's here."""
    async with processes.a_stand(timing=slow_readmission(0.0)) as stand:
        process = await stand.registered()
        figures = []
        for restart in range(RESTARTS):
            await stand.node.restart_kubelet()
            await process.registered(times=restart + 2)
            await stand.node.wait_registered(daemon.RESOURCE)
            figures.append(held(process.process.pid))
        before, after = figures[WARM_UP], figures[-1]
        steep = slope([each.memory for each in figures[WARM_UP:]])
        print(f"\nbefore: {before}; after: {after}; {steep:+.2f} KiB a restart")  # noqa: T201

        assert (after.descriptors, after.threads) == (before.descriptors, before.threads)
        assert steep < STEEPEST


@pytest.mark.timeout(3600)
async def test_kills_of_a_process() -> None:
    seed = Random().randrange(10**9)
    print(f"\n{KILLS} kills of the seed {seed}")  # noqa: T201
    async with processes.a_stand() as stand:
        await Storm(stand, seed=seed).rage(KILLS)
