"""The memory device lists keep their port's promises."""

import pytest

from adapters.memory.kubelet import MemoryDeviceLists
from domain.resource import ResourceName
from tests.contract.device_lists import ONE, OTHER, DeviceListsContract


class _Stage:
    def __init__(self) -> None:
        self.lists = MemoryDeviceLists()

    async def sent_again(self, resource: ResourceName, times: int) -> None:
        assert self.sent(resource) >= times

    def sent(self, resource: ResourceName) -> int:
        return sum(each is None or resource in each for each in self.lists.published)


class TestMemoryDeviceLists(DeviceListsContract):
    @pytest.fixture
    def stage(self) -> _Stage:
        return _Stage()


class TestLevers:
    def test_each_call_is_recorded_with_what_it_named(self) -> None:
        lists = MemoryDeviceLists()
        lists.publish()
        lists.publish((ONE, OTHER))

        assert lists.published == [None, frozenset({ONE, OTHER})]

    def test_a_publication_can_have_consequences(self) -> None:
        consequences: list[str] = []
        lists = MemoryDeviceLists(on_publish=lambda: consequences.append("the kubelet writes its file"))
        lists.publish((ONE,))

        assert consequences == ["the kubelet writes its file"]
