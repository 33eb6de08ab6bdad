"""What every holder of device lists must do for its port."""

from typing import Final, Protocol

from domain.ports.kubelet import DeviceLists
from domain.resource import ResourceName

ONE: Final = ResourceName("example.com/one")
OTHER: Final = ResourceName("example.com/other")


class Stage(Protocol):
    """Device lists of :data:`ONE` and :data:`OTHER`, each watched by the kubelet, each sent once already."""

    @property
    def lists(self) -> DeviceLists:
        """The holder under test."""
        ...

    async def sent_again(self, resource: ResourceName, times: int) -> None:
        """Wait until the kubelet was sent a list so many times more than once."""
        ...

    def sent(self, resource: ResourceName) -> int:
        """Return how often a list was sent more than once."""
        ...


class DeviceListsContract:
    """Subclass it and give a fixture ``stage``."""

    async def test_publishing_one_resource_sends_its_list_and_no_other(self, stage: Stage) -> None:
        stage.lists.publish((ONE,))
        await stage.sent_again(ONE, 1)
        stage.lists.publish((OTHER,))
        await stage.sent_again(OTHER, 1)

        assert (stage.sent(ONE), stage.sent(OTHER)) == (1, 1)

    async def test_publishing_without_a_name_sends_all(self, stage: Stage) -> None:
        stage.lists.publish()
        await stage.sent_again(ONE, 1)
        await stage.sent_again(OTHER, 1)

        assert (stage.sent(ONE), stage.sent(OTHER)) == (1, 1)

    async def test_several_resources_can_be_named_in_any_iterable(self, stage: Stage) -> None:
        stage.lists.publish(name for name in (ONE, OTHER))
        await stage.sent_again(ONE, 1)
        await stage.sent_again(OTHER, 1)

        assert (stage.sent(ONE), stage.sent(OTHER)) == (1, 1)

    async def test_publishing_nothing_sends_nothing(self, stage: Stage) -> None:
        stage.lists.publish(())
        stage.lists.publish((ONE,))
        await stage.sent_again(ONE, 1)

        assert (stage.sent(ONE), stage.sent(OTHER)) == (1, 0)

    async def test_an_unchanged_list_is_sent_each_time(self, stage: Stage) -> None:
        """The kubelet writes its record anew at each list, which is what it may be published for."""
        for times in range(1, 4):
            stage.lists.publish((ONE,))
            await stage.sent_again(ONE, times)

        assert stage.sent(ONE) == 3

    async def test_a_resource_that_nobody_watches_is_ignored(self, stage: Stage) -> None:
        stage.lists.publish((ResourceName("example.com/third"), ONE))
        await stage.sent_again(ONE, 1)

        assert (stage.sent(ONE), stage.sent(OTHER)) == (1, 0)
