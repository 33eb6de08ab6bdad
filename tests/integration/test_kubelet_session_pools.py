"""Several pools of one process, each with a session of its own."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from adapters.memory.node import ContainerSpec
from domain.pool import Pool
from domain.resource import ResourceName
from tests.integration.kubelet import RESOURCE, Core, ScriptedKubelet, Side, a_directory, a_side
from tests.integration.nodes import a_node, pod

OTHER = ResourceName("contivpp.io/other")


@pytest.fixture
def directory() -> Iterator[Path]:
    with a_directory() as made:
        yield made


@pytest.fixture
async def kubelet(directory: Path) -> AsyncIterator[ScriptedKubelet]:
    async with ScriptedKubelet(directory) as made:
        yield made


def two_cores() -> tuple[Core, Core]:
    """The default pool, and one that differs in everything in which pools must differ."""
    other = Pool(
        resource=OTHER,
        capacity=2,
        host_dir="/var/run/contiv/other",
        container_dir="/run/other",
        env_suffix="_OTHER",
        annotation_prefix="io.contivpp.other",
    )
    return Core(), Core(other, seed=1)


async def test_each_pool_has_a_session_and_a_socket_of_its_own(directory: Path, kubelet: ScriptedKubelet) -> None:
    cores = two_cores()
    async with a_side(directory, *cores) as side:
        await side.watched()
        await side.until(lambda: all(kubelet.offered(each.resource) for each in cores))

        found = {request.resource_name: request.endpoint for request in kubelet.requests}
        assert found == {name: status.endpoint for name, status in side.plugins.registrations().items()}
        assert [found[name].rpartition("-")[2] for name in (RESOURCE, OTHER)] == ["0.sock", "1.sock"]
        assert {each.resource: kubelet.offered(each.resource) for each in cores} == {
            each.resource: set(each.ids) for each in cores
        }


async def test_a_container_that_asks_for_two_pools_gets_both() -> None:
    """The kubelet keeps only one of two equal environment names, mounts or annotations, in random order."""
    async with a_node() as node, a_side(node.plugin_dir, *two_cores()) as side:
        await node.wait_registered(RESOURCE)
        await node.wait_registered(OTHER)
        one = await node.start(pod("cnf", ContainerSpec(name="a", limits={RESOURCE: 1, OTHER: 2})))

        env = one.container("a").env
        assert (env["MEMIF_SOCKET"], env["MEMIF_SOCKET_OTHER"]) == ("/run/vpp/memif.sock", "/run/other/memif.sock")
        assert env["MEMIF_SECRET"] != env["MEMIF_SECRET_OTHER"]
        assert [len(ids) for core in side.cores for call, ids in core.calls if call == "Allocate"] == [1, 2]


async def test_the_trouble_of_one_pool_is_not_the_others(directory: Path, kubelet: ScriptedKubelet) -> None:
    async with a_side(directory, *two_cores()) as side:
        await side.watched()
        before = side.status(RESOURCE)
        (directory / str(side.status(OTHER).endpoint)).unlink()
        await side.until(lambda: side.status(OTHER).registrations == 2 and side.status(OTHER).watched)

        assert side.status(RESOURCE) == before
        assert [each.resource_name for each in kubelet.requests].count(RESOURCE) == 1


async def test_a_restart_of_the_kubelet_is_counted_once_whatever_the_number_of_pools() -> None:
    async with a_node() as node, a_side(node.plugin_dir, *two_cores()) as side:
        await side.watched()
        assert side.plugins.kubelet_restarts == 0
        await node.restart_kubelet()
        await side.watched(2)

        assert side.plugins.kubelet_restarts == 1


async def test_no_pool_at_all_is_said_and_does_no_harm(directory: Path) -> None:
    side = Side(directory)
    side.cores = ()
    side.start()
    await side.until(lambda: bool(side.told.noted("no pool is configured: there is nothing to serve")))
    await side.stop()

    assert side.plugins.registrations() == {}
    assert side.plugins.kubelet_restarts == 0


async def test_sessions_come_and_go_with_their_pools_and_the_others_go_on(
    directory: Path, kubelet: ScriptedKubelet
) -> None:
    one, other = two_cores()
    async with a_side(directory, one) as side:
        await side.watched()
        before = side.status(RESOURCE)
        side.cores = (one, other)
        side.plugins.follow()
        await side.until(lambda: kubelet.offered(OTHER) == set(other.ids))
        second = str(side.status(OTHER).endpoint)
        side.cores = (one,)
        side.plugins.follow()
        await side.until(lambda: OTHER not in side.plugins.registrations())

        assert second.endswith("-1.sock")
        assert not (directory / second).exists()
        assert side.status(RESOURCE) == before
        side.cores = (one, other)
        side.plugins.follow()
        await side.until(lambda: side.status(OTHER).watched)
        assert str(side.status(OTHER).endpoint).endswith("-1.sock")
        assert side.status(OTHER).endpoint != second
        assert [each.resource_name for each in kubelet.requests] == [RESOURCE, OTHER, OTHER]


async def test_restarts_of_the_kubelet_stay_counted_when_the_pool_that_saw_them_goes() -> None:
    one, other = two_cores()
    async with a_node() as node, a_side(node.plugin_dir, one) as side:
        await side.watched()
        await node.restart_kubelet()
        await side.watched(2)
        side.cores = (other,)
        side.plugins.follow()
        await node.wait_registered(OTHER)

        assert side.plugins.kubelet_restarts == 1
        assert set(side.plugins.registrations()) == {OTHER}
