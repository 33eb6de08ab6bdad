"""A node's life with the daemon in this process, where it sees the containers that run.

Its clock is moved by hand, so that hours pass at once.  What the daemon does by itself as a process is in the tests
beside this one.
"""

from collections.abc import AsyncIterator

import pytest

from domain.dismissal import InUse, TooYoung
from tests.e2e.node_life import allocations, cnf, given, memif, release, telco
from tests.integration.daemon import CAPACITY, GRACE, INTERVAL, RESOURCE, Stand, a_stand
from tests.integration.nodes import app, pod


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        yield made


class TestAnImageIsPulledForLong:
    """Between Allocate and the start nothing but the kubelet's record names an allocation."""

    async def test_its_directories_wait_for_an_hour_with_the_init_containers_among_them(self, stand: Stand) -> None:
        """No clock ends an allocation: what the kubelet can still mount is in its record, and stays."""
        house = await stand.serve()
        await stand.node.start(cnf("other"))
        one = await stand.node.admit(telco())
        before = stand.directories
        for _ in range(4):
            stand.clock.advance(900)
            await house.reconcile()
        await stand.node.run(one)

        assert one.running
        assert stand.directories == before
        assert set(memif(one)) < set(before)
        assert len(memif(one)) == 3

    async def test_on_a_node_without_any_other_pod(self, stand: Stand) -> None:
        """The runtime shows nothing at all then."""
        house = await stand.serve()
        one = await stand.node.admit(telco())
        before = stand.directories
        for _ in range(3):
            await stand.settle(house)
        await stand.node.run(one)

        assert one.running
        assert stand.directories == before

    async def test_while_the_daemon_and_the_kubelet_are_restarted(self, stand: Stand) -> None:
        first = await stand.serve()
        one = await stand.node.admit(telco())
        before = stand.directories
        await first.stop()
        second = await stand.serve(instance="two")
        await stand.restart_kubelet(second)
        for _ in range(3):
            await stand.settle(second)
        await stand.node.run(one)

        assert one.running
        assert stand.directories == before
        assert allocations(stand.node) == 3


class TestAPodIsRecreatedUnderItsName:
    """As a StatefulSet does."""

    async def test_it_gets_a_directory_of_its_own_and_the_old_one_goes(self, stand: Stand) -> None:
        house = await stand.serve()
        old = await stand.node.start(cnf("cnf-0"))
        (was,) = memif(old)
        secret = old.container("a").env["MEMIF_SECRET"]
        await house.reconcile()
        await stand.node.delete(old)
        stand.clock.advance(1)
        new = await stand.node.start(cnf("cnf-0"))
        stand.clock.advance(5)
        found = await house.container.look_up()("telco", "cnf-0")
        assert found.uid == new.uid != old.uid
        assert [each.allocation.id for each in found.containers] == memif(new) != [was]
        assert new.container("a").env["MEMIF_SECRET"] != secret
        assert was in stand.directories
        await stand.settle(house)
        await stand.settle(house)

        assert sorted(stand.directories) == memif(new)

    async def test_while_the_old_one_still_runs(self, stand: Stand) -> None:
        """It was deleted by force; the old containers keep what they mount as long as they exist."""
        house = await stand.serve()
        old = await stand.node.start(cnf("cnf-0"))
        await house.reconcile()
        await stand.node.force_delete(old)
        stand.clock.advance(1)
        new = await stand.node.start(cnf("cnf-0"))
        for _ in range(3):
            await stand.settle(house)
        found = await house.container.look_up()("telco", "cnf-0")
        assert [each.allocation.id for each in found.containers] == memif(new)
        assert sorted(stand.directories) == sorted(memif(old) + memif(new))
        await stand.node.finish(old)
        await stand.settle(house)

        assert sorted(stand.directories) == memif(new)

    async def test_a_static_pod_that_comes_back_has_the_answer_that_it_had(self, stand: Stand) -> None:
        """Its uid is the manifest's hash, so the kubelet replays what it stored, without an Allocate."""
        house = await stand.serve()
        spec = pod("cnf", app("a", 1, RESOURCE), static=True)
        old = await stand.node.start(spec)
        was = given(old)
        await stand.node.delete(old)
        await stand.node.until(lambda: old not in stand.node.pods)
        new = await stand.node.start(spec)
        for _ in range(3):
            await stand.settle(house)

        assert new.uid == old.uid
        assert given(new) == was
        assert allocations(stand.node) == 1
        assert sorted(stand.directories) == memif(new)


class TestAPodIsReportedAsGone:
    """A CNI plugin reports at CNI DEL, while the sandbox still exists, and may be wrong altogether."""

    async def test_one_that_lives_keeps_everything(self, stand: Stand) -> None:
        house = await stand.serve()
        one = await stand.node.start(telco())
        await stand.settle(house)
        before, was = stand.directories, given(one)
        with pytest.raises(InUse, match="pod telco/telco is still in use"):
            await release(house, "telco")
        await stand.node.restart_container(one, "main")

        assert stand.directories == before
        assert given(one) == was

    async def test_one_that_is_gone_is_released_at_once_and_not_before_the_grace(self, stand: Stand) -> None:
        house = await stand.serve()
        one = await stand.node.start(cnf())
        await house.reconcile()
        await stand.node.delete(one)
        await stand.node.start(cnf("other"))  # an Allocate makes the kubelet forget the pod that is gone
        with pytest.raises(TooYoung):
            await release(house, "cnf")
        stand.clock.advance(GRACE + 1)

        assert list(await release(house, "cnf")) == memif(one)
        assert not set(memif(one)) & set(stand.directories)


class TestManyPods:
    async def test_identical_pods_that_come_at_once_each_have_their_own(self, stand: Stand) -> None:
        """Allocate does not say for which pod it is; the kubelet's record does."""
        house = await stand.serve()
        pods = [await stand.node.start(cnf(f"cnf-{number}")) for number in range(CAPACITY)]
        await house.reconcile()

        assert len({mount for one in pods for mount in memif(one)}) == CAPACITY
        assert {(each.owner.uid, each.id) for each in house.live} == {(one.uid, memif(one)[0]) for one in pods}

    async def test_a_restart_of_the_kubelet_touches_none_of_them(self, stand: Stand) -> None:
        house = await stand.serve()
        pods = [await stand.node.start(cnf(f"cnf-{number}")) for number in range(CAPACITY)]
        before, was = stand.directories, given(*pods)
        for _ in range(3):
            await stand.restart_kubelet(house)
            await stand.settle(house)

        assert stand.directories == before
        assert given(*pods) == was
        assert house.heard.warned == []

    async def test_a_container_that_crashes_again_and_again_has_the_same_place(self, stand: Stand) -> None:
        """Allocate is not called again, and the socket that the dead one left is the next one's to replace."""
        house = await stand.serve()
        one = await stand.node.start(cnf())
        was, before = given(one), stand.directories
        (stand.host_dir / memif(one)[0] / "memif.sock").touch()
        for _ in range(10):
            await stand.node.restart_container(one, "a")
            stand.clock.advance(INTERVAL)
            await house.reconcile()

        assert one.container("a").restarts == 10
        assert given(one) == was
        assert stand.directories == before
        assert (stand.host_dir / memif(one)[0] / "memif.sock").exists()

    async def test_a_finished_pod_and_the_next_holder_of_its_device_are_told_apart(self, stand: Stand) -> None:
        house = await stand.serve(stand.settings(capacity=1))
        old = await stand.node.start(cnf("old"))
        await house.reconcile()
        await stand.node.complete(old)
        stand.clock.advance(1)
        new = await stand.node.start(cnf("new"))
        assert stand.node.devices_of(new)["a"][RESOURCE] == {f"{RESOURCE}/0"}
        for _ in range(3):
            await stand.settle(house)

        assert {each.id: each.owner.uid for each in house.live} == {memif(old)[0]: old.uid, memif(new)[0]: new.uid}
        assert sorted(stand.directories) == sorted(memif(old) + memif(new))
