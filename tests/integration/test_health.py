"""The health of devices, from real disks through the daemon to the kubelet."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from adapters.control.client import ControlClient
from adapters.memory.node import Pod
from tests.integration.daemon import CAPACITY, RESOURCE, House, Stand, a_stand
from tests.integration.filesystem import NOBODY, needs_root, run, tmpfs
from tests.integration.nodes import app, pod

ILL = "the devices of a pool are unhealthy"
WELL = "the devices of a pool are healthy again"


@pytest.fixture
async def stand(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stand]:
    monkeypatch.setattr("app.daemon.LOOK", 0.01)
    async with a_stand() as made:
        yield made


async def allocatable(stand: Stand, count: int) -> None:
    """Wait until the node shows so many devices that can be had; the others are there all the same."""
    await stand.node.until(lambda: stand.node.resources()[RESOURCE].allocatable == count)

    assert stand.node.resources()[RESOURCE].capacity == CAPACITY


async def ill(stand: Stand, house: House) -> str:
    """Wait until no device is healthy, and return why."""
    await allocatable(stand, 0)
    return str(house.heard.warnings[-1][1]["reason"])


def lists(stand: Stand) -> int:
    """Return how many device lists the kubelet got."""
    return sum(call.what == "list" for call in stand.node.calls)


async def looked(house: House, times: int = 2) -> None:
    """Look so often at once."""
    for _ in range(times):
        await house.container.check_health()()


async def untouched(stand: Stand, one: Pod, before: dict[str, int]) -> None:
    """Make sure that a running pod kept what it has."""
    assert stand.directories == before
    await stand.node.restart_container(one, "a")
    assert one.container("a").running


class TestABaseDirectory:
    @needs_root
    async def test_whose_file_system_turns_read_only(self, stand: Stand) -> None:
        with tmpfs(stand.host_dir, "size=1m,mode=0711"):
            house = await stand.serve()
            one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
            before = stand.directories
            run("mount", "-o", "remount,ro", str(stand.host_dir))
            told = await ill(stand, house)
            status = await ControlClient(str(stand.root / "control.sock")).status()
            refused = await stand.node.admit(pod("two", app("a", 1, RESOURCE)))
            run("mount", "-o", "remount,rw", str(stand.host_dir))
            await allocatable(stand, CAPACITY)
            await untouched(stand, one, before)
            granted = await stand.node.start(pod("three", app("a", 1, RESOURCE)))
            await house.stop()

        assert told.startswith(f"the file system of {stand.host_dir} is read-only; remount it writable")
        assert status["pools"][0]["reason"] == f"devices are unhealthy: {told}"
        assert "no healthy devices present; cannot allocate unhealthy devices" in refused.message
        assert granted.running
        assert house.heard.warned == [ILL]
        assert house.heard.noted.count(WELL) == 1

    @needs_root
    async def test_that_becomes_somebody_elses(self, stand: Stand) -> None:
        house = await stand.serve()
        one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
        before = stand.directories
        os.chown(stand.host_dir, NOBODY, NOBODY)
        told = await ill(stand, house)
        os.chown(stand.host_dir, 0, 0)
        await allocatable(stand, CAPACITY)
        await untouched(stand, one, before)

        assert told.startswith(f"{stand.host_dir} belongs to uid {NOBODY} and not to uid 0")

    async def test_that_others_may_write_to(self, stand: Stand) -> None:
        house = await stand.serve()
        stand.host_dir.chmod(0o777)
        told = await ill(stand, house)
        stand.host_dir.chmod(0o711)
        await allocatable(stand, CAPACITY)

        assert told.endswith(f"; chmod go-w {stand.host_dir}")

    async def test_in_whose_place_a_symbolic_link_was_put(self, stand: Stand) -> None:
        house = await stand.serve()
        away = stand.host_dir.rename(stand.root / "away")
        stand.host_dir.symlink_to(away)
        told = await ill(stand, house)
        stand.host_dir.unlink()
        await allocatable(stand, CAPACITY)

        assert told.startswith(f"{stand.host_dir} is a symbolic link to '{away}'")
        assert stand.host_dir.is_dir()

    async def test_that_is_removed_is_made_again_and_nobody_notices(self, stand: Stand) -> None:
        house = await stand.serve()
        before = lists(stand)
        stand.host_dir.rmdir()
        await house.until(stand.host_dir.is_dir)

        assert lists(stand) == before
        assert house.heard.warned == []

    @needs_root
    async def test_that_is_full_keeps_its_devices(self, stand: Stand) -> None:
        """A pod can fill it; then Allocate fails, and says who did."""
        with tmpfs(stand.host_dir, "size=256k,mode=0711"):
            house = await stand.serve()
            await stand.node.start(pod("one", app("a", 1, RESOURCE)))
            (name,) = stand.directories
            fill(stand.host_dir / name / "log")
            refused = await stand.node.admit(pod("two", app("a", 1, RESOURCE)))
            before = lists(stand)
            await looked(house, 5)
            await allocatable(stand, CAPACITY)
            await house.stop()

        assert "code = ResourceExhausted" in refused.message
        assert name in refused.message
        assert lists(stand) == before


class TestTheJournal:
    async def test_that_is_removed_needs_a_restart(self, stand: Stand) -> None:
        """What it held is adopted from the kubelet's own record."""
        house = await stand.serve()
        one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
        before = stand.directories
        (stand.state_dir / "state.db").unlink()
        told = await ill(stand, house)
        await house.stop()
        again = await stand.serve(instance="two")
        await allocatable(stand, CAPACITY)
        await untouched(stand, one, before)

        assert "was removed while in use; restart the daemon" in told
        assert [each.id for each in again.live] == list(before)

    @needs_root
    async def test_whose_disk_is_full_is_told_after_the_first_change_that_failed(
        self, stand: Stand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What the journal gives up when it cannot write, its log, somebody else takes before it is looked at."""
        monkeypatch.setattr("app.daemon.LOOK", 3600.0)
        with tmpfs(stand.state_dir, "size=512k,mode=0700"):
            house = await stand.serve()
            one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
            before = stand.directories
            ballast = [stand.state_dir / f"state.db.ballast{number}" for number in range(2)]
            fill(ballast[0])
            await looked(house)
            await allocatable(stand, CAPACITY)
            refused = await stand.node.admit(pod("two", app("a", 1, RESOURCE)))
            fill(ballast[1])
            await looked(house)
            told = await ill(stand, house)
            found = await house.container.look_up()("telco", "one")
            for each in ballast:
                each.unlink()
            await looked(house)
            await allocatable(stand, CAPACITY)
            await untouched(stand, one, before)
            await house.stop()

        assert "code = FailedPrecondition" in refused.message
        assert "no space or inode is left on its file system" in told
        assert [each.allocation.id for each in found.containers] == list(before)

    @needs_root
    async def test_whose_directory_is_mounted_read_only(self, stand: Stand) -> None:
        """Told before any change fails: over what is open already, it could still be written to for a while."""
        house = await stand.serve()
        run("mount", "--bind", str(stand.state_dir), str(stand.state_dir))
        run("mount", "-o", "remount,bind,ro", str(stand.state_dir))
        told = await ill(stand, house)
        run("umount", str(stand.state_dir))
        await allocatable(stand, CAPACITY)

        assert f"the journal {stand.state_dir}/state.db cannot be used: it is read-only" in told


class TestStorageThatHangs:
    async def test_and_comes_back(self, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("app.use_cases.check_health.BUDGET", 0.1)
        house = await stand.serve()
        one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
        before = stand.directories
        over = threading.Event()
        hanging = asyncio.create_task(house.container.worker().run("a job that hangs", over.wait))
        told = await ill(stand, house)
        over.set()
        await hanging
        await allocatable(stand, CAPACITY)
        await untouched(stand, one, before)

        assert told == "storage hangs: looking at it took longer than 0.1 s; see dmesg"


class TestLookingAfterHealthItself:
    async def test_that_fails_ends_the_daemon(self, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
        """It must not leave devices healthy by default."""

        def broken() -> None:
            raise ZeroDivisionError

        house = await stand.serve()
        monkeypatch.setattr(house.container.journal(), "check", broken)
        with pytest.raises(ExceptionGroup) as ending:
            await house.ended()
        stand.houses.remove(house)  # it has said what there is to say

        assert ending.group_contains(ZeroDivisionError)
        assert list(stand.node.plugin_dir.glob("contiv*")) == []
        assert not house.container.lock().held


def fill(path: Path) -> None:
    """Write a file until its file system is full."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
