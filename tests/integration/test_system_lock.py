"""Of two processes on one node exactly one is active: real processes and the kernel's real lock."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.memory.clock import ManualClock
from adapters.system import lock as module
from adapters.system.clock import SystemClock
from adapters.system.lock import Holder, LockLost, LockUnusable, NodeLock

ROOT = Path(__file__).parents[2]

HOLDS = """
import sys
from adapters.system.clock import SystemClock
from adapters.system.lock import NodeLock

lock = NodeLock(sys.argv[1], "first", "1.0", SystemClock())
print(lock.try_acquire(), flush=True)
lock.beat()
sys.stdin.read()
"""


@contextmanager
def another_process_holds(path: Path) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def released_after(lock: NodeLock) -> Iterator[NodeLock]:
    try:
        yield lock
    finally:
        lock.release()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "lock"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def lock(path: Path, clock: ManualClock) -> Iterator[NodeLock]:
    lock = NodeLock(path, "one", "1.2", clock)
    yield lock
    lock.release()


@pytest.fixture
def other(path: Path, clock: ManualClock) -> Iterator[NodeLock]:
    """A second claim.  The kernel tells open files apart, not processes."""
    lock = NodeLock(path, "two", "1.3", clock)
    yield lock
    lock.release()


class TestWhoIsActive:
    def test_the_first_one_is(self, lock: NodeLock, other: NodeLock) -> None:
        assert lock.try_acquire()
        assert not other.try_acquire()
        assert (lock.held, other.held) == (True, False)

    def test_acquiring_twice_is_fine(self, lock: NodeLock) -> None:
        assert lock.try_acquire()
        assert lock.try_acquire()

    def test_the_other_one_is_after_a_release(self, lock: NodeLock, other: NodeLock) -> None:
        lock.try_acquire()
        lock.release()
        lock.release()

        assert not lock.held
        assert other.try_acquire()
        assert not lock.try_acquire()

    async def test_a_process_that_is_killed_is_followed_by_the_one_that_waits(self, path: Path) -> None:
        with (
            another_process_holds(path) as process,
            released_after(NodeLock(path, "second", "1.1", SystemClock())) as lock,
        ):
            waiting = asyncio.create_task(lock.wait())
            seen = lock.holder()
            # A first attempt that fails, then the kill.
            await asyncio.sleep(0)
            held_while_it_lived = lock.held
            process.send_signal(signal.SIGKILL)
            await waiting
            after = lock.holder()

        assert seen is not None
        assert replace(seen, age=0) == Holder(pid=process.pid, instance="first", version="1.0", age=0)
        assert seen.age < 10
        assert not held_while_it_lived
        assert after is not None
        assert (after.pid, after.instance) == (os.getpid(), "second")

    async def test_who_waits_can_be_called_back(self, lock: NodeLock, other: NodeLock) -> None:
        lock.try_acquire()
        before = descriptors()
        waiting = asyncio.create_task(other.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        lock.release()

        assert not other.held
        assert descriptors() == before - 1

    def test_a_child_does_not_keep_it(self, lock: NodeLock, other: NodeLock) -> None:
        lock.try_acquire()
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            lock.release()
            taken = other.try_acquire()
            child.kill()

        assert taken

    def test_one_that_was_replaced_between_opening_and_locking_is_opened_anew(
        self, lock: NodeLock, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = module._lock
        calls: list[int] = []

        def replaced_once(descriptor: int) -> bool:
            if not calls:
                path.unlink()
            calls.append(descriptor)
            return real(descriptor)

        monkeypatch.setattr(module, "_lock", replaced_once)
        acquired = lock.try_acquire()
        lock.beat()

        assert acquired
        assert len(calls) == 2


class TestHeartbeat:
    def test_the_other_process_learns_who_holds_it_and_since_when_it_is_silent(
        self, lock: NodeLock, other: NodeLock, clock: ManualClock, path: Path
    ) -> None:
        lock.try_acquire()
        clock.advance(3)
        silent = other.holder()
        lock.beat()
        clock.advance(0.5)

        assert silent == Holder(pid=os.getpid(), instance="one", version="1.2", age=3.0)
        assert other.holder() == Holder(pid=os.getpid(), instance="one", version="1.2", age=0.5)
        assert json.loads(path.read_text()) == {"pid": os.getpid(), "instance": "one", "version": "1.2"}

    def test_it_is_the_time_at_which_the_file_was_last_touched(self, path: Path) -> None:
        lock = NodeLock(path, "one", "1.2", SystemClock())
        lock.try_acquire()
        os.utime(path, (0, 0))
        lock.beat()
        lock.release()

        assert path.stat().st_mtime > 1_600_000_000

    def test_a_clock_that_was_set_back_makes_nobody_old(
        self, lock: NodeLock, other: NodeLock, clock: ManualClock
    ) -> None:
        lock.try_acquire()
        clock.set_back(3600)
        found = other.holder()

        assert found is not None
        assert found.age == 0

    def test_a_new_holder_s_shorter_words_replace_those_of_one_that_died(self, path: Path, lock: NodeLock) -> None:
        path.parent.mkdir()
        path.write_text(json.dumps({"pid": 1, "instance": "a" * 500, "version": "1"}))
        lock.try_acquire()
        found = lock.holder()

        assert found is not None
        assert found.instance == "one"

    def test_a_heartbeat_does_not_write_the_words_again(self, lock: NodeLock, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who reads in between would find half of them."""

        def written(*_: object) -> int:
            raise AssertionError

        lock.try_acquire()
        monkeypatch.setattr(os, "ftruncate", written)
        monkeypatch.setattr(os, "pwrite", written)
        lock.beat()
        found = lock.holder()
        monkeypatch.undo()

        assert found is not None

    def test_nobody_is_told_of_after_a_release(self, lock: NodeLock, other: NodeLock) -> None:
        nobody = other.holder()
        lock.try_acquire()
        lock.release()

        assert nobody is None
        assert other.holder() is None

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b'{"pid": 1}',
            b'{"pid": "x", "instance": "", "version": ""}',
            b"\xff",
            b"[" * 4096,
        ],
    )
    def test_what_makes_no_sense_is_nobody(self, path: Path, lock: NodeLock, content: bytes) -> None:
        path.parent.mkdir()
        path.write_bytes(content)

        assert lock.holder() is None

    def test_a_pipe_in_its_place_is_nobody(self, path: Path, lock: NodeLock) -> None:
        path.parent.mkdir()
        os.mkfifo(path)

        assert lock.holder() is None

    @pytest.mark.parametrize("again", ["missing", "another file", "symlink"])
    def test_a_file_that_was_removed_or_replaced_is_told(self, lock: NodeLock, path: Path, again: str) -> None:
        """Somebody else can lock the new one, and two would be active."""
        lock.try_acquire()
        lock.beat()
        path.rename(path.with_name("old"))
        if again == "another file":
            path.touch()
        elif again == "symlink":
            path.symlink_to("old")

        with pytest.raises(LockLost, match=f"the lock {path} was removed or replaced"):
            lock.beat()

    def test_who_does_not_hold_it_has_no_heartbeat(self, lock: NodeLock) -> None:
        with pytest.raises(LockLost):
            lock.beat()

    def test_a_disk_that_was_full_is_told_and_tried_again(
        self, lock: NodeLock, other: NodeLock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who holds the lock does not depend on whether it can say so."""

        def full(_descriptor: int, _content: bytes, _offset: int) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            acquired = lock.try_acquire()
            with pytest.raises(LockUnusable, match="cannot be touched: No space left on device; check space"):
                lock.beat()
        silent = other.holder()
        lock.beat()
        found = other.holder()

        assert acquired
        assert silent is None
        assert found is not None


class TestTheFile:
    def test_it_is_ours_alone_whatever_the_umask(self, lock: NodeLock, path: Path) -> None:
        before = os.umask(0)
        try:
            lock.try_acquire()
        finally:
            os.umask(before)

        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    def test_a_directory_that_is_there_stays_as_it_is(self, lock: NodeLock, path: Path) -> None:
        path.parent.mkdir()
        path.parent.chmod(0o755)
        lock.try_acquire()

        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755

    def test_its_mode_is_mended(self, lock: NodeLock, path: Path) -> None:
        path.parent.mkdir()
        path.touch()
        path.chmod(0o666)
        lock.try_acquire()

        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_it_stays_when_it_is_released(self, lock: NodeLock, path: Path) -> None:
        """Removing it would let two processes lock two files of one name."""
        lock.try_acquire()
        lock.release()

        assert path.is_file()

    def test_a_symlink_in_its_place_is_not_followed(self, lock: NodeLock, path: Path) -> None:
        path.parent.mkdir()
        path.symlink_to("target")
        with pytest.raises(LockUnusable, match=f"the lock {path} cannot be opened: Too many levels of symbolic links"):
            lock.try_acquire()

        assert not path.with_name("target").exists()

    def test_a_pipe_in_its_place_is_refused_at_once(self, lock: NodeLock, path: Path) -> None:
        path.parent.mkdir()
        os.mkfifo(path)
        with pytest.raises(LockUnusable, match="not a regular file; move it away"):
            lock.try_acquire()

        assert not lock.held

    def test_a_directory_that_cannot_be_made_is_told(self, lock: NodeLock, path: Path) -> None:
        path.parent.write_text("a file")
        with pytest.raises(LockUnusable, match=f"the lock {path} cannot be opened"):
            lock.try_acquire()

    def test_attempts_leave_no_descriptor_behind(self, lock: NodeLock, other: NodeLock, path: Path) -> None:
        before = descriptors()
        for _ in range(20):
            lock.try_acquire()
            other.try_acquire()
            other.holder()
            lock.release()
        path.unlink()
        path.symlink_to("target")
        with pytest.raises(LockUnusable):
            lock.try_acquire()

        assert descriptors() == before


class TestLooking:
    """Asking whether a lock is free without taking it."""

    def test_one_that_is_not_there_is_free_and_is_not_made(self, tmp_path: Path) -> None:
        path = tmp_path / "state" / "lock"

        assert NodeLock(path, "a", "1", SystemClock()).is_free()
        assert not path.parent.exists()

    def test_one_that_is_held_is_not_until_it_is_released(self, tmp_path: Path) -> None:
        asking = NodeLock(tmp_path / "lock", "b", "1", SystemClock())
        with released_after(NodeLock(tmp_path / "lock", "a", "1", SystemClock())) as held:
            assert held.try_acquire()
            assert not asking.is_free()

        assert asking.is_free()

    def test_asking_leaves_it_to_others(self, tmp_path: Path) -> None:
        asking = NodeLock(tmp_path / "lock", "a", "1", SystemClock())
        (tmp_path / "lock").touch()
        assert asking.is_free()

        with released_after(NodeLock(tmp_path / "lock", "b", "1", SystemClock())) as other:
            assert other.try_acquire()

    def test_one_that_is_a_link_is_not_looked_at(self, tmp_path: Path) -> None:
        (tmp_path / "lock").symlink_to("elsewhere")

        with pytest.raises(LockUnusable, match="cannot be opened"):
            NodeLock(tmp_path / "lock", "a", "1", SystemClock()).is_free()
