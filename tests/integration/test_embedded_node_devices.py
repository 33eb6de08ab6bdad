"""The embedded kubelet's device manager, as pure state: each oddity of the real one in a few lines."""

import random
from collections.abc import Sequence

import pytest

from adapters._pb.kubelet.deviceplugin.v1beta1.api_pb2 import (
    ContainerAllocateResponse,
    Device,
    DevicePluginOptions,
    Mount,
    NUMANode,
    TopologyInfo,
)
from adapters.memory.node import ContainerKind, KubeletCrashed
from adapters.memory.node.devices import STOP_GRACE, DeviceManager, Resources
from adapters.memory.node.errors import Refused
from adapters.memory.node.merge import merge
from tests.integration.plugin import RESOURCE

ANSWER = ContainerAllocateResponse(envs={"A": "1"})


class Nobody:
    """A plugin that is never called."""

    async def allocate(self, ids: Sequence[str]) -> Sequence[ContainerAllocateResponse]:
        raise AssertionError(ids)

    async def preferred(self, available: Sequence[str], must: Sequence[str], size: int) -> frozenset[str]:
        raise AssertionError((available, must, size))

    async def pre_start(self, ids: Sequence[str]) -> None:
        raise AssertionError(ids)


def devices(count: int) -> list[Device]:
    return [Device(ID=f"d{index}", health="Healthy") for index in range(count)]


@pytest.fixture
def manager() -> DeviceManager:
    made = DeviceManager(random.Random(3))
    made.connect(RESOURCE, Nobody(), DevicePluginOptions())
    made.update(RESOURCE, devices(4))
    return made


def choose(manager: DeviceManager, uid: str, container: str, count: int = 1) -> list[str]:
    """What the kubelet does before it calls Allocate."""
    needed = manager.needs(uid, container, RESOURCE, count)
    chosen = manager.reuse(uid, RESOURCE, needed)
    if len(chosen) < needed:
        free = manager.available(RESOURCE, needed - len(chosen))
        chosen += manager.take(RESOURCE, free, needed - len(chosen))
    return chosen


def allocate(manager: DeviceManager, uid: str, container: str, count: int = 1) -> list[str]:
    """What it does around an Allocate that goes well."""
    chosen = choose(manager, uid, container, count)
    manager.store(uid, container, RESOURCE, chosen, ANSWER)
    return chosen


class TestLists:
    def test_each_message_replaces_the_list_before(self, manager: DeviceManager) -> None:
        manager.update(RESOURCE, [Device(ID="other", health="Healthy")])

        assert manager.healthy[RESOURCE] == {"other"}
        assert manager.unhealthy[RESOURCE] == set()

    def test_whatever_is_not_spelt_healthy_is_unhealthy(self, manager: DeviceManager) -> None:
        manager.update(RESOURCE, [Device(ID="a", health="healthy"), Device(ID="b", health="")])

        assert manager.unhealthy[RESOURCE] == {"a", "b"}

    def test_capacity_counts_all_and_allocatable_the_healthy(self, manager: DeviceManager) -> None:
        manager.update(RESOURCE, [*devices(3), Device(ID="sick", health="Unhealthy")])

        assert manager.resources(now=0.0) == {RESOURCE: Resources(4, 3)}

    def test_a_plugin_that_went_away_keeps_its_capacity_for_five_minutes(self, manager: DeviceManager) -> None:
        manager.disconnect(RESOURCE, now=10.0)

        assert manager.resources(now=10.0 + STOP_GRACE) == {RESOURCE: Resources(4, 0)}
        assert manager.resources(now=10.1 + STOP_GRACE) == {}
        assert RESOURCE not in manager.endpoints

    def test_a_resource_that_somebody_holds_stays_known_when_its_plugin_is_forgotten(
        self, manager: DeviceManager
    ) -> None:
        """So that starting such a container fails, instead of starting it without its device."""
        allocate(manager, "u1", "a")
        manager.disconnect(RESOURCE, now=0.0)
        manager.resources(now=1.0 + STOP_GRACE)

        assert manager.knows(RESOURCE)

    def test_an_unknown_resource_is_nobodys_business(self, manager: DeviceManager) -> None:
        assert not manager.knows("example.com/other")


class TestChoice:
    def test_devices_in_use_are_not_given_again(self, manager: DeviceManager) -> None:
        chosen = [name for index in range(4) for name in allocate(manager, f"u{index}", "a")]

        assert sorted(chosen) == ["d0", "d1", "d2", "d3"]
        with pytest.raises(
            Refused,
            match=rf"requested number of devices unavailable for {RESOURCE}\. Requested: 1, Available: 0",
        ):
            allocate(manager, "u9", "a")

    def test_the_choice_is_random_and_the_same_for_the_same_seed(self) -> None:
        def draw(seed: int) -> list[str]:
            manager = DeviceManager(random.Random(seed))
            manager.update(RESOURCE, devices(100))
            return allocate(manager, "u", "a", 5)

        assert draw(1) == draw(1)
        assert draw(1) != draw(2)

    def test_an_init_containers_devices_are_given_to_the_next_container_of_its_pod(
        self, manager: DeviceManager
    ) -> None:
        """All Allocates of a pod come before any of its containers starts, so one id is allocated twice at once."""
        first = allocate(manager, "u1", "setup", 2)
        manager.settle("u1", "setup", ContainerKind.INIT)
        second = allocate(manager, "u1", "side")
        manager.settle("u1", "side", ContainerKind.SIDECAR)
        third = allocate(manager, "u1", "main")

        assert set(second) < set(first)
        assert set(third) == set(first) - set(second)

    def test_a_sidecar_keeps_its_devices_to_itself(self, manager: DeviceManager) -> None:
        first = allocate(manager, "u1", "side")
        manager.settle("u1", "side", ContainerKind.SIDECAR)

        assert set(allocate(manager, "u1", "main")).isdisjoint(first)

    def test_what_an_init_container_leaves_is_for_its_own_pod(self, manager: DeviceManager) -> None:
        first = allocate(manager, "u1", "setup")
        manager.settle("u1", "setup", ContainerKind.INIT)
        manager.begin("u2")

        assert set(allocate(manager, "u2", "a")).isdisjoint(first)


class TestReadmission:
    def test_what_is_stored_is_not_asked_for_again(self, manager: DeviceManager) -> None:
        allocate(manager, "u1", "a", 2)

        assert manager.needs("u1", "a", RESOURCE, 2) == 0

    def test_a_changed_request_is_refused(self, manager: DeviceManager) -> None:
        allocate(manager, "u1", "a", 2)

        with pytest.raises(Refused, match=f'changed request for resource "{RESOURCE}" from 2 to 3'):
            manager.needs("u1", "a", RESOURCE, 3)

    def test_what_is_stored_needs_a_healthy_device_all_the_same(self, manager: DeviceManager) -> None:
        """Known from the checkpoint only, a resource has no healthy device until its plugin is back."""
        allocate(manager, "u1", "a")
        manager.restore(list(manager.entries.values()), [RESOURCE], now=0.0)

        with pytest.raises(Refused, match=f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"):
            manager.needs("u1", "a", RESOURCE, 1)

    def test_a_stored_device_that_is_sick_or_no_longer_listed_is_refused(self, manager: DeviceManager) -> None:
        (held,) = allocate(manager, "u1", "a")
        manager.update(RESOURCE, [device for device in devices(4) if held != device.ID])

        with pytest.raises(Refused, match="previously allocated devices are no longer healthy"):
            manager.needs("u1", "a", RESOURCE, 1)

    def test_a_resource_without_a_list_is_refused(self, manager: DeviceManager) -> None:
        with pytest.raises(Refused, match=r"cannot allocate unregistered device example.com/other"):
            manager.needs("u1", "a", "example.com/other", 1)


class TestFreeing:
    def test_a_purge_drops_whoever_is_not_active(self, manager: DeviceManager) -> None:
        allocate(manager, "u1", "a")
        kept = allocate(manager, "u2", "a")

        assert manager.purge({"u2"})
        assert manager.in_use == {RESOURCE: set(kept)}

    def test_a_purge_during_an_allocate_loses_the_reservation(self, manager: DeviceManager) -> None:
        """Between choice and answer a reservation lives only in the set of ids in use, which a purge makes anew.

        Afterwards the id counts as free although a container has it, so that two pods hold it.
        """
        allocate(manager, "u1", "a", 3)
        (reserved,) = choose(manager, "u2", "a")
        manager.purge({"u2"})
        manager.store("u2", "a", RESOURCE, [reserved], ANSWER)

        assert reserved in allocate(manager, "u3", "a", 4)

    def test_a_purge_that_drops_nobody_loses_nothing(self, manager: DeviceManager) -> None:
        (reserved,) = choose(manager, "u2", "a")

        assert not manager.purge({"u2"})
        assert manager.in_use == {RESOURCE: {reserved}}

    def test_withdrawing_an_id_whose_allocate_is_in_flight_crashes_the_kubelet(self, manager: DeviceManager) -> None:
        chosen = choose(manager, "u1", "a")
        manager.update(RESOURCE, [device for device in devices(4) if device.ID not in chosen])

        with pytest.raises(KubeletCrashed, match="was withdrawn while its Allocate was in flight"):
            manager.store("u1", "a", RESOURCE, chosen, ANSWER)

    def test_turning_that_id_unhealthy_does_not(self, manager: DeviceManager) -> None:
        chosen = choose(manager, "u1", "a")
        manager.update(RESOURCE, [Device(ID=f"d{index}", health="Unhealthy") for index in range(4)])
        manager.store("u1", "a", RESOURCE, chosen, ANSWER)

        assert manager.held("u1", "a", RESOURCE) == frozenset(chosen)


class TestTopology:
    def test_a_device_of_two_numa_nodes_is_stored_under_both(self, manager: DeviceManager) -> None:
        topology = TopologyInfo(nodes=[NUMANode(ID=0), NUMANode(ID=1)])
        manager.update(RESOURCE, [Device(ID="d0", health="Healthy", topology=topology)])
        allocate(manager, "u1", "a")

        (entry,) = manager.of("u1", "a")
        assert entry.devices == {0: ["d0"], 1: ["d0"]}

    def test_a_device_without_topology_is_stored_under_minus_one(self, manager: DeviceManager) -> None:
        chosen = allocate(manager, "u1", "a")

        (entry,) = manager.of("u1", "a")
        assert entry.devices == {-1: chosen}


class TestMerging:
    def test_the_first_answer_wins_on_equal_names(self) -> None:
        """Two pools in one container that use one name: the kubelet keeps one of them, in random order."""
        one = ContainerAllocateResponse(
            envs={"S": "1", "ONE": "1"},
            mounts=[Mount(container_path="/run/vpp", host_path="/one", read_only=True)],
            annotations={"s": "1"},
        )
        two = ContainerAllocateResponse(
            envs={"S": "2", "TWO": "2"},
            mounts=[Mount(container_path="/run/vpp", host_path="/two")],
            annotations={"s": "2", "t": "2"},
        )

        merged = merge([one, two])

        assert merged.env == {"S": "1", "ONE": "1", "TWO": "2"}
        assert merged.mounts == {"/run/vpp": "/one"}
        assert merged.read_only == {"/run/vpp"}
        assert merged.annotations == {"s": "1", "t": "2"}
        assert merged.dropped == ("S", "s", "/run/vpp")
