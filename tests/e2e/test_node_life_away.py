"""A node's life while something is away: API server, runtime, daemon, state; with the daemon in this process.

Its clock is moved by hand, so that hours pass at once.  What the daemon does by itself as a process is in the tests
beside this one.
"""

from collections.abc import AsyncIterator

import pytest

from adapters.memory.node import Source
from tests.e2e.node_life import STOP_GRACE, allocations, cnf, given, memif, telco
from tests.integration.daemon import CAPACITY, RESOURCE, House, Stand, a_stand
from tests.integration.nodes import app, pod, slow_readmission


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        yield made


class TestTheApiServerIsAwayWhenTheKubeletRestarts:
    async def test_nothing_is_released_although_the_kubelet_lists_no_pod(self, stand: Stand) -> None:
        house = await stand.serve()
        one = await stand.node.start(telco())
        static = await stand.node.start(pod("static", app("a", 1, RESOURCE), static=True))
        before, was = stand.directories, given(one, static)
        await stand.node.stop_kubelet()
        await stand.node.start_kubelet(withhold=(Source.API,))
        await house.until(lambda: house.heard.noted.count("registered with the kubelet") == 2)
        await stand.node.wait_registered(RESOURCE)
        for _ in range(5):
            await stand.settle(house)
        assert stand.directories == before
        await stand.node.deliver_sources()
        await stand.node.restart_container(one, "main")

        assert stand.directories == before
        assert given(one, static) == was
        assert allocations(stand.node) == 4

    async def test_a_pod_that_is_admitted_late_starts_from_the_kubelets_record(self, stand: Stand) -> None:
        house = await stand.serve()
        one = await stand.node.start(telco())
        was = given(one)
        await stand.node.stop_kubelet()
        for each in ("side", "main"):
            stand.node.exit_container(one, each)
        await stand.node.start_kubelet(withhold=tuple(Source))
        await house.until(lambda: house.heard.noted.count("registered with the kubelet") == 2)
        await stand.node.wait_registered(RESOURCE)
        for _ in range(3):
            await stand.settle(house)
        await stand.node.deliver_sources()
        await stand.node.run(one)

        assert one.running
        assert given(one) == was


class TestTheRuntimeIsAwayMeanwhile:
    async def test_nothing_is_lost_or_released_and_everything_is_when_it_is_back(self, stand: Stand) -> None:
        """Pods come, restart and go, the kubelet and the daemon are restarted, and hours pass."""
        first = await stand.serve()
        stays, goes = await stand.node.start(telco()), await stand.node.start(cnf("goes"))
        await first.reconcile()
        was = given(stays)
        stand.runtime.cut("containerd does not answer")
        await stand.node.restart_container(stays, "main")
        comes = await stand.node.start(cnf("comes"))
        await stand.node.delete(goes)
        before = stand.directories
        for _ in range(3):
            await stand.settle(first)
        await stand.restart_kubelet(first)
        await first.stop()
        second = await stand.serve(instance="two")
        for _ in range(3):
            await stand.settle(second)
        assert stand.directories == before
        assert len(before) == 5
        assert given(stays) == was
        stand.runtime.restore()
        for _ in range(3):
            await stand.settle(second)

        assert sorted(stand.directories) == sorted(memif(stays) + memif(comes))
        assert given(stays) == was

    async def test_the_machine_reboots_and_it_is_late(self, stand: Stand) -> None:
        """The kubelet takes that for a reboot too; paths and secrets are what they were."""
        first = await stand.serve()
        one = await stand.node.start(telco())
        was, before = given(one), set(stand.directories)
        await first.stop()

        def power_off() -> None:
            for name in before:
                (stand.host_dir / name).rmdir()
            stand.runtime.cut("containerd starts")

        stand.node.timing = slow_readmission(1.0)
        await stand.node.reboot(power_off)
        second = await stand.serve(instance="two")
        await stand.node.wait_ready()
        for _ in range(3):
            await stand.settle(second)
        assert set(stand.directories) == before
        stand.runtime.restore()
        await stand.node.run(one)
        await stand.settle(second)

        assert given(one) == was
        assert set(stand.directories) == before


class TestTheDaemonIsDownForLong:
    async def test_for_longer_than_the_kubelet_waits_for_a_plugin(self, stand: Stand) -> None:
        """Five minutes after the end of its stream the kubelet forgets the resource; containers wait for it."""
        first = await stand.serve()
        one = await stand.node.start(telco())
        was, before = given(one), stand.directories
        await first.stop()
        stand.clock.advance(STOP_GRACE + 1)
        assert RESOURCE not in stand.node.resources()
        stand.node.exit_container(one, "main")
        stand.node.begin(one)
        await stand.node.until(lambda: one.container("main").waiting is not None)
        assert "endpoint not found in cache for a registered resource" in str(one.container("main").waiting)
        second = await stand.serve(instance="two")
        await stand.node.until(lambda: one.running)
        await stand.settle(second)

        assert stand.node.resources()[RESOURCE].allocatable == CAPACITY
        assert given(one) == was
        assert stand.directories == before
        assert allocations(stand.node) == 3

    async def test_what_went_meanwhile_is_released_and_what_came_back_is_not(self, stand: Stand) -> None:
        first = await stand.serve()
        stays, goes = await stand.node.start(cnf("stays")), await stand.node.start(cnf("goes"))
        await first.stop()
        await stand.node.delete(goes)
        stand.clock.advance(3600)
        second = await stand.serve(instance="two")
        assert len(stand.directories) == 2
        for _ in range(2):
            await stand.settle(second)

        assert sorted(stand.directories) == memif(stays)

    async def test_a_minute_later_the_first_list_has_all_devices_healthy(self, stand: Stand) -> None:
        first = await stand.serve()
        await first.stop()
        stand.clock.advance(60)
        assert stand.node.resources()[RESOURCE].allocatable == 0
        lists = sum(call.what == "list" for call in stand.node.calls)
        await stand.serve(instance="two")
        (back,) = [call for call in stand.node.calls if call.what == "list"][lists : lists + 1]

        assert len(back.ids) == CAPACITY
        assert stand.node.resources()[RESOURCE].allocatable == CAPACITY


class TestTheStateIsLost:
    """Journal and directories may each be there, gone or damaged; the kubelet's record is what counts."""

    @staticmethod
    async def _after(stand: Stand, house: House) -> House:
        again = await stand.serve(instance="two")
        assert house is not again
        for _ in range(3):
            await stand.settle(again)
        return again

    async def test_the_journal_is_there_and_the_directories_are_gone(self, stand: Stand) -> None:
        first = await stand.serve()
        one = await stand.node.start(telco())
        await first.stop()
        for name in stand.directories:
            (stand.host_dir / name).rmdir()
        second = await self._after(stand, first)

        assert sorted(stand.directories) == memif(one)
        assert {each.id: each.secret.reveal() for each in second.live} == {
            each.mounts["/run/vpp"].rpartition("/")[2]: each.env["MEMIF_SECRET"] for each in one.containers
        }

    async def test_the_directories_are_there_and_the_journal_is_gone(self, stand: Stand) -> None:
        """What the kubelet names is adopted, and what nobody names is swept."""
        first = await stand.serve()
        one = await stand.node.start(telco())
        await first.stop()
        before = stand.directories
        for each in stand.state_dir.iterdir():
            each.unlink()
        (stand.host_dir / "zzzzzzzzzzzzzzzzzzzz").mkdir()
        second = await self._after(stand, first)

        assert stand.directories == before
        assert sorted(each.id for each in second.live) == memif(one)
        assert {each.owner.uid for each in second.live} == {one.uid}

    async def test_the_journal_is_damaged_and_the_directories_are_gone(self, stand: Stand) -> None:
        first = await stand.serve()
        one = await stand.node.start(telco())
        await first.stop()
        (stand.state_dir / "state.db").write_bytes(b"no database")
        for name in stand.directories:
            (stand.host_dir / name).rmdir()
        second = await self._after(stand, first)
        await stand.node.restart_container(one, "main")

        assert sorted(stand.directories) == memif(one)
        assert any(event.startswith("the journal could not be used") for event in second.heard.warned)
        assert one.running
