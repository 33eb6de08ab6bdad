"""Allocation directories on a real file system: attributes, files, and every call to the system failing once."""

import errno
import grp
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from adapters.filesystem.sockets import FileSystemSockets
from domain.allocation import Directory, File
from domain.errors import MemifError
from domain.identity import AllocationId
from domain.ports.sockets import DirectoryUnusable, Leftover
from tests.integration.filesystem import (
    NOBODY,
    ONE,
    TWO,
    directory,
    names,
    needs_root,
    open_files,
    short_place,
    tmpfs,
)

SECRET = File(name="secret", content="s3cr3t")
LABEL = "system_u:object_r:container_file_t:s0"


@pytest.fixture
def place() -> Iterator[Path]:
    with short_place() as there:
        yield there


@pytest.fixture
def base(place: Path) -> Path:
    return place / "memif"


@pytest.fixture
def sockets() -> Iterator[FileSystemSockets]:
    made = FileSystemSockets()
    yield made
    made.close()


def look(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


# attributes -------------------------------------------------------------------------------------------------------


@needs_root
@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_owner_group_and_mode_are_right_whatever_the_umask(base: Path, sockets: FileSystemSockets, umask: int) -> None:
    old = os.umask(umask)
    try:
        sockets.make(directory(base, ONE, SECRET, mode=0o2770, group=4242))
    finally:
        os.umask(old)

    assert look(base / ONE) == (0, 4242, 0o2770)
    assert look(base / ONE / "secret") == (0, 4242, 0o440)
    assert (base / ONE / "secret").read_text() == "s3cr3t"
    assert names(base / ONE) == {"secret"}


@needs_root
def test_what_is_made_in_it_gets_its_group(base: Path, sockets: FileSystemSockets) -> None:
    """So that a pod with that supplementary group may connect to the dataplane's socket."""
    sockets.make(directory(base, group=4242))
    (base / ONE / "memif.sock").touch()

    assert (base / ONE / "memif.sock").stat().st_gid == 4242


@needs_root
def test_the_group_may_be_given_by_name_or_by_number_in_words(base: Path, sockets: FileSystemSockets) -> None:
    named = next(each for each in grp.getgrall() if each.gr_gid != 0)
    sockets.make(directory(base, group=named.gr_name))
    sockets.make(directory(base, TWO, group="4242"))

    assert (base / ONE).stat().st_gid == named.gr_gid
    assert (base / TWO).stat().st_gid == 4242


@pytest.mark.parametrize("group", ["no-such-group", "", "a\0b", -1, 2**32 - 1, 2**70, "99999999999999"])
def test_a_group_that_does_not_exist_is_told_by_its_key(
    base: Path, sockets: FileSystemSockets, group: str | int
) -> None:
    with pytest.raises(DirectoryUnusable, match="directory_group"):
        sockets.make(directory(base, group=group))

    assert names(base) == set()


@needs_root
def test_everything_that_differs_is_mended_in_place_and_told(base: Path, sockets: FileSystemSockets) -> None:
    inode = sockets.make(directory(base, ONE, SECRET, group=4242))
    os.chown(base / ONE, NOBODY, 7)
    (base / ONE).chmod(0o755)
    (base / ONE / "secret").chmod(0o666)

    ensured = sockets.ensure(directory(base, ONE, SECRET, group=4242))

    assert ensured.inode == inode == (base / ONE).stat().st_ino
    assert ensured.mended == (
        "owner 65534 -> 0",
        "group 7 -> 4242",
        "mode 0755 -> 2770",
        "file secret: mode 0666 -> 0440",
    )
    assert look(base / ONE) == (0, 4242, 0o2770)
    assert look(base / ONE / "secret") == (0, 4242, 0o440)


@needs_root
def test_labels_are_real_extended_attributes(place: Path, sockets: FileSystemSockets) -> None:
    """The attribute can be set without SELinux too, where the file system keeps it."""
    with tmpfs(place / "fs") as fs:
        kept = directory(fs / "memif", ONE, SECRET, selinux_label=LABEL)
        sockets.make(kept)
        labels = [os.getxattr(path, "security.selinux") for path in (fs / "memif" / ONE, fs / "memif" / ONE / "secret")]
        os.removexattr(fs / "memif" / ONE, "security.selinux")

        assert labels == [LABEL.encode()] * 2
        assert sockets.differences(kept) == (f"label none -> {LABEL}",)
        assert sockets.ensure(kept).mended == (f"label none -> {LABEL}",)
        assert sockets.ensure(kept).mended == ()
        assert sockets.differences(kept) == ()
        os.setxattr(fs / "memif" / ONE, "security.selinux", b"system_u:object_r:var_run_t:s0\0")
        assert sockets.differences(kept) == (f"label system_u:object_r:var_run_t:s0 -> {LABEL}",)
        sockets.close()


# files ------------------------------------------------------------------------------------------------------------


def test_a_file_with_the_right_content_is_left_alone(base: Path, sockets: FileSystemSockets) -> None:
    sockets.make(directory(base, ONE, SECRET))
    inode = (base / ONE / "secret").stat().st_ino

    assert sockets.ensure(directory(base, ONE, SECRET)).mended == ()
    assert (base / ONE / "secret").stat().st_ino == inode


def _symlink(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _huge(path: Path) -> None:
    path.write_bytes(b"s3cr3t" * 20_000)


def _binary(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


@pytest.mark.parametrize("plant", [_symlink, _fifo, _huge, _binary])
def test_what_a_tenant_puts_in_its_place_is_not_read_and_is_replaced(
    base: Path, sockets: FileSystemSockets, plant: Callable[[Path], None]
) -> None:
    kept = directory(base, ONE, SECRET)
    sockets.make(kept)
    before = Path("/etc/hostname").read_bytes()
    (base / ONE / "secret").unlink()
    plant(base / ONE / "secret")

    assert sockets.read(kept, "secret") is None
    assert sockets.ensure(kept).mended == ("file secret written",)
    assert sockets.read(kept, "secret") == "s3cr3t"
    assert not (base / ONE / "secret").is_symlink()
    assert Path("/etc/hostname").read_bytes() == before


def test_a_directory_in_the_place_of_a_file_is_told(base: Path, sockets: FileSystemSockets) -> None:
    kept = directory(base, ONE, SECRET)
    sockets.make(directory(base))
    (base / ONE / "secret/inner").mkdir(parents=True)
    with pytest.raises(DirectoryUnusable, match="Is a directory; a directory lies in the place of a file"):
        sockets.ensure(kept)

    assert sockets.read(kept, "secret") is None
    assert names(base / ONE) == {"secret"}


@pytest.mark.parametrize("size, readable", [(0, True), (64 * 1024, True), (64 * 1024 + 1, False)])
def test_only_small_files_are_read(base: Path, sockets: FileSystemSockets, size: int, readable: bool) -> None:  # noqa: FBT001 - an example
    sockets.make(directory(base))
    (base / ONE / "secret").write_text("x" * size)

    assert sockets.read(directory(base), "secret") == ("x" * size if readable else None)


@pytest.mark.parametrize("name", ["", ".", "..", "../other", "/etc/hostname", "a\0b"])
def test_a_file_name_leads_nowhere_else(base: Path, sockets: FileSystemSockets, name: str) -> None:
    sockets.make(directory(base))
    (base / "other").write_text("x")
    with pytest.raises(DirectoryUnusable, match="no name for a file"):
        sockets.ensure(directory(base, ONE, File(name=name, content="x")))
    with pytest.raises(DirectoryUnusable, match="no name for a file"):
        sockets.make(directory(base, TWO, File(name=name, content="x")))

    assert sockets.read(directory(base), name) is None
    assert names(base) == {ONE, "other"}
    assert names(base / ONE) == set()


# differences -------------------------------------------------------------------------------------------------------


@needs_root
def test_owner_group_and_mode_are_compared_and_left_as_they_are(base: Path, sockets: FileSystemSockets) -> None:
    kept = directory(base, ONE, mode=0o2750, group=NOBODY)
    sockets.make(kept)
    assert sockets.differences(kept) == ()
    os.chown(base / ONE, NOBODY, 0)
    (base / ONE).chmod(0o777)

    assert sockets.differences(kept) == ("owner 65534 -> 0", "group 0 -> 65534", "mode 0777 -> 2750")
    assert sockets.ensure(kept).mended == ("owner 65534 -> 0", "group 0 -> 65534", "mode 0777 -> 2750")
    assert sockets.differences(kept) == ()


def test_what_a_tenant_put_into_it_makes_no_difference(base: Path, sockets: FileSystemSockets) -> None:
    sockets.make(directory(base))
    (base / ONE / "cli.sock").touch()

    assert sockets.differences(directory(base)) == ()


@pytest.mark.parametrize("name", ["..", "", "a/b"])
def test_what_is_no_id_is_not_compared(base: Path, sockets: FileSystemSockets, name: str) -> None:
    sockets.open(str(base))

    assert sockets.differences(directory(base, AllocationId(name))) == ()


def test_what_is_left_of_a_file_that_was_never_finished_goes_when_the_file_is_written(
    base: Path, sockets: FileSystemSockets
) -> None:
    """A process that ends in the middle leaves the secret under a passing name, in the directory of a living pod."""
    sockets.make(directory(base))
    for name in (".new-0123456789abcdef", ".new-x", "x.new-0123456789abcdef"):
        (base / ONE / name).write_text("half a sec")
    (base / ONE / ".new-fedcba9876543210").mkdir()
    mended = sockets.ensure(directory(base, ONE, SECRET)).mended

    assert mended == (f"file {SECRET.name} written",)
    left = {each.name for each in (base / ONE).iterdir()}
    assert left == {SECRET.name, ".new-x", "x.new-0123456789abcdef", ".new-fedcba9876543210"}


def test_a_tenant_with_ten_thousand_files_does_not_keep_a_file_from_being_written(
    base: Path, sockets: FileSystemSockets
) -> None:
    sockets.make(directory(base))
    for number in range(10_000):
        (base / ONE / f".new-{number:016x}").touch()
    sockets.ensure(directory(base, ONE, SECRET))

    assert sockets.read(directory(base), SECRET.name) == SECRET.content
    assert len(names(base / ONE)) == 10_000 - 1_000 + 1


# in its place ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/etc", "nowhere"])
def test_a_symlink_in_its_place_is_left_alone(base: Path, sockets: FileSystemSockets, target: str) -> None:
    sockets.open(str(base))
    (base / ONE).symlink_to(target)
    before = look(Path("/etc"))
    with pytest.raises(DirectoryUnusable, match=f"cannot mend {base}/{ONE}.*symbolic link or something else"):
        sockets.ensure(directory(base, ONE, SECRET))
    with pytest.raises(DirectoryUnusable, match="never taken over"):
        sockets.make(directory(base, ONE, SECRET))

    assert sockets.read(directory(base), "hostname") is None
    assert str((base / ONE).readlink()) == target
    assert look(Path("/etc")) == before
    assert sockets.look(str(base)).strangers == {ONE}


def test_foreign_names_are_shown_escaped(base: Path, sockets: FileSystemSockets) -> None:
    sockets.open(str(base))
    for name in (b"\xff\n", b"x" * 255, b".new-1"):
        Path(os.fsdecode(os.fsencode(base) + b"/" + name)).mkdir()

    assert sockets.look(str(base)).strangers == {r"\xff\n", "x" * 117 + "...", ".new-1"}


# every call to the system fails once ------------------------------------------------------------------------------

CALLS = (
    *("open", "mkdir", "stat", "lstat", "fstat", "fstatvfs", "fchown", "fchmod", "chmod"),
    *("fdopen", "write", "rename", "scandir", "unlink", "rmdir"),
)


class Faults:
    """Lets the n-th call to the system fail."""

    def __init__(self, mocker: MockerFixture, number: int) -> None:
        self.fail_at = 0
        self.made = 0
        self._number = number
        for name in CALLS:
            mocker.patch(f"os.{name}", self._failing(getattr(os, name)))

    def _failing(self, really: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.made += 1
            if self.made == self.fail_at:
                raise OSError(self._number, os.strerror(self._number))
            return really(*args, **kwargs)

        return call

    def arm(self, at: int) -> None:
        self.made, self.fail_at = 0, at


def every_fault(faults: Faults, prepare: Callable[[], None], action: Callable[[], object]) -> Iterator[object]:
    """Run an action with its first, second ... call to the system failing, until none fails any more."""
    for at in range(1, 200):
        faults.arm(0)
        prepare()
        faults.arm(at)
        try:
            result = action()
        except MemifError as error:
            result = error
        reached = faults.made >= at
        faults.arm(0)
        if not reached:
            return
        yield result
    raise AssertionError("this never ends")


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENOSPC, errno.EACCES, errno.ENOENT, errno.EINTR])
@pytest.mark.parametrize("opened", [True, False])
def test_make_makes_all_or_nothing(base: Path, mocker: MockerFixture, number: int, opened: bool) -> None:  # noqa: FBT001 - an example
    sockets = FileSystemSockets()
    kept = directory(base, ONE, SECRET, File(name="memif.json", content="{}"))
    faults = Faults(mocker, number)
    before = open_files()

    def prepare() -> None:
        sockets.close()
        if opened:
            sockets.open(str(base))
        if base.exists():
            sockets.remove(kept)

    seen = 0
    for result in every_fault(faults, prepare, lambda: sockets.make(kept)):
        seen += 1
        if isinstance(result, MemifError):
            assert "s3cr3t" not in str(result)
            assert not (base / ONE).exists()
        else:
            assert names(base / ONE) == {"secret", "memif.json"}
    sockets.close()

    assert seen > 10
    assert open_files() == before


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENOSPC, errno.EACCES, errno.ENOENT])
def test_no_error_of_the_system_escapes_and_no_descriptor_leaks(base: Path, mocker: MockerFixture, number: int) -> None:
    sockets = FileSystemSockets()
    kept = directory(base, ONE, SECRET)
    faults = Faults(mocker, number)
    before = open_files()

    def prepare() -> None:
        sockets.open(str(base))
        sockets.ensure(kept)
        (base / ONE).chmod(0o755)
        (base / ONE / "sub").mkdir(exist_ok=True)
        (base / ONE / "sub/file").touch()

    for action in (
        lambda: sockets.ensure(kept),
        lambda: sockets.read(kept, "secret"),
        lambda: sockets.look(str(base)),
        lambda: sockets.remove(kept),
        lambda: sockets.resume(str(base)),
        lambda: sockets.open(str(base)),
    ):
        assert len(list(every_fault(faults, prepare, action))) >= 1
    results = list(every_fault(faults, prepare, lambda: sockets.remove(kept)))
    sockets.close()

    assert all(isinstance(each, Leftover) for each in results)
    assert open_files() == before
    fresh = FileSystemSockets()
    fresh.remove(kept)
    assert fresh.resume(str(base)).done
    assert names(base) == set()
    fresh.close()


def test_another_allocation_is_never_touched(base: Path, sockets: FileSystemSockets) -> None:
    for name in (ONE, TWO):
        sockets.make(directory(base, name, SECRET))
    neighbour: Directory = directory(base, TWO, SECRET)
    before = look(base / TWO)
    sockets.ensure(directory(base, AllocationId("zzzzzzzzzzzzzzzzzzzz")))
    sockets.remove(directory(base, ONE))

    assert look(base / TWO) == before
    assert sockets.ensure(neighbour).mended == ()
