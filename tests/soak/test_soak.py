"""What a long life leaves behind: nothing.  The figures are printed."""

from itertools import count
from random import Random

import pytest

from tests.e2e import daemon as processes
from tests.e2e.cuts import THINGS, survived
from tests.e2e.node_cri import read_by_cri
from tests.e2e.storm import Storm
from tests.integration import daemon
from tests.integration.nodes import slow_readmission
from tests.integration.soak import Soak
from tests.soak.process import MOST_POOLED, WARM_UP, LongLife, resident, slope

RESTARTS, PODS = 500, 5_000
KILLS = 60

TOGETHER = 4
"""Nodes at a time: what takes long is waiting, mostly."""

STEEPEST = 4.0
"""KiB that a restart may cost."""


@pytest.mark.timeout(3600)
async def test_kubelet_restarts_pods_and_failures() -> None:
    """In this process, where its tasks can be counted."""
    async with daemon.a_stand() as stand:
        soaked = await Soak(stand, seed=2, pods=PODS // RESTARTS + 1).run(RESTARTS)
        print(f"\n{soaked}")  # noqa: T201

        assert soaked.pods >= PODS
        assert soaked.after == soaked.before


@pytest.mark.timeout(3600)
async def test_kubelet_restarts_of_a_process() -> None:
    """Nothing but restarts: what is promised of memory."""
    async with processes.a_stand(timing=slow_readmission(0.0)) as stand:
        daemon_process = await stand.registered()
        memory = []
        for restart in range(RESTARTS):
            await stand.node.restart_kubelet()
            await daemon_process.registered(times=restart + 2)
            await stand.node.wait_registered(processes.RESOURCE)
            memory.append(resident(daemon_process.process.pid))
        steep = slope(memory[WARM_UP:])
        print(f"\n{memory[WARM_UP]} to {memory[-1]} KiB, {steep:+.2f} KiB a restart")  # noqa: T201

        assert steep < STEEPEST


@pytest.mark.timeout(3600)
async def test_kubelet_restarts_pods_and_failures_of_a_process() -> None:
    """As a process, whose memory and threads are nobody else's."""
    async with processes.a_stand(timing=slow_readmission(0.0)) as stand, read_by_cri(stand) as runtime:
        lived = await LongLife(stand, runtime, seed=3, pods=PODS // RESTARTS + 1).live(RESTARTS)
        print(f"\n{lived}")  # noqa: T201

        assert lived.pods >= PODS
        assert not lived.left
        assert lived.after == lived.before
        assert lived.after.pool <= MOST_POOLED
        assert lived.slope < STEEPEST


@pytest.mark.timeout(3600)
async def test_kills_of_a_process() -> None:
    seed = Random().randrange(10**9)
    print(f"\n{KILLS} kills of the seed {seed}")  # noqa: T201
    async with processes.a_stand() as stand:
        await Storm(stand, seed=seed).rage(KILLS)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", THINGS)
async def test_a_kill_before_every_change(name: str) -> None:
    """By SIGKILL, until there are no more changes before which it could come."""
    for first in count(1, TOGETHER):
        ends = await survived(THINGS[name], range(first, first + TOGETHER))
        if any(ends):
            print(f"\n{name}: killed before each of {first - 1 + ends.index(True)} changes")  # noqa: T201
            break
