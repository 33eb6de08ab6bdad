"""Look-up: what a pod was given, right on the first call or not at all."""

import asyncio

import pytest

from domain.identity import AllocationId
from domain.lookup import NoMemif, NoPod, UnknownNow
from domain.ports.kubelet import NoSinglePod
from tests.unit.house import INTERVAL, RESOURCE, STRANGE_ID, House, an_answer, dev, named

UNSUPPORTED = "this kubelet cannot be asked for one pod"


@pytest.fixture
async def house() -> House:
    house = await House().recover()
    house.clock.advance(INTERVAL)
    return house


async def admitted(house: House, index: int = 1, *, uid: str = "uid-1", name: str = "cnf") -> AllocationId:
    """Let a pod of one container be admitted; none of its containers runs."""
    found = await house.granted(dev(index), uid=uid)
    house.kubelet.put("telco", name, {"app": {RESOURCE: [dev(index)]}})
    house.clock.advance(10)
    return found


class TestFound:
    async def test_a_pod_whose_containers_do_not_run_yet_is_found_at_the_first_call(self, house: House) -> None:
        name = await admitted(house)
        found = await house.look_up()

        (container,) = found.containers
        assert (container.name, container.allocation.id) == ("app", name)
        assert (found.uid, found.stale, container.bound) == ("uid-1", False, False)
        assert container.allocation.secret == house.allocation(name).secret

    async def test_the_kubelet_is_asked_for_that_pod_alone(self, house: House) -> None:
        """A listing is not harmless; see the rules for it."""
        await admitted(house)
        await house.look_up()

        assert house.kubelet.asked == ["Get telco/cnf"]
        assert house.runtime.asked == []

    async def test_what_the_look_up_finds_in_the_checkpoint_is_adopted_and_owned(self, house: House) -> None:
        house.store(an_answer(STRANGE_ID), dev(1))
        house.kubelet.put("telco", "cnf", {"app": {RESOURCE: [dev(1)]}})
        found = await house.look_up()

        assert [each.allocation.id for each in found.containers] == [STRANGE_ID]
        assert house.journal.contents[STRANGE_ID][0].owner.container == "app"

    async def test_plain_init_containers_are_among_them_though_the_kubelet_does_not_list_them(
        self, house: House
    ) -> None:
        setup = await house.granted(dev(19), container="setup")
        app = await house.granted(dev(34), container="app")
        house.kubelet.put("telco", "cnf", {"app": {RESOURCE: [dev(34)]}})
        house.clock.advance(10)
        found = await house.look_up()

        assert [(each.name, each.allocation.id) for each in found.containers] == [("setup", setup), ("app", app)]

    async def test_the_newest_incarnation_is_meant_unless_a_uid_is_given(self, house: House) -> None:
        old = await admitted(house, 1, uid="old")
        house.runs(old, uid="old")
        await house.reconcile()
        new = await admitted(house, 2, uid="new")

        assert [each.allocation.id for each in (await house.look_up()).containers] == [new]
        with_uid = await house.look_up(uid="old")
        assert [each.allocation.id for each in with_uid.containers] == [old]

    async def test_a_kubelet_that_cannot_be_asked_leaves_what_the_ledger_knows_as_stale(self, house: House) -> None:
        name = await admitted(house)
        house.runs(name)
        await house.reconcile()
        house.kubelet.cut()
        found = await house.look_up()

        assert found.stale
        assert [each.allocation.id for each in found.containers] == [name]


class TestNotFound:
    async def test_a_pod_that_nobody_knows(self, house: House) -> None:
        with pytest.raises(NoPod, match="no pod telco/cnf on this node"):
            await house.look_up()

    async def test_a_pod_without_memif(self, house: House) -> None:
        house.kubelet.put("telco", "cnf", {"app": {}})
        with pytest.raises(NoMemif, match="pod telco/cnf holds no memif"):
            await house.look_up()

        assert house.kubelet.asked == ["Get telco/cnf"]


class TestCannotTell:
    async def test_no_memif_is_not_said_while_an_allocate_is_in_flight(self, house: House) -> None:
        house.kubelet.put("telco", "cnf", {"app": {}})
        with house.state.allocating(), pytest.raises(UnknownNow, match="an allocation was made meanwhile"):
            await house.look_up()

        assert house.kubelet.asked == ["Get telco/cnf"] * 2

    async def test_no_memif_is_not_said_right_after_an_allocate(self, house: House) -> None:
        """The kubelet stores an answer after it got it."""
        house.kubelet.put("telco", "cnf", {"app": {}})
        await house.allocate([dev(1)])
        house.clock.advance(0.9)
        with pytest.raises(UnknownNow):
            await house.look_up()

    async def test_a_second_reading_that_is_certain_is_the_answer(self, house: House) -> None:
        (answer,) = await house.allocate([dev(1)])
        house.kubelet.put("telco", "cnf", {"app": {RESOURCE: [dev(1)]}})
        reads = house.checkpoint.reads

        async def stored_between_the_readings() -> None:
            while house.checkpoint.reads == reads:  # noqa: ASYNC110 - the fake says so by its counter alone
                await asyncio.sleep(0)
            house.store(answer, dev(1))

        found, _ = await asyncio.gather(house.look_up(), stored_between_the_readings())

        assert [each.allocation.id for each in found.containers] == [named(answer)]
        assert house.kubelet.asked == ["Get telco/cnf"] * 2

    async def test_a_kubelet_that_does_not_answer_and_an_unknown_name(self, house: House) -> None:
        house.kubelet.cut("no such file")
        with pytest.raises(UnknownNow, match="the kubelet cannot be asked: no such file"):
            await house.look_up()


class TestAKubeletThatOnlyLists:
    """Before Kubernetes 1.27, or with the method switched off."""

    @pytest.fixture
    async def house(self, house: House, monkeypatch: pytest.MonkeyPatch) -> House:
        async def unimplemented(namespace: str, name: str) -> None:
            raise NoSinglePod(f"{UNSUPPORTED}: {namespace}/{name}")

        monkeypatch.setattr(house.kubelet, "pod", unimplemented)
        return house

    async def test_is_listed(self, house: House) -> None:
        name = await admitted(house)
        found = await house.look_up()

        assert house.kubelet.asked == ["List"]
        assert [each.allocation.id for each in found.containers] == [name]

    async def test_a_pod_that_it_does_not_list_is_not_there(self, house: House) -> None:
        with pytest.raises(NoPod):
            await house.look_up()

    async def test_is_listed_at_most_once_a_second(self, house: House) -> None:
        await admitted(house)
        await house.look_up()
        house.clock.advance(0.9)
        with pytest.raises(UnknownNow, match="may not be listed at this moment"):
            await house.look_up()
        assert house.kubelet.asked == ["List"]
        house.clock.advance(0.2)
        await house.look_up()

        assert house.kubelet.asked == ["List", "List"]

    async def test_is_not_listed_within_200_ms_after_an_allocate(self, house: House) -> None:
        await admitted(house)
        await house.allocate([dev(2)])
        house.clock.advance(0.1)
        with pytest.raises(UnknownNow):
            await house.look_up()

        assert house.kubelet.asked == []

    async def test_that_fails_is_one_that_cannot_be_asked(self, house: House) -> None:
        house.kubelet.cut("rejected by rate limit")
        with pytest.raises(UnknownNow, match="the kubelet cannot be asked"):
            await house.look_up()

        assert house.kubelet.asked == ["List"]

    async def test_an_agent_that_asks_all_the_time_does_not_keep_dead_pods_from_being_forgotten(
        self, house: House
    ) -> None:
        """Only asking to forget sends the device list again, without which the kubelet's file names them for ever."""
        house.another_pod_runs()
        await admitted(house, uid="dead")
        for _ in range(3):
            await house.look_up()
            house.clock.advance(INTERVAL / 2)
        await house.look_up()
        house.clock.advance(0.5)
        await house.reconcile()

        assert house.lists.published == [None]
