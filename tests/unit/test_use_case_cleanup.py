"""Uninstalling, on a node of fakes."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.device_info import MemoryDeviceInfo
from adapters.memory.kubelet import MemoryPodResources
from adapters.memory.runtime import MemoryRuntime
from adapters.memory.sockets import MemorySockets
from app.use_cases.cleanup import Cleaned, Cleanup, Survey
from domain.device_info import files
from domain.evidence import Absent, CheckpointView, Unknown
from domain.ledger import Standing
from domain.ports.journal import Recovered
from domain.ports.sockets import DirectoryUnusable
from domain.ports.traces import Taken
from tests.unit.domain_values import RESOURCE, a_checkpoint, a_pool, a_sandbox, an_entry, an_object, an_owner, numbered

POOL = a_pool()
EARLIER = a_pool(host_dir="/run/earlier")
ONE, TWO = numbered(1, owner=an_owner()), numbered(2, pool=EARLIER)
ENTRY = an_entry(ONE)


class Record:
    """The kubelet's record, as it happens to be."""

    def __init__(self) -> None:
        self.view: CheckpointView | Unknown = Absent("there is no record")

    def read(self) -> CheckpointView | Unknown:
        """See the port."""
        return self.view


@dataclass
class Bases:
    """Base directories of which some exist."""

    there: set[str]
    symlinks: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)

    def exists(self, host_dir: str) -> bool:
        """See the port."""
        if host_dir in self.symlinks:
            raise DirectoryUnusable(f"{host_dir} is a symbolic link; remove it")
        return host_dir in self.there

    def remove(self, host_dir: str) -> bool:
        """See the port."""
        if host_dir in self.kept:
            return False
        self.there.discard(host_dir)
        return True


@dataclass
class Files:
    """Files of one kind."""

    paths: tuple[str, ...]
    obstacles: tuple[str, ...] = ()

    def there(self) -> tuple[str, ...]:
        """See the port."""
        return self.paths

    def remove(self) -> Taken:
        """See the port."""
        removed, self.paths = self.paths, ()
        return Taken(removed=removed, obstacles=self.obstacles)


class Node:
    """A node on which the plugin ran; it knows one allocation of the pool, and one of an earlier pool."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.sockets = MemorySockets(clock, entries_a_pass=5)
        self.bases = Bases({POOL.host_dir, EARLIER.host_dir})
        self.sockets_left, self.journal = Files(("/plugins/ours.sock",)), Files(("/state/state.db", "/state/lock"))
        self.device_info = MemoryDeviceInfo()
        self.runtime = MemoryRuntime(clock)
        self.record = Record()
        self.pod_resources = MemoryPodResources()
        self.recorded = Recovered(allocations=((ONE, Standing.LIVE), (TWO, Standing.RELEASING)), pools=(POOL, EARLIER))
        for each in (ONE, TWO):
            self.sockets.make(each.directory)
        self.cleanup = Cleanup(
            sockets=self.sockets,
            bases=self.bases,
            device_info=self.device_info,
            traces=(self.sockets_left, self.journal),
            runtime=self.runtime,
            checkpoint=self.record,
            pod_resources=self.pod_resources,
        )

    async def survey(self) -> Survey:
        """Look at the node."""
        return await self.cleanup.survey((POOL,), self.recorded)

    async def clean(self) -> Cleaned:
        """Look and remove."""
        return self.cleanup.remove(await self.survey())


@pytest.fixture
def node() -> Node:
    return Node()


async def test_everything_goes_that_of_earlier_pools_too(node: Node) -> None:
    cleaned = await node.clean()

    assert cleaned.removed == (
        TWO.directory.path,
        ONE.directory.path,
        EARLIER.host_dir,
        POOL.host_dir,
        "/plugins/ours.sock",
        "/state/state.db",
        "/state/lock",
    )
    assert not node.sockets.exists(ONE.directory)
    assert (cleaned.left, cleaned.obstacles, node.bases.there) == ((), (), set())


async def test_a_look_tells_all_that_and_changes_nothing(node: Node) -> None:
    survey = await node.survey()

    assert set(survey.paths) == set((await node.clean()).removed)
    assert (survey.users, survey.doubts) == ((), ())


async def test_a_base_directory_that_is_not_there_is_not_made(node: Node) -> None:
    node.bases.there.clear()
    await node.clean()

    assert not [each for each in node.sockets.asked if each.startswith("look")]


async def test_what_nobody_knows_goes_as_well(node: Node) -> None:
    unknown = numbered(9).directory
    node.sockets.make(unknown)

    assert unknown.path in (await node.clean()).removed


async def test_what_the_journal_knows_goes_with_all_that_belongs_to_it(node: Node) -> None:
    assert ONE.directory in (await node.survey()).directories


async def test_unfinished_removals_are_finished(node: Node) -> None:
    node.sockets.litter(ONE.directory, 8)
    assert node.sockets.remove(ONE.directory).more
    await node.clean()

    assert not node.sockets.waiting(POOL.host_dir)


async def test_a_removal_takes_as_many_passes_as_it_needs(node: Node) -> None:
    node.sockets.litter(ONE.directory, 23)

    assert (await node.clean()).obstacles == ()
    assert not node.sockets.waiting(POOL.host_dir)


async def test_what_is_not_ours_is_left_and_named(node: Node) -> None:
    node.sockets.add_stranger(POOL.host_dir, "README")
    node.bases.kept.add(POOL.host_dir)

    assert (await node.clean()).left == (f"{POOL.host_dir}/README", POOL.host_dir)


async def test_a_base_directory_that_cannot_be_removed_is_not_said_to_be(node: Node) -> None:
    node.bases.kept.add(POOL.host_dir)

    cleaned = await node.clean()

    assert POOL.host_dir not in cleaned.removed
    assert (cleaned.left, cleaned.obstacles) == ((POOL.host_dir,), ())


async def test_what_stands_in_the_way_leaves_the_journal(node: Node) -> None:
    node.sockets.obstruct(ONE.directory)

    cleaned = await node.clean()

    assert len(cleaned.obstacles) == 1
    assert "a mount point is in it" in cleaned.obstacles[0]
    assert ONE.directory.path not in cleaned.removed
    assert TWO.directory.path in cleaned.removed
    assert node.journal.paths == ("/state/state.db", "/state/lock")


async def test_a_base_directory_that_is_a_link_is_an_obstacle(node: Node) -> None:
    node.bases.symlinks.add(POOL.host_dir)

    cleaned = await node.clean()

    assert cleaned.obstacles == (f"{POOL.host_dir} is a symbolic link; remove it",)
    assert node.journal.paths


async def test_files_that_stay_are_told(node: Node) -> None:
    node.journal.obstacles = ("/state/state.db: Operation not permitted",)

    assert (await node.clean()).obstacles == ("/state/state.db: Operation not permitted",)


class TestDeviceInformation:
    async def test_what_tells_of_our_devices_goes_that_of_earlier_pools_too(self, node: Node) -> None:
        pool, earlier = replace(POOL, device_info_dir="/info"), replace(EARLIER, device_info_dir="/old")
        others = {"example.com-nic-1-device.json": "{}"}
        node.device_info.write("/info", files(pool, (ONE,)) | others)
        node.device_info.write("/old", files(earlier, (TWO,)))
        node.recorded = replace(node.recorded, pools=(earlier,))

        cleaned = node.cleanup.remove(await node.cleanup.survey((pool,), node.recorded))

        assert node.device_info.directories == {"/info": others, "/old": {}}
        assert {"/info/contivpp.io-memif-contivpp.io-memif-1-device.json"} < set(cleaned.removed)

    async def test_what_stays_of_it_is_told(self, node: Node) -> None:
        node.device_info.fail_next(DirectoryUnusable("/info is read-only; remount it"))
        survey = await node.cleanup.survey((replace(POOL, device_info_dir="/info"),), node.recorded)

        assert node.cleanup.remove(survey).obstacles == ("/info is read-only; remount it",)
        assert node.journal.paths


class TestUse:
    async def test_by_a_container_that_mounts(self, node: Node) -> None:
        node.runtime.put(an_object(ONE))

        assert (await node.survey()).users == (f"{ONE.id} by container:c0ffee",)

    async def test_by_a_container_that_only_says_so(self, node: Node) -> None:
        node.runtime.put(an_object(claimed={"io.contivpp.memif.socket.host": TWO.host_socket}))

        assert (await node.survey()).users == (f"{TWO.id} by container:c0ffee",)

    async def test_by_a_pod_whose_container_is_not_there_at_the_moment(self, node: Node) -> None:
        node.record.view = a_checkpoint(ENTRY)
        node.runtime.put(a_sandbox(an_owner()))

        assert (await node.survey()).users == (f"{ONE.id} by the pod of uid {ENTRY.uid}",)

    async def test_by_a_pod_of_which_only_the_kubelet_tells(self, node: Node) -> None:
        node.record.view = a_checkpoint(ENTRY)
        node.pod_resources.put("telco", "cnf", {"dataplane": {RESOURCE: ENTRY.devices}})

        assert (await node.survey()).users == (f"{ONE.id} by pod telco/cnf",)

    async def test_another_s_devices_are_no_use(self, node: Node) -> None:
        node.record.view = a_checkpoint(ENTRY)
        node.pod_resources.put("telco", "other", {"app": {RESOURCE: numbered(7).devices}})

        survey = await node.survey()

        assert (survey.users, survey.doubts) == ((), ())

    async def test_the_kubelet_is_asked_only_where_it_matters(self, node: Node) -> None:
        node.runtime.put(a_sandbox(an_owner()))
        await node.survey()

        assert node.pod_resources.asked == []


class TestDoubt:
    async def test_the_runtime_is_unknown(self, node: Node) -> None:
        node.runtime.cut()

        assert (await node.survey()).doubts == ("who mounts what is unknown: the runtime does not answer",)

    async def test_the_record_is_not_understood(self, node: Node) -> None:
        node.record.view = Unknown("it is not JSON")

        assert (await node.survey()).doubts == ("what the kubelet would mount is unknown: it is not JSON",)

    async def test_there_is_no_record(self, node: Node) -> None:
        assert (await node.survey()).doubts == ()

    async def test_no_pod_is_seen_and_the_kubelet_is_silent(self, node: Node) -> None:
        node.record.view = a_checkpoint(ENTRY)
        node.pod_resources.cut()

        (doubt,) = (await node.survey()).doubts

        assert ONE.id in doubt
        assert doubt.endswith("the kubelet is silent: the kubelet does not answer")

    async def test_other_pods_are_seen_and_the_kubelet_is_silent(self, node: Node) -> None:
        node.record.view = a_checkpoint(ENTRY)
        node.runtime.put(a_sandbox(an_owner(uid="another")))
        node.pod_resources.cut()

        survey = await node.survey()

        assert (survey.users, survey.doubts) == ((), ())


@pytest.mark.parametrize("change", [{"resource": "example.com/other"}, {"devices": ("contivpp.io/memif/77",)}])
async def test_a_pod_is_a_user_only_with_the_device_of_the_entry(node: Node, change: dict[str, Any]) -> None:
    node.record.view = a_checkpoint(replace(ENTRY, **change))
    node.pod_resources.put("telco", "cnf", {"dataplane": {RESOURCE: ENTRY.devices}})

    assert (await node.survey()).users == ()
