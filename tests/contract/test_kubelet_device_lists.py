"""The lists of served pools keep the port's promises, with a client's stream open on each."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from adapters.kubelet.lists import KubeletLists
from adapters.kubelet.server import serving
from domain.pool import Pool
from domain.resource import ResourceName
from tests.contract.device_lists import ONE, OTHER, DeviceListsContract
from tests.integration.kubelet import Core, Told, Watcher, a_directory, until


class _Stage:
    def __init__(self) -> None:
        self.lists = KubeletLists()
        self._cores: dict[ResourceName, Core] = {}
        self._watchers: dict[ResourceName, Watcher] = {}

    async def serve(self, resource: ResourceName, path: str, stack: AsyncExitStack) -> None:
        core = Core(Pool(resource=resource, capacity=2))
        server = await stack.enter_async_context(
            serving(path=path, plugin=core, reports=Told(), changed=lambda: None, interval=0.0)
        )
        stack.enter_context(self.lists.served(resource, server.feed.publish))
        watcher = Watcher(path)
        stack.push_async_callback(watcher.close)
        watcher.watch()
        await until(lambda: len(watcher.lists) == 1)
        self._cores[resource], self._watchers[resource] = core, watcher

    async def sent_again(self, resource: ResourceName, times: int) -> None:
        await until(lambda: len(self._watchers[resource].lists) > times)

    def sent(self, resource: ResourceName) -> int:
        return self._cores[resource].lists - 1


class TestKubeletDeviceLists(DeviceListsContract):
    @pytest.fixture
    async def stage(self) -> AsyncIterator[_Stage]:
        with a_directory() as directory:
            async with AsyncExitStack() as stack:
                stage = _Stage()
                for number, resource in enumerate((ONE, OTHER)):
                    await stage.serve(resource, f"{directory}/{number}.sock", stack)
                yield stage


def test_a_pool_that_is_served_no_longer_is_sent_nothing() -> None:
    lists, published = KubeletLists(), list[str]()
    with lists.served(ONE, lambda: published.append("one")):
        lists.publish()
    lists.publish()
    lists.publish((ONE,))

    assert published == ["one"]


async def test_flushing_flushes_all_that_is_served_and_nothing_else() -> None:
    lists, flushed = KubeletLists(), list[str]()

    async def flush_one() -> None:
        flushed.append("one")

    async def flush_other() -> None:
        flushed.append("other")

    with lists.served(ONE, lambda: None, flush_one), lists.served(OTHER, lambda: None, flush_other):
        await lists.flush()
    await lists.flush()

    assert sorted(flushed) == ["one", "other"]
