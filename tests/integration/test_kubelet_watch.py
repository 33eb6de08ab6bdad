"""Noticing what happens in the plugin directory."""
# ruff: noqa: ASYNC240 -- nobody waits while a test looks at the disk

import asyncio
import errno
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from adapters.kubelet import watch
from adapters.kubelet.directory import PluginDirectory
from adapters.kubelet.watch import DirectoryWatch
from tests.integration.kubelet import NEVER, PATIENCE, Told, a_directory, things, until


class Watched:
    """A directory that is watched, and how often somebody was woken."""

    def __init__(self, path: Path, *, inotify: bool = True) -> None:
        self.path = path
        self.told = Told()
        directory = PluginDirectory(path=str(path), kubelet_socket="kubelet.sock", endpoint="contiv-vpp.sock")
        self.watch = DirectoryWatch(directory=directory, reports=self.told, inotify=inotify)
        self.wakes = 0
        self.unsubscribe = self.watch.subscribe(self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    async def woken(self, more: int = 1) -> None:
        """Wait until there were so many more wakes."""
        wanted = self.wakes + more
        await until(lambda: self.wakes >= wanted)

    async def quiet(self) -> int:
        """Let the loop and the kernel deliver what is on its way, and return how often that woke somebody."""
        before = self.wakes
        for _ in range(20):
            await asyncio.sleep(0)
        return self.wakes - before


@asynccontextmanager
async def watching(path: Path, *, inotify: bool = True) -> AsyncIterator[Watched]:
    watched = Watched(path, inotify=inotify)
    task = asyncio.create_task(watched.watch.run(), name="watch")
    try:
        await until(lambda: watched.wakes > 0 or not path.exists() or task.done())
        yield watched
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def path() -> Iterator[Path]:
    with a_directory() as made:
        yield made / "device-plugins"


@pytest.fixture
def only_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks for himself when inotify says nothing, so that it shows whether inotify did."""
    monkeypatch.setattr(watch, "FLOOR", NEVER)


@pytest.mark.usefixtures("only_events")
class TestInotify:
    async def test_whoever_waits_is_woken_once_when_the_watch_begins(self, path: Path) -> None:
        """Something may have happened before."""
        path.mkdir()
        async with watching(path) as watched:
            assert watched.wakes == 1

    async def test_every_coming_and_going_wakes(self, path: Path) -> None:
        path.mkdir()
        async with watching(path) as watched:
            file = path / "kubelet.sock"
            for change in (file.touch, lambda: file.rename(path.parent / "away"), file.touch, file.unlink):
                waiting = asyncio.create_task(watched.woken())
                await asyncio.sleep(0)
                change()
                await waiting

            (path.parent / "away").rename(file)
            await until(lambda: watched.wakes >= 6)

    async def test_a_file_that_is_only_written_to_wakes_nobody(self, path: Path) -> None:
        path.mkdir()
        file = path / "kubelet_internal_checkpoint"
        file.touch()
        async with watching(path) as watched:
            file.write_text("x", encoding="utf-8")

            assert await watched.quiet() == 0

    async def test_what_happens_in_another_directory_wakes_nobody(self, path: Path) -> None:
        """Another plugin watched the wrong one of two directories, and never saw a restart of the kubelet."""
        path.mkdir()
        other = path.parent / "memif"
        other.mkdir()
        async with watching(path) as watched:
            (other / "kubelet.sock").touch()
            assert await watched.quiet() == 0
            (path / "kubelet.sock").touch()

            await watched.woken()

    async def test_a_directory_that_is_made_later_is_watched_from_then_on(self, path: Path) -> None:
        async with watching(path) as watched:
            path.mkdir()
            await watched.woken()
            (path / "kubelet.sock").touch()
            await watched.woken()

        assert watched.told.warnings == []

    async def test_a_directory_that_is_made_anew_is_watched_again_although_it_has_the_same_inode(
        self, path: Path
    ) -> None:
        """File systems give a freed number to the next directory at once, and the old watch is dead."""
        path.mkdir()
        async with watching(path) as watched:
            for _ in range(5):
                path.rmdir()
                path.mkdir()
                await watched.woken()
                await watched.quiet()
                (path / "kubelet.sock").touch()
                await watched.woken()
                (path / "kubelet.sock").unlink()
                await watched.woken()

    async def test_a_directory_that_is_replaced_is_watched_again(self, path: Path) -> None:
        path.mkdir()
        async with watching(path) as watched:
            path.rename(path.parent / "away")
            path.mkdir()
            await watched.woken(2)
            (path / "kubelet.sock").touch()
            await watched.woken()

    async def test_it_leaves_no_descriptor_when_it_ends(self, path: Path) -> None:
        path.mkdir()
        before = things()
        for _ in range(5):
            async with watching(path):
                assert things().descriptors > before.descriptors

        await until(lambda: things().within(before))


class TestWithoutInotify:
    @pytest.mark.usefixtures("only_events")
    async def test_it_is_looked_and_nobody_is_warned_if_that_was_wanted(self, path: Path) -> None:
        path.mkdir()
        async with watching(path, inotify=False) as watched:
            (path / "kubelet.sock").touch()
            await watched.woken()
            (path / "kubelet.sock").unlink()
            await watched.woken()

        assert watched.told.warnings == []

    @pytest.mark.usefixtures("only_events")
    async def test_a_socket_that_replaces_another_is_seen(self, path: Path) -> None:
        """The directory's own time may be too coarse to tell."""
        path.mkdir()
        (path / "kubelet.sock").touch()
        async with watching(path, inotify=False) as watched:
            (path / "new").touch()
            await watched.woken()
            (path / "new").rename(path / "kubelet.sock")
            await watched.woken()

    @pytest.mark.usefixtures("only_events")
    async def test_a_directory_that_comes_and_goes_is_seen(self, path: Path) -> None:
        async with watching(path, inotify=False) as watched:
            for change in (path.mkdir, path.rmdir, path.mkdir):
                waiting = asyncio.create_task(watched.woken())
                await asyncio.sleep(0)
                change()
                await waiting

    @pytest.mark.usefixtures("only_events")
    @pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSYS, errno.ENOMEM])
    async def test_where_there_is_no_inotify_the_directory_is_polled_and_that_is_told_once(
        self, path: Path, mocker: MockerFixture, number: int
    ) -> None:
        mocker.patch("adapters.kubelet.watch.Inotify", side_effect=OSError(number, "no inotify"))
        path.mkdir()
        async with watching(path) as watched:
            for _ in range(3):
                (path / "kubelet.sock").touch()
                await watched.woken()
                (path / "kubelet.sock").unlink()
                await watched.woken()
            path.rmdir()
            await watched.woken()
            path.mkdir()
            await watched.woken()

        ((event, facts),) = watched.told.warnings
        assert event == "inotify cannot be used; the plugin directory is polled instead"
        assert facts["reason"] == "no inotify"
        assert "max_user_instances" in str(facts["cure"])

    @pytest.mark.usefixtures("only_events")
    async def test_where_there_are_no_watches_left_the_directory_is_polled(
        self, path: Path, mocker: MockerFixture
    ) -> None:
        mocker.patch("adapters.kubelet.watch.Inotify.add_watch", side_effect=OSError(errno.ENOSPC, "no watches"))
        path.mkdir()
        before = things()
        async with watching(path) as watched:
            (path / "kubelet.sock").touch()
            await watched.woken()

        assert watched.told.reasons("inotify cannot be used; the plugin directory is polled instead") == ["no watches"]
        await until(lambda: things().within(before))

    async def test_where_events_get_lost_everybody_looks_for_himself_from_time_to_time(
        self, path: Path, mocker: MockerFixture
    ) -> None:
        """The queue of events is bounded, and the kubelet's directory is noisy."""

        async def nothing(_: object) -> None:
            await asyncio.sleep(PATIENCE)

        mocker.patch("adapters.kubelet.watch.Inotify.get", nothing)
        path.mkdir()
        async with watching(path) as watched:
            await watched.woken(2)


class TestMissing:
    """What is not there cannot be watched, and may come and go between two looks."""

    @pytest.mark.parametrize("inotify", [True, False], ids=["inotify", "polling"])
    async def test_everybody_looks_for_himself_from_time_to_time(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, *, inotify: bool
    ) -> None:
        monkeypatch.setattr(watch, "FLOOR", 0.01)
        async with watching(path, inotify=inotify) as watched:
            await watched.woken(3)

        assert watched.told.warnings == []

    @pytest.mark.usefixtures("only_events")
    async def test_a_directory_that_is_removed_wakes_everybody_once_more(self, path: Path) -> None:
        path.mkdir()
        (path / "contiv-vpp.abcdefgh-0.sock").touch()
        async with watching(path) as watched:
            shutil.rmtree(path)
            await watched.woken()


class TestSubscribers:
    async def test_everybody_is_woken(self, path: Path) -> None:
        path.mkdir()
        async with watching(path) as watched:
            other = asyncio.Event()
            watched.watch.subscribe(other.set)
            (path / "x").touch()
            async with asyncio.timeout(10):
                await other.wait()

    async def test_who_has_unsubscribed_is_not(self, path: Path) -> None:
        path.mkdir()
        async with watching(path) as watched:
            other = asyncio.Event()
            watched.watch.subscribe(other.set)
            watched.unsubscribe()
            before = watched.wakes
            (path / "x").touch()
            async with asyncio.timeout(10):
                await other.wait()

            assert watched.wakes == before

    async def test_who_unsubscribes_when_woken_disturbs_nobody(self, path: Path) -> None:
        path.mkdir()
        async with watching(path) as watched:
            woken = list[str]()

            def once() -> None:
                woken.append("once")
                leave()

            leave = watched.watch.subscribe(once)
            watched.watch.subscribe(lambda: woken.append("always"))
            (path / "x").touch()
            await until(lambda: "always" in woken)
            (path / "x").unlink()
            await until(lambda: woken.count("always") >= 2)

        assert woken.count("once") == 1
