"""What is told of how pools stand with the kubelet: to metrics, to probes, to the service manager."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import pytest

from domain.pool import Pool
from domain.resource import ResourceName
from tests.integration.kubelet import RESOURCE, Core, ScriptedKubelet, Side, Watcher, a_directory, a_side
from tests.integration.plugin import ScriptedPlugin


@pytest.fixture
def directory() -> Iterator[Path]:
    with a_directory() as made:
        yield made


@pytest.fixture
async def kubelet(directory: Path) -> AsyncIterator[ScriptedKubelet]:
    async with ScriptedKubelet(directory) as made:
        yield made


async def test_each_refusal_counts_as_a_failure(directory: Path, kubelet: ScriptedKubelet) -> None:
    kubelet.refusals = [(grpc.StatusCode.UNKNOWN, "no")] * 3
    async with a_side(directory) as side:
        await side.watched()

        assert (side.status().failures, side.status().registrations) == (3, 1)


async def test_open_streams_are_counted_until_they_end(directory: Path, kubelet: ScriptedKubelet) -> None:
    async with a_side(directory) as side:
        await side.watched()
        assert side.status().streams == 1
        second = Watcher(str(directory / side.endpoint))
        kubelet.watchers.append(second)
        second.watch()
        await side.until(lambda: side.status().streams == 2)

    assert side.status().streams == 0


async def test_every_change_is_told_to_those_who_watch(directory: Path, kubelet: ScriptedKubelet) -> None:
    side = Side(directory)
    seen: list[tuple[bool, bool]] = []
    with side.plugins.watched(lambda: seen.append((side.status().registered, side.status().watched))):
        side.start()
        await side.watched()
        assert seen[-1] == (True, True)
        assert (True, False) in seen
        await side.stop()
        assert seen[-1] == (False, False)

    assert len(kubelet.requests) == 1
    told = len(seen)
    side.start()
    await side.watched()
    await side.stop()
    assert len(seen) == told


class TestBegun:
    """Whether every socket answers that can, which is when units that are ordered after us may start."""

    async def test_not_before_it_runs(self, directory: Path) -> None:
        assert not Side(directory).plugins.begun

    async def test_without_a_kubelet_when_the_sockets_are_there(self, directory: Path) -> None:
        async with a_side(directory) as side:
            await side.until(lambda: side.plugins.begun)

            assert side.sockets() == [side.endpoint]

    async def test_without_the_kubelets_directory_when_that_is_known(self, directory: Path) -> None:
        async with a_side(directory / "missing") as side:
            await side.until(lambda: side.plugins.begun)

            assert "there is no directory" in str(side.status().reason)

    async def test_while_a_rival_is_waited_for(self, directory: Path, kubelet: ScriptedKubelet) -> None:
        rival = ScriptedPlugin(directory, resource=RESOURCE, count=1, endpoint="contiv-vpp.sock")
        async with rival, a_side(directory) as side:
            await side.until(lambda: side.plugins.obstacle is not None)

            assert side.plugins.begun
            assert side.sockets() == []
            assert [request.endpoint for request in kubelet.requests] == ["contiv-vpp.sock"]

    async def test_without_pools_at_once(self, directory: Path) -> None:
        side = Side(directory)
        side.cores = ()
        side.start()
        await side.until(lambda: side.plugins.begun)
        await side.stop()

    async def test_every_pool_counts(self, directory: Path) -> None:
        cores = Core(), Core(Pool(resource=ResourceName("contivpp.io/other"), capacity=4))
        async with a_side(directory, *cores) as side:
            await side.until(lambda: side.plugins.begun)

            assert sorted(str(each.endpoint) for each in side.plugins.registrations().values()) == side.sockets()
            assert len(side.sockets()) == 2
