"""The fakes of the ports to the kubelet do what their levers say."""

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.kubelet import MemoryCheckpoint, MemoryDeviceLists, MemoryPodResources
from domain.answer import Answer
from domain.evidence import CheckpointEntry, CheckpointView, Unknown
from domain.identity import DeviceId, PodUid
from domain.ports.kubelet import KubeletUnavailable
from domain.resource import ResourceName

MEMIF = ResourceName("contivpp.io/memif")


def entry(uid: str, container: str = "a") -> CheckpointEntry:
    return CheckpointEntry(
        uid=PodUid(uid), container=container, resource=MEMIF, devices=(DeviceId("d0"),), answer=Answer()
    )


def uids(checkpoint: MemoryCheckpoint) -> list[str]:
    view = checkpoint.read()
    assert isinstance(view, CheckpointView)
    return [found.uid for found in view.entries]


class TestPodResources:
    async def test_a_pod_is_shown_until_it_is_forgotten(self) -> None:
        pods = MemoryPodResources()
        pods.put("telco", "cnf", {"a": {MEMIF: [DeviceId("d0")]}})
        shown = await pods.pod("telco", "cnf")
        pods.forget("telco", "cnf")

        assert shown is not None
        assert shown.containers == {"a": {MEMIF: {"d0"}}}
        assert await pods.pod("telco", "cnf") is None
        assert await pods.pods() == ()
        assert pods.asked == ["Get telco/cnf", "Get telco/cnf", "List"]

    async def test_allocatable_is_what_was_offered(self) -> None:
        pods = MemoryPodResources()
        pods.offer(MEMIF, [DeviceId("d0")])

        assert await pods.allocatable(MEMIF) == {"d0"}
        assert await pods.allocatable(ResourceName("example.com/other")) == frozenset()

    async def test_a_failure_is_had_once_and_a_cut_until_it_is_restored(self) -> None:
        pods = MemoryPodResources()
        pods.fail_next()
        with pytest.raises(KubeletUnavailable, match="rejected by rate limit"):
            await pods.pods()
        pods.cut("no socket")
        for _ in range(2):
            with pytest.raises(KubeletUnavailable, match="no socket"):
                await pods.pods()
        pods.restore()

        assert await pods.pods() == ()


class TestCheckpoint:
    def test_what_is_put_is_in_memory_and_file_and_replaces_what_the_same_container_had(self) -> None:
        checkpoint = MemoryCheckpoint(ManualClock())
        checkpoint.put(entry("u1"), entry("u2"))
        checkpoint.put(entry("u1"))

        assert uids(checkpoint) == ["u2", "u1"]
        assert checkpoint.reads == 1

    def test_a_lost_file_is_unknown_until_it_is_written_again(self) -> None:
        checkpoint = MemoryCheckpoint(ManualClock())
        checkpoint.put(entry("u1"))
        checkpoint.lose("gone")

        assert checkpoint.read() == Unknown("gone")
        checkpoint.write()
        assert uids(checkpoint) == ["u1"]

    async def test_list_and_then_a_device_list_drop_a_dead_pod_and_neither_alone_does(self) -> None:
        """As on a real kubelet."""
        checkpoint = MemoryCheckpoint(ManualClock())
        pods = MemoryPodResources(on_list=lambda: checkpoint.forget(PodUid("dead")))
        lists = MemoryDeviceLists(on_publish=checkpoint.write)
        checkpoint.put(entry("dead"), entry("alive"))
        lists.publish()
        assert uids(checkpoint) == ["dead", "alive"]
        await pods.pods()
        assert uids(checkpoint) == ["dead", "alive"]
        lists.publish([MEMIF])

        assert uids(checkpoint) == ["alive"]
        assert lists.published == [None, {MEMIF}]
