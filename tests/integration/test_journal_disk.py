"""The journal on a disk that is full, read-only or broken: real file systems and real refusals by the kernel."""

import ctypes
import os
import platform
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from adapters.journal.journal import SqliteJournal
from adapters.memory.clock import ManualClock
from domain.ledger import Standing
from domain.ports.journal import JournalUnusable, Recovered
from tests.contract.journal_values import FULL, FULL_OWNER, FULL_POOL, numbered

MS_RDONLY, MS_REMOUNT = 1, 32
ROOT = Path(__file__).parents[2]


class Disk:
    """A small file system in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._libc = ctypes.CDLL(None, use_errno=True)

    def mount(self, flags: int = 0) -> None:
        done = self._libc.mount(b"tmpfs", str(self.path).encode(), b"tmpfs", flags, b"size=192k,nr_inodes=32,mode=0700")
        if done:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(self.path))

    def unmount(self) -> None:
        self._libc.umount2(str(self.path).encode(), 0)

    def make_read_only(self) -> None:
        self.mount(MS_REMOUNT | MS_RDONLY)

    def make_writable(self) -> None:
        self.mount(MS_REMOUNT)

    def fill(self) -> None:
        """Leave not a single block."""
        with (self.path / "ballast").open("ab", buffering=0) as ballast:
            try:
                while ballast.write(b"\0" * 4096):
                    pass
            except OSError:
                return

    def empty(self) -> None:
        (self.path / "ballast").unlink()


@pytest.fixture
def disk() -> Iterator[Disk]:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        disk = Disk(Path(name))
        try:
            disk.mount()
        except PermissionError:
            pytest.skip("mounting needs CAP_SYS_ADMIN")
        try:
            yield disk
        finally:
            disk.unmount()


@pytest.fixture
def journal(disk: Disk) -> Iterator[SqliteJournal]:
    with closing(SqliteJournal(disk.path / "state" / "state.db", ManualClock())) as journal:
        yield journal


def until_full(journal: SqliteJournal) -> tuple[int, JournalUnusable]:
    """Add allocations until it is refused; return the number of the refused one and what was said."""
    number = 1
    while True:
        try:
            journal.add([numbered(number)])
        except JournalUnusable as error:
            return number, error
        number += 1


class TestAFullDisk:
    def test_says_so_and_works_again_when_there_is_space(self, disk: Disk, journal: SqliteJournal) -> None:
        journal.open()
        disk.fill()
        refused, error = until_full(journal)
        for _ in range(3):
            with pytest.raises(JournalUnusable, match="no space or inode is left on its file system; free some in"):
                journal.add([numbered(refused)], durable=True)
        disk.empty()
        journal.add([numbered(refused)])

        assert str(disk.path / "state" / "state.db") in str(error)
        assert "Hush" not in str(error)
        assert journal.open().allocations == tuple((numbered(n), Standing.LIVE) for n in range(1, refused + 1))

    def test_refuses_a_set_of_allocations_as_a_whole(self, disk: Disk, journal: SqliteJournal) -> None:
        journal.open()
        journal.add([FULL])
        disk.fill()
        with pytest.raises(JournalUnusable, match="no space"):
            journal.add([numbered(number) for number in range(200)])
        disk.empty()

        assert journal.open().allocations == ((FULL, Standing.LIVE),)

    def test_is_no_reason_not_to_start_with_what_was_recorded(self, disk: Disk, journal: SqliteJournal) -> None:
        """SQLite wants 32 KiB of shared memory beside the file; a full disk must not hide our allocations from us."""
        journal.open()
        journal.add([FULL])
        journal.use([FULL_POOL])
        journal.close()
        disk.fill()
        recovered = journal.open()
        refused, _ = until_full(journal)
        disk.empty()
        journal.own(FULL.id, FULL_OWNER)
        journal.add([numbered(refused)])

        assert recovered == Recovered(allocations=((FULL, Standing.LIVE),), pools=(FULL_POOL,))
        assert journal.open().allocations[-1] == (numbered(refused), Standing.LIVE)

    def test_is_told_by_a_new_journal_that_cannot_be_made(self, disk: Disk, journal: SqliteJournal) -> None:
        disk.fill()
        with pytest.raises(JournalUnusable, match="no space or inode is left"):
            journal.open()
        disk.empty()

        assert journal.open() == Recovered()

    def test_leaves_a_damaged_file_where_it_is(self, disk: Disk, journal: SqliteJournal) -> None:
        """If there is no room for a new one, the reason is still there to be told at the next attempt."""
        journal.open()
        journal.close()
        (disk.path / "state" / "state.db").write_bytes(b"damage")
        disk.fill()
        with pytest.raises(JournalUnusable, match="no space or inode is left"):
            journal.open()
        disk.empty()

        assert "no SQLite database" in (journal.open().set_aside or "")

    def test_may_be_one_without_inodes(self, disk: Disk, journal: SqliteJournal) -> None:
        for number in range(40):
            try:
                (disk.path / f"{number}").touch()
            except OSError:
                break
        with pytest.raises(JournalUnusable, match="no space or inode is left"):
            journal.open()
        for number in range(4):
            (disk.path / f"{number}").unlink()

        (disk.path / "5").unlink()
        assert journal.open() == Recovered()


class TestAReadOnlyDisk:
    def test_is_told_at_the_start(self, disk: Disk, journal: SqliteJournal) -> None:
        disk.make_read_only()
        with pytest.raises(JournalUnusable, match=r"it is read-only; .*remount,rw"):
            journal.open()
        disk.make_writable()

        assert journal.open() == Recovered()

    def test_is_told_at_the_start_with_a_file_that_is_there(self, disk: Disk, journal: SqliteJournal) -> None:
        journal.open()
        journal.add([FULL])
        journal.close()
        disk.make_read_only()
        with pytest.raises(JournalUnusable, match="it is read-only"):
            journal.open()
        disk.make_writable()

        assert journal.open().allocations == ((FULL, Standing.LIVE),)

    def test_is_told_while_running_and_works_again(self, disk: Disk, journal: SqliteJournal) -> None:
        """The file must not be open while it is remounted, so the disk is full for a moment first."""
        journal.open()
        journal.add([FULL])
        disk.fill()
        refused, _ = until_full(journal)
        disk.empty()
        disk.make_read_only()
        for _ in range(2):
            with pytest.raises(JournalUnusable, match="it is read-only"):
                journal.add([numbered(refused)])
        disk.make_writable()
        journal.add([numbered(refused)])

        assert journal.open().allocations[-1] == (numbered(refused), Standing.LIVE)


class TestBeingChecked:
    def test_a_full_disk_is_told_after_the_change_that_failed_and_until_there_is_space(
        self, disk: Disk, journal: SqliteJournal
    ) -> None:
        journal.open()
        disk.fill()
        until_full(journal)
        for _ in range(3):
            with pytest.raises(JournalUnusable, match="no space or inode is left on its file system"):
                journal.check()
        disk.empty()
        journal.check()

        journal.add([FULL])

    def test_nothing_is_written_as_long_as_the_last_change_was_recorded(
        self, disk: Disk, journal: SqliteJournal
    ) -> None:
        """A disk is full often enough for reasons that pass before anybody asks for a device."""
        journal.open()
        journal.add([FULL])
        files = [disk.path / "state" / name for name in ("state.db", "state.db-wal")]
        before = [(each.stat().st_size, each.stat().st_mtime_ns) for each in files]
        disk.fill()
        for _ in range(3):
            journal.check()

        assert [(each.stat().st_size, each.stat().st_mtime_ns) for each in files] == before

    def test_a_read_only_disk_is_told_until_it_is_writable(self, disk: Disk, journal: SqliteJournal) -> None:
        """The file must not be open while it is remounted, as above."""
        journal.open()
        disk.fill()
        until_full(journal)
        disk.empty()
        disk.make_read_only()
        for _ in range(2):
            with pytest.raises(JournalUnusable, match=r"it is read-only; .*remount,rw"):
                journal.check()
        disk.make_writable()

        journal.check()

    def test_one_that_turns_read_only_under_an_open_file_is_told_without_a_write(
        self, disk: Disk, journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        journal.open()
        found = list(os.statvfs(disk.path))
        found[8] |= os.ST_RDONLY  # f_flag
        with monkeypatch.context() as patch:
            patch.setattr(os, "statvfs", lambda _: os.statvfs_result(found))
            with pytest.raises(JournalUnusable, match=r"it is read-only; .*remount,rw"):
                journal.check()

        journal.check()


WITHOUT_SYNC = """
import ctypes, struct, sys
from adapters.journal.journal import SqliteJournal
from adapters.memory.clock import ManualClock
from domain.ports.journal import JournalUnusable
from tests.contract.journal_values import numbered

def forbid(numbers):
    # A filter for the kernel: load the number of the system call, compare it, and fail those with EIO.
    code = [struct.pack("HBBI", 0x20, 0, 0, 0)]
    code += [struct.pack("HBBI", 0x15, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    code += [struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000), struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | 5)]
    text = ctypes.create_string_buffer(b"".join(code))
    program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0, "no new privileges"
    assert libc.prctl(22, 2, program, 0, 0) == 0, "filter refused"

journal = SqliteJournal(sys.argv[1], ManualClock())
journal.open()
# SQLite syncs the head of a log that begins anew, and one durable addition must not make the next ones so.
journal.add([numbered(0)], durable=True)
forbid([int(each) for each in sys.argv[2].split(",")])
journal.add([numbered(1)])
print("plain addition done", flush=True)
try:
    journal.add([numbered(2)], durable=True)
except JournalUnusable as error:
    print(error)
"""

SYNCS = {"x86_64": "74,75", "aarch64": "82,83"}
"""Numbers of the system calls fsync and fdatasync."""


@pytest.mark.skipif(platform.machine() not in SYNCS, reason="the numbers of its system calls are not known here")
def test_a_durable_addition_is_synced_and_no_other(tmp_path: Path) -> None:
    """Seen from the kernel: where every sync fails, the plain addition succeeds and the durable one is refused."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(WITHOUT_SYNC),
            str(tmp_path / "s" / "state.db"),
            SYNCS[platform.machine()],
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    plain, durable = done.stdout.splitlines()

    assert plain == "plain addition done"
    assert "SQLITE_IOERR_FSYNC" in durable
    assert "look for disk errors in the kernel's log" in durable
