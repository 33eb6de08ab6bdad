"""A pod's directories removed by force, and the daemon ended at every step of that.

What was forced out is recorded before anything of it goes, so that whoever comes after the crash knows why something
is missing: it neither brings it back, as adoption from the kubelet's record would, nor forgets it.
"""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from domain.ledger import Standing
from domain.lookup import Question
from tests.integration.crash import Killed, Power, powered
from tests.integration.nodes import app, init, pod
from tests.integration.places import memory_place
from tests.integration.socketless import RESOURCE, House, Stand
from tests.integration.soundness import forced


@pytest.fixture(scope="module")
def power() -> Iterator[Power]:
    with powered() as made:
        yield made


async def a_pod_that_runs(stand: Stand) -> House:
    """Let a pod run that holds two allocations, both known to the daemon with their owner."""
    await stand.start_kubelet()
    house = await stand.run()
    await stand.node.attempt(await stand.node.admit(pod("cnf", init("setup", 1, RESOURCE), app("main", 2, RESOURCE))))
    await house.reconcile()
    assert len(house.live) == 2
    return house


async def force(house: House) -> None:
    await house.container.release_pod().force(Question(namespace="telco", name="cnf"), reason="a test")


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "adopted while the journal's disk was full"])
async def test_what_is_gone_is_known_to_be_and_stays_so(power: Power, *, recorded: bool) -> None:
    cut, ended, outcomes = 0, True, set()
    while ended:
        cut += 1
        with memory_place() as root:
            stand = Stand(root, power)
            house = await a_pod_that_runs(stand)
            everything = set(house.live)
            if not recorded:
                house.container.storage().journal.drop(everything)
            power.end_before(cut)
            with suppress(Killed):
                await force(house)
            ended = power.dead
            gone = everything - set(stand.directories())
            stand.kill()
            known = {name for name, (_, standing) in stand.journal().items() if standing is Standing.FORCED}
            assert gone <= known
            after = await stand.run()

            assert forced(stand) == known
            assert set(after.live) == everything - known
            assert not gone & set(stand.directories())
            outcomes.add(len(gone))
            await stand.close()
            power.reset()

    assert outcomes == {0, 1, 2}
