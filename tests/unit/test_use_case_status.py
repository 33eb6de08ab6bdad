"""Status: how the daemon is, without asking anybody."""

from datetime import timedelta

import pytest

from app.settings import PoolSettings
from app.use_cases.status import Status
from domain.health import Pulse
from domain.overview import Overview
from domain.ports.kubelet import Registration
from domain.ports.runtime import RuntimeIdentity
from domain.resource import ResourceName
from tests.unit.house import FAST, OTHER, RESOURCE, House, dev


class Kubelet:
    """What is known of the kubelet, as a test wants it."""

    def __init__(self) -> None:
        self.obstacle: str | None = None
        self.kubelet_restarts = 0
        self.pools: dict[ResourceName, Registration] = {}

    def registrations(self) -> dict[ResourceName, Registration]:
        return self.pools


@pytest.fixture
def kubelet() -> Kubelet:
    return Kubelet()


@pytest.fixture
async def house() -> House:
    house = await House(PoolSettings(capacity=8), FAST).recover()
    house.another_pod_runs()
    return house


def overview(house: House, kubelet: Kubelet) -> Overview:
    return Status(
        state=house.state,
        registrations=kubelet,
        plugins=house.container.pools(),
        clock=house.clock,
        version="1.2.3",
        instance="ab12",
    )()


async def test_it_tells_what_runs_and_since_when_it_is_active(house: House, kubelet: Kubelet) -> None:
    active = house.clock.now()
    house.clock.advance(90)
    seen = overview(house, kubelet)

    assert (seen.version, seen.instance) == ("1.2.3", "ab12")
    assert abs(seen.since - active) < timedelta(milliseconds=1)


async def test_views_are_told_with_the_time_at_which_they_turned(house: House, kubelet: Kubelet) -> None:
    """Not since the last reading, nor since the reason became another."""
    begun = house.clock.now()
    assert overview(house, kubelet).runtime.unknown == "not read yet"
    house.clock.advance(10)
    await house.reconcile()
    known = house.clock.now()
    house.clock.advance(10)
    await house.reconcile()
    assert (overview(house, kubelet).runtime.unknown, overview(house, kubelet).runtime.since) == (None, known)
    house.runtime.cut("connection refused")
    house.checkpoint.lose("it is not JSON")
    house.clock.advance(10)
    await house.reconcile()
    lost = house.clock.now()
    house.runtime.cut("timed out")
    house.clock.advance(10)
    await house.reconcile()
    seen = overview(house, kubelet)

    assert (seen.runtime.unknown, seen.runtime.since) == ("timed out", lost)
    assert (seen.checkpoint.unknown, seen.checkpoint.since) == ("it is not JSON", lost)
    assert begun < known < lost


async def test_the_runtime_is_named_as_soon_as_it_is_read(house: House, kubelet: Kubelet) -> None:
    assert overview(house, kubelet).identity is None
    await house.reconcile()
    assert overview(house, kubelet).identity == await house.runtime.identity()
    assert isinstance(overview(house, kubelet).identity, RuntimeIdentity)
    house.runtime.cut()
    await house.reconcile()

    assert overview(house, kubelet).identity is None


async def test_allocations_are_counted_by_what_is_known_of_their_owner(house: House, kubelet: Kubelet) -> None:
    bound = await house.granted(dev(1), dev(2))
    house.runs(bound)
    await house.reconcile()
    await house.granted(dev(2), dev(3), uid="uid-2")
    seen = overview(house, kubelet)

    assert (seen.bound, seen.pending) == (1, 1)
    assert [each.allocated for each in seen.pools] == [3, 0]  # distinct ids


async def test_pools_are_told_as_the_kubelet_sees_them(house: House, kubelet: Kubelet) -> None:
    registered = Registration(registered=True, watched=True, endpoint="a.sock", registrations=1)
    kubelet.pools = {RESOURCE: registered, OTHER: Registration(reason="nobody listens")}
    kubelet.kubelet_restarts = 3
    one, other = overview(house, kubelet).pools

    assert (one.resource, one.registration, one.listed, one.healthy, one.reason) == (RESOURCE, registered, 8, 8, None)
    assert (other.resource, other.reason) == (OTHER, "nobody listens")
    assert overview(house, kubelet).restarts == 3


async def test_before_the_sessions_begin_the_obstacle_is_the_reason(house: House, kubelet: Kubelet) -> None:
    assert {each.reason for each in overview(house, kubelet).pools} == {"not started"}
    kubelet.obstacle = "another device plugin serves contiv-vpp.sock"

    assert {each.reason for each in overview(house, kubelet).pools} == {kubelet.obstacle}


async def test_a_pool_that_is_not_configured_any_more_says_so(kubelet: Kubelet) -> None:
    before = await House(PoolSettings(capacity=8), FAST).recover()
    await before.granted(dev(1))
    house = await House(FAST, after=before).recover()
    kubelet.pools = {RESOURCE: Registration(registered=True, watched=True), OTHER: Registration(registered=True)}
    pools = {each.resource: each for each in overview(house, kubelet).pools}

    assert (pools[RESOURCE].listed, pools[RESOURCE].healthy, pools[RESOURCE].allocated) == (8, 0, 1)
    assert pools[RESOURCE].reason == "not configured any more; served until its last allocation is gone"


async def test_a_pool_whose_devices_are_unhealthy_says_why(house: House, kubelet: Kubelet) -> None:
    kubelet.pools = dict.fromkeys((RESOURCE, OTHER), Registration(registered=True, watched=True))
    house.state.health[RESOURCE] = Pulse(trouble="/run/memif is read-only")
    house.state.health[OTHER] = Pulse(seen="/run/fast is read-only", times=1)  # does not count yet
    one, other = overview(house, kubelet).pools

    assert (one.healthy, one.reason) == (0, "devices are unhealthy: /run/memif is read-only")
    assert (other.healthy, other.reason) == (4, None)


async def test_a_pool_whose_capacity_was_lowered_says_what_the_rest_is(kubelet: Kubelet) -> None:
    before = await House(PoolSettings(capacity=8)).recover()
    await before.granted(dev(7))
    house = await House(PoolSettings(capacity=6), after=before).recover()
    kubelet.pools = {RESOURCE: Registration(registered=True, watched=True)}
    (pool,) = overview(house, kubelet).pools

    assert (pool.listed, pool.healthy) == (7, 6)
    assert pool.reason == (
        "devices above the capacity stay listed as unhealthy until a start at which nobody holds them: 1"
    )


async def test_a_daemon_that_withdraws_its_devices_says_so(house: House, kubelet: Kubelet) -> None:
    kubelet.pools = dict.fromkeys((RESOURCE, OTHER), Registration(registered=True, watched=True))
    house.state.draining = True

    assert {(each.healthy, each.reason) for each in overview(house, kubelet).pools} == {
        (0, "the daemon is leaving and has withdrawn every device")
    }


async def test_one_trouble_of_a_pool_does_not_hide_another(house: House, kubelet: Kubelet) -> None:
    kubelet.pools = {RESOURCE: Registration(reason="nobody listens")}
    house.state.health[RESOURCE] = Pulse(trouble="/run/memif is read-only")

    assert overview(house, kubelet).pools[0].reason == (
        "nobody listens; devices are unhealthy: /run/memif is read-only"
    )


async def test_the_last_reconcile_is_told_with_how_it_ended(
    house: House, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert overview(house, kubelet).reconcile is None
    await house.reconcile(dry_run=True)
    assert overview(house, kubelet).reconcile is None
    await house.reconcile()
    first = overview(house, kubelet).reconcile
    assert first is not None
    assert (first.ended, first.error) == (house.clock.now(), None)

    def broken(_: object) -> None:
        raise RuntimeError("a test")

    house.clock.advance(1)
    monkeypatch.setattr(house.sockets, "look", broken)
    with pytest.raises(RuntimeError):
        await house.reconcile()
    last = overview(house, kubelet).reconcile
    assert last is not None
    assert (last.ended, last.error) == (house.clock.now(), "RuntimeError: a test")


async def test_nobody_is_asked(house: House, kubelet: Kubelet) -> None:
    await house.reconcile()
    before = house.asked_besides_storage()
    overview(house, kubelet)

    assert house.asked_besides_storage() == before
