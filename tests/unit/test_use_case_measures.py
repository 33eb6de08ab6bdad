"""What the use cases count."""

import asyncio

import pytest

from domain.allocation import Directory
from domain.grant import UnknownDevice
from domain.identity import AllocationId
from domain.lookup import Question
from domain.pool import DirectoryRules
from domain.ports.measures import ReleasedBy
from domain.ports.sockets import NoRoom
from domain.ports.worker import OverBudget
from tests.unit.house import GRACE, HOST_DIR, RESOURCE, House, dev

LATER = GRACE + 0.001
RULE, REQUEST, FORCE = ((RESOURCE, by) for by in (ReleasedBy.RULE, ReleasedBy.REQUEST, ReleasedBy.FORCE))


@pytest.fixture
async def house() -> House:
    """A house on a node where another pod runs, so that the runtime's view is not an empty one."""
    house = await House().recover()
    house.another_pod_runs()
    return house


class TestAllocate:
    async def test_a_call_that_is_answered(self, house: House) -> None:
        await house.allocate([dev(1)], [dev(2), dev(3)])

        assert house.measures.calls == [(RESOURCE, True, 0.0)]

    async def test_how_long_it_took(self, house: House) -> None:
        house.worker.hang_next()
        call = asyncio.create_task(house.allocate([dev(1)]))
        await asyncio.sleep(0)
        house.clock.advance(1.5)
        house.worker.resume()
        await call

        assert house.measures.calls == [(RESOURCE, True, 1.5)]

    async def test_a_call_that_is_refused(self, house: House) -> None:
        with pytest.raises(UnknownDevice):
            await house.allocate([dev(1000)])

        assert house.measures.calls == [(RESOURCE, False, 0.0)]

    async def test_a_call_that_fails(self, house: House) -> None:
        house.worker.fail_next(NoRoom("no space"))
        with pytest.raises(NoRoom):
            await house.allocate([dev(1)])

        assert house.measures.calls == [(RESOURCE, False, 0.0)]

    async def test_a_call_that_takes_too_long(self, house: House) -> None:
        house.worker.late_next()
        with pytest.raises(OverBudget):
            await house.allocate([dev(1)])

        assert house.measures.calls == [(RESOURCE, False, 0.0)]

    async def test_a_call_that_the_kubelet_gives_up(self, house: House) -> None:
        house.worker.hang_next()
        call = asyncio.create_task(house.allocate([dev(1)]))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait((call,))
        house.worker.resume()

        assert house.measures.calls == [(RESOURCE, False, 0.0)]


class TestReleased:
    async def test_by_the_rule(self, house: House) -> None:
        await house.granted(dev(1))
        house.forgotten("uid-1")
        house.clock.advance(LATER)
        await house.reconcile()

        assert house.measures.releases == [RULE]

    async def test_because_somebody_said_so(self, house: House) -> None:
        name = await house.granted(dev(1))
        sandbox = house.runs(name)
        await house.reconcile()
        house.runtime.remove(sandbox)
        house.forgotten("uid-1")
        house.clock.advance(LATER)
        await house.container.release_pod()(Question(namespace="telco", name="cnf"), reason="a test")

        assert house.measures.releases == [REQUEST]

    async def test_by_force_and_not_once_more_when_the_rule_drops_the_record(self, house: House) -> None:
        name = await house.granted(dev(1))
        sandbox = house.runs(name)
        await house.reconcile()
        await house.container.release_pod().force(Question(namespace="telco", name="cnf"), reason="a test")
        assert house.measures.releases == [FORCE]
        house.runtime.remove(sandbox)
        house.forgotten("uid-1")
        house.clock.advance(LATER)
        await house.reconcile()

        assert len(house.state.ledger) == 0
        assert house.measures.releases == [FORCE]

    async def test_not_while_it_is_not_gone(self, house: House) -> None:
        await house.granted(dev(1))
        await house.reconcile()

        assert house.measures.releases == []


class TestReconcile:
    async def test_one_that_goes_well(self, house: House) -> None:
        await house.reconcile()

        assert house.measures.reconciles == [(True, 0.0)]

    async def test_one_that_fails(self, house: House) -> None:
        house.worker.fail_next(RuntimeError("a bug"))
        with pytest.raises(RuntimeError):
            await house.reconcile()

        assert house.measures.reconciles == [(False, 0.0)]

    async def test_not_one_that_only_shows_what_it_would_do(self, house: House) -> None:
        await house.reconcile(dry_run=True)

        assert house.measures.reconciles == []

    async def test_orphans_by_the_pool_in_whose_directory_they_lie(self, house: House) -> None:
        for letter in "yz":
            orphan = Directory(host_dir=HOST_DIR, id=AllocationId(letter * 20), rules=DirectoryRules())
            house.sockets.make(orphan)
        await house.reconcile()
        assert house.measures.orphans == []
        house.clock.advance(LATER)
        await house.reconcile()

        assert house.measures.orphans == [RESOURCE, RESOURCE]
