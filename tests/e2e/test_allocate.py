"""Allocate and PreStartContainer over the wire, on disks that fail.

One daemon serves all tests here, as one serves a node for months: whatever a test breaks and cures, the next finds it
working.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from tests.e2e.daemon import CAPACITY, RESOURCE, Daemon, Stand, a_stand, asking, dev, granted_name, needs_root, plugin
from tests.integration.filesystem import NOBODY, run, tmpfs

pytestmark = pytest.mark.asyncio(loop_scope="module")

BALLAST = "state.db.ballast"


class Served:
    """The daemon, its stand, and a client such as the kubelet has."""

    def __init__(self, stand: Stand, daemon: Daemon, client: api_pb2_grpc.DevicePluginStub) -> None:
        self.stand = stand
        self.daemon = daemon
        self.client = client

    async def grant(self, *ids: str) -> str:
        """Have one container granted, and return the allocation."""
        return granted_name(await self.client.Allocate(asking(ids)))

    async def refused(self, *requests: list[str]) -> aio.AioRpcError:
        """Have a call refused that leaves no directory and no record, as the log tells of it."""
        before = self.stand.directories
        with pytest.raises(aio.AioRpcError) as refusal:
            await self.client.Allocate(asking(*requests))
        await self.daemon.until(
            lambda: self.daemon.said(
                "a call of the kubelet was refused", call="Allocate", reason=refusal.value.details()
            )
        )

        assert self.stand.directories == before
        return refusal.value


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with a_stand() as stand:
        # Nobody stores what is granted here, so it must not be released while it is looked at.
        stand.configuration["reconcile"] = {"interval": "1s", "grace": "1h"}
        async with AsyncExitStack() as stack:
            if os.geteuid() == 0:
                stack.enter_context(tmpfs(stand.host_dir, "size=2m,nr_inodes=200,mode=0711"))
                stack.enter_context(tmpfs(stand.state_dir, "size=1m,mode=0700"))
            yield await stack.enter_async_context(_serving(stand))


@asynccontextmanager
async def _serving(stand: Stand) -> AsyncIterator[Served]:
    daemon = await stand.registered()
    async with plugin(stand.node.plugin_dir / await daemon.registered()) as client:
        yield Served(stand, daemon, client)
    await daemon.stop()


@contextmanager
def filled(path: Path) -> Iterator[None]:
    """Fill the file system of a file that did not exist, for the length of a block."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            continue
    try:
        yield
    finally:
        path.unlink()


class TestRefused:
    async def test_an_id_that_the_pool_does_not_have(self, served: Served) -> None:
        error = await served.refused([dev(1), dev(CAPACITY)])

        assert error.code() is grpc.StatusCode.NOT_FOUND
        assert error.details() == f"device id '{dev(CAPACITY)}' is not one of the {CAPACITY} devices of {RESOURCE}"

    async def test_an_id_twice(self, served: Served) -> None:
        error = await served.refused([dev(1), dev(1)])

        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert error.details() == f"device id '{dev(1)}' is named twice in one container request"

    @pytest.mark.parametrize("requests", [[], [[]], [[dev(1)], []]], ids=["no request", "no ids", "one without ids"])
    async def test_nothing_asked(self, served: Served, requests: list[list[str]]) -> None:
        error = await served.refused(*requests)

        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert error.details() == f"a container request for {RESOURCE} names no device id"

    async def test_a_start_of_a_container_that_nobody_knows(self, served: Served) -> None:
        """The kubelet tries again; and it gets the list once more, at which it writes its record anew."""
        lists = sum(call.what == "list" for call in served.stand.node.calls)
        with pytest.raises(aio.AioRpcError) as refusal:
            await served.client.PreStartContainer(api_pb2.PreStartContainerRequest(devices_ids=[dev(7)]))
        await served.stand.node.until(lambda: sum(call.what == "list" for call in served.stand.node.calls) > lists)

        assert refusal.value.code() is grpc.StatusCode.NOT_FOUND
        assert str(refusal.value.details()).startswith(f"no memif allocation is known for {dev(7)}: ")

    async def test_the_start_of_a_container_without_devices_is_fine(self, served: Served) -> None:
        await served.client.PreStartContainer(api_pb2.PreStartContainerRequest())


class TestGranted:
    async def test_requests_of_one_call_are_answered_in_order(self, served: Served) -> None:
        answer = await served.client.Allocate(asking([dev(1)], [dev(3), dev(2)]))

        names = [each.mounts[0].host_path.rpartition("/")[2] for each in answer.container_responses]
        assert len(set(names)) == 2
        assert set(names) <= served.stand.directories
        await served.daemon.says("allocated", allocation=names[1], devices=[dev(2), dev(3)])

    async def test_calls_at_once_are_granted_each_for_itself(self, served: Served) -> None:
        names = await asyncio.gather(*(served.grant(dev(index % CAPACITY)) for index in range(20)))

        assert len(set(names)) == 20
        assert set(names) <= served.stand.directories


@needs_root
class TestTheBaseDirectoryFails:
    async def test_no_space(self, served: Served) -> None:
        """Whoever uses the most is named: that pod's owner can help."""
        largest = await served.grant(dev(1))
        with filled(served.stand.host_dir / largest / "capture.pcap"):
            error = await served.refused([dev(2)])

        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert f"the file system of {served.stand.host_dir} is short of space: " in str(error.details())
        assert f"the largest directory is {largest} with 1 entries" in str(error.details())
        assert await served.grant(dev(2)) in served.stand.directories

    async def test_no_inodes(self, served: Served) -> None:
        largest = await served.grant(dev(1))
        entries = []
        with suppress(OSError):
            for number in range(1000):
                (served.stand.host_dir / largest / f"core.{number}").symlink_to("x")
                entries.append(served.stand.host_dir / largest / f"core.{number}")
        error = await served.refused([dev(2)])
        for each in entries:
            each.unlink()

        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert f"the file system of {served.stand.host_dir} is short of inodes: " in str(error.details())
        assert f"the largest directory is {largest} with {len(entries)} entries" in str(error.details())
        assert await served.grant(dev(2)) in served.stand.directories

    async def test_read_only(self, served: Served) -> None:
        run("mount", "-o", "remount,ro", str(served.stand.host_dir))
        error = await served.refused([dev(2)])
        run("mount", "-o", "remount,rw", str(served.stand.host_dir))

        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "Read-only file system; remount its file system writable" in str(error.details())
        assert await served.grant(dev(2)) in served.stand.directories

    async def test_somebody_elses(self, served: Served) -> None:
        os.chown(served.stand.host_dir, NOBODY, NOBODY)
        error = await served.refused([dev(2)])
        os.chown(served.stand.host_dir, 0, 0)

        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert str(error.details()).endswith(f"; find out who made it, then chown 0 {served.stand.host_dir}")
        assert await served.grant(dev(2)) in served.stand.directories

    async def test_writable_by_others(self, served: Served) -> None:
        served.stand.host_dir.chmod(0o777)
        error = await served.refused([dev(2)])
        served.stand.host_dir.chmod(0o711)

        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert str(error.details()).endswith(f"; chmod go-w {served.stand.host_dir}")
        assert await served.grant(dev(2)) in served.stand.directories


@needs_root
class TestTheJournalFails:
    async def test_its_disk_is_full(self, served: Served) -> None:
        before = served.stand.directories
        with filled(served.stand.state_dir / BALLAST):
            # What is left of pages that SQLite has already may hold a few more records.
            for _ in range(200):
                try:
                    await served.grant(dev(1))
                except aio.AioRpcError:
                    break
            error = await served.refused([dev(2)])

        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert f"the journal {served.stand.state_dir}/state.db cannot be " in str(error.details())
        assert "no space or inode is left on its file system" in str(error.details())
        assert await served.grant(dev(2)) in served.stand.directories
        assert before < served.stand.directories

    async def test_it_is_removed(self, served: Served) -> None:
        """What it held is needed, so a new one is only made at a start."""
        state = served.stand.state_dir
        kept = state / "state.db.kept"
        (state / "state.db").rename(kept)
        error = await served.refused([dev(2)])
        kept.rename(state / "state.db")

        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "restart the daemon, which makes a new one from the kubelet's checkpoint" in str(error.details())
        assert await served.grant(dev(2)) in served.stand.directories


async def test_at_the_end_directories_and_records_agree(served: Served) -> None:
    """The last of this module: no refused call left a directory without a record, or a record without one."""
    assert await served.daemon.stop() == 0

    assert served.stand.recorded == served.stand.directories != set()
    assert all("Traceback" not in line for line in served.daemon.stderr)


class TestReplaced:
    """While the daemon runs, by somebody who may write where it lies."""

    @pytest_asyncio.fixture(loop_scope="module")
    async def stand(self) -> AsyncIterator[Stand]:
        async with a_stand() as made:
            yield made

    async def test_a_base_directory_that_became_a_symbolic_link_is_refused_until_it_is_a_directory_again(
        self, stand: Stand
    ) -> None:
        daemon = await stand.registered()
        elsewhere = stand.root / "elsewhere"
        elsewhere.mkdir()
        stand.host_dir.rename(stand.root / "aside")
        stand.host_dir.symlink_to(elsewhere)
        async with plugin(stand.node.plugin_dir / await daemon.registered()) as client:
            with pytest.raises(aio.AioRpcError) as refusal:
                await client.Allocate(asking([dev(1)]))
            assert list(elsewhere.iterdir()) == []
            stand.host_dir.unlink()
            name = granted_name(await client.Allocate(asking([dev(1)])))

        assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert str(refusal.value.details()).startswith(f"{stand.host_dir} is a symbolic link to '{elsewhere}'")
        assert name in stand.directories
        assert await daemon.stop() == 0
        assert stand.recorded == {name}
