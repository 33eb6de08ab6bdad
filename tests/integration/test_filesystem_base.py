"""Base directories on real file systems: how they are made, and which are refused."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.filesystem import labels
from adapters.filesystem.sockets import FileSystemSockets
from domain.ports.sockets import DirectoryUnusable
from tests.integration.filesystem import (
    NOBODY,
    ONE,
    directory,
    mounted,
    names,
    needs_root,
    open_files,
    run,
    short_place,
    tmpfs,
)


@pytest.fixture
def place() -> Iterator[Path]:
    with short_place() as there:
        yield there


@pytest.fixture
def sockets() -> Iterator[FileSystemSockets]:
    made = FileSystemSockets()
    yield made
    made.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_0711_and_missing_parents_0755_whatever_the_umask(place: Path, sockets: FileSystemSockets) -> None:
    """Contiv passed no permission bits and got directories of mode 0000."""
    old = os.umask(0o077)
    try:
        sockets.open(f"{place}/contiv/deep/memif")
    finally:
        os.umask(old)

    assert mode(place / "contiv/deep/memif") == 0o711
    assert mode(place / "contiv") == mode(place / "contiv/deep") == 0o755
    assert (place / "contiv/deep/memif").stat().st_uid == os.geteuid()


def test_one_that_exists_keeps_its_mode(place: Path, sockets: FileSystemSockets) -> None:
    (place / "memif").mkdir(0o750)

    sockets.open(f"{place}/memif")

    assert mode(place / "memif") == 0o750


def test_symlinks_in_its_parents_are_resolved_and_both_spellings_are_told(
    place: Path, sockets: FileSystemSockets
) -> None:
    """As /var/run is a symbolic link to /run nearly everywhere."""
    (place / "run").mkdir()
    (place / "var-run").symlink_to("run")
    host_dir = f"{place}/var-run/memif"

    sockets.open(host_dir)

    assert (place / "run/memif").is_dir()
    assert sockets.look(host_dir).spellings == {host_dir, f"{place.resolve()}/run/memif"}


def test_a_slash_at_the_end_does_no_harm(place: Path, sockets: FileSystemSockets) -> None:
    (place / "memif").symlink_to(place)
    with pytest.raises(DirectoryUnusable, match="symbolic link"):
        sockets.open(f"{place}/memif/")
    (place / "memif").unlink()

    sockets.open(f"{place}/memif/")

    assert f"{place}/memif" in sockets.look(f"{place}/memif/").spellings


def test_a_symlink_in_its_place_is_refused(place: Path, sockets: FileSystemSockets) -> None:
    (place / "memif").symlink_to("/etc")
    with pytest.raises(DirectoryUnusable, match=r"symbolic link to '/etc'.* put a real directory there"):
        sockets.open(f"{place}/memif")

    assert (place / "memif").is_symlink()


def test_a_file_in_its_place_is_refused(place: Path, sockets: FileSystemSockets) -> None:
    (place / "memif").touch()
    with pytest.raises(DirectoryUnusable, match=r"is not a directory; move it"):
        sockets.open(f"{place}/memif")


def test_a_file_in_the_place_of_its_parent_is_refused(place: Path, sockets: FileSystemSockets) -> None:
    (place / "contiv").touch()
    with pytest.raises(DirectoryUnusable, match=r"parent directory of .*no directory lies in its place"):
        sockets.open(f"{place}/contiv/memif")


def test_a_loop_of_symlinks_above_it_is_refused(place: Path, sockets: FileSystemSockets) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    with pytest.raises(DirectoryUnusable, match="symbolic link"):
        sockets.open(f"{place}/a/memif")


@pytest.mark.parametrize("host_dir", ["", "/", "relative/memif", "/tmp/..", "/tmp/a\0b", "/tmp/\0/b"])
def test_what_is_no_path_of_a_directory_is_refused(sockets: FileSystemSockets, host_dir: str) -> None:
    with pytest.raises(DirectoryUnusable, match="correct the pool's host_dir"):
        sockets.open(host_dir)


@pytest.mark.parametrize("bits", [0o020, 0o002, 0o1777])
def test_one_that_others_may_write_to_is_refused(place: Path, sockets: FileSystemSockets, bits: int) -> None:
    (place / "memif").mkdir()
    (place / "memif").chmod(0o711 | bits)
    with pytest.raises(DirectoryUnusable, match=r"group or others could exchange .* chmod go-w"):
        sockets.open(f"{place}/memif")


def test_one_that_becomes_writable_by_others_is_not_used_any_more(place: Path, sockets: FileSystemSockets) -> None:
    sockets.make(directory(place / "memif"))
    (place / "memif").chmod(0o777)
    with pytest.raises(DirectoryUnusable, match="chmod go-w"):
        sockets.look(f"{place}/memif")
    left = sockets.remove(directory(place / "memif"))

    assert left.obstacle is not None
    assert "chmod go-w" in left.obstacle
    assert (place / "memif" / ONE).is_dir()


@needs_root
def test_anothers_is_refused(place: Path, sockets: FileSystemSockets) -> None:
    (place / "memif").mkdir()
    os.chown(place / "memif", NOBODY, NOBODY)
    with pytest.raises(DirectoryUnusable, match=r"belongs to uid 65534 and not to uid 0.* chown 0"):
        sockets.open(f"{place}/memif")


@needs_root
def test_a_read_only_file_system_is_refused_with_its_cure(place: Path, sockets: FileSystemSockets) -> None:
    with tmpfs(place / "fs") as fs:
        sockets.open(f"{fs}/memif")
        run("mount", "-o", "remount,ro", str(fs))
        with pytest.raises(DirectoryUnusable, match="memif is read-only; remount it writable"):
            sockets.open(f"{fs}/memif")
        with pytest.raises(DirectoryUnusable, match=r"cannot make .*Read-only file system; remount"):
            sockets.make(directory(fs / "memif"))

        assert sockets.look(f"{fs}/memif").inodes == {}
        sockets.close()


@needs_root
def test_a_missing_parent_on_a_read_only_file_system_is_told(place: Path, sockets: FileSystemSockets) -> None:
    with (
        tmpfs(place / "fs", "ro,size=1m") as fs,
        pytest.raises(DirectoryUnusable, match=r"parent directory of .*contiv/memif: Read-only file system; remount"),
    ):
        sockets.open(f"{fs}/contiv/memif")


@pytest.fixture
def nobody(place: Path) -> Iterator[Path]:
    """Let the test run as nobody, in a directory of nobody's."""
    os.chown(place, NOBODY, NOBODY)
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield place
    finally:
        os.seteuid(0)
        os.setegid(0)


@needs_root
def test_without_permission_the_way_out_is_told(
    nobody: Path, sockets: FileSystemSockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    selinux = nobody / "selinux"
    with pytest.raises(DirectoryUnusable, match="Permission denied; run the daemon as root") as without:
        sockets.open("/etc/memif-of-nobody")
    selinux.mkdir()
    (selinux / "enforce").write_text("1")
    monkeypatch.setattr(labels, "SELINUXFS", str(selinux))
    with pytest.raises(DirectoryUnusable, match=r"SELinux is on here.*ausearch.*spc_t"):
        sockets.open("/etc/memif-of-nobody")

    assert "SELinux" not in str(without.value)


@needs_root
def test_another_user_than_root_has_bases_of_its_own(nobody: Path, sockets: FileSystemSockets) -> None:
    """As on a developer's machine: nothing here asks for root as such."""
    inode = sockets.make(directory(nobody / "memif"))

    assert (nobody / "memif").stat().st_uid == NOBODY
    assert sockets.ensure(directory(nobody / "memif")).inode == inode
    assert sockets.remove(directory(nobody / "memif")).done


@needs_root
def test_another_user_than_root_can_remove_what_was_made_unreadable(nobody: Path, sockets: FileSystemSockets) -> None:
    sockets.make(directory(nobody / "memif"))
    for name, bits in (("none", 0), ("read", 0o400), ("pass", 0o100)):
        locked = nobody / "memif" / ONE / name
        locked.mkdir()
        (locked / "file").touch()
        locked.chmod(bits)
    (nobody / "memif" / ONE).chmod(0)

    assert sockets.ensure(directory(nobody / "memif")).mended
    assert sockets.remove(directory(nobody / "memif")).done
    assert names(nobody / "memif") == set()


def test_a_base_that_was_replaced_is_opened_anew(place: Path, sockets: FileSystemSockets) -> None:
    base = place / "memif"
    sockets.make(directory(base))
    base.rename(place / "aside")
    base.mkdir(0o711)

    assert sockets.look(str(base)).inodes == {}
    sockets.make(directory(base))
    assert (base / ONE).is_dir()


def test_a_base_that_vanished_is_made_anew(place: Path, sockets: FileSystemSockets) -> None:
    base = place / "run" / "memif"
    sockets.make(directory(base))
    shutil.rmtree(place / "run")

    assert sockets.ensure(directory(base)).made
    assert mode(base) == 0o711


def test_a_base_that_was_replaced_by_a_symlink_is_refused(place: Path, sockets: FileSystemSockets) -> None:
    base = place / "memif"
    sockets.make(directory(base))
    base.rename(place / "aside")
    base.symlink_to("aside")
    with pytest.raises(DirectoryUnusable, match="symbolic link"):
        sockets.ensure(directory(base))
    left = sockets.remove(directory(base))

    with pytest.raises(DirectoryUnusable, match="symbolic link"):
        sockets.read(directory(base), "secret")

    assert left.obstacle is not None
    assert (place / "aside" / ONE).is_dir()


def test_a_parents_symlink_that_points_elsewhere_now_is_noticed(place: Path, sockets: FileSystemSockets) -> None:
    """Container runtimes mount the configured spelling, so that is what counts."""
    for each in ("one", "two"):
        (place / each).mkdir()
    (place / "current").symlink_to("one")
    sockets.make(directory(place / "current/memif"))
    (place / "current").unlink()
    (place / "current").symlink_to("two")

    sockets.make(directory(place / "current/memif"))

    assert (place / "two/memif" / ONE).is_dir()


@needs_root
def test_what_is_mounted_over_a_base_is_noticed(place: Path, sockets: FileSystemSockets) -> None:
    base = place / "memif"
    sockets.make(directory(base))
    with tmpfs(base, "size=1m,mode=0711"):
        assert sockets.look(str(base)).inodes == {}
        sockets.close()

    assert set(sockets.look(str(base)).inodes) == {ONE}


@needs_root
def test_a_base_may_be_a_mount_of_its_own(place: Path, sockets: FileSystemSockets) -> None:
    (place / "real").mkdir(0o711)
    with mounted(place / "memif", "--bind", str(place / "real")) as base:
        sockets.make(directory(base))
        (base / ONE / "sub").mkdir()

        assert sockets.remove(directory(base)).done
        assert names(place / "real") == set()
        sockets.close()


def test_removing_from_a_base_that_is_not_there_makes_none(place: Path, sockets: FileSystemSockets) -> None:
    """An allocation of a base directory that is not configured any more, after a reboot."""
    assert sockets.remove(directory(place / "old/memif")).done
    assert sockets.resume(f"{place}/old/memif").done
    assert sockets.read(directory(place / "old/memif"), "secret") is None
    assert not (place / "old").exists()


def test_no_descriptor_is_left_open(place: Path, sockets: FileSystemSockets) -> None:
    before = open_files()
    for number in range(3):
        base = place / f"memif-{number}"
        sockets.ensure(directory(base))
        sockets.ensure(directory(base))
        (base / ONE / "sub").mkdir()
        sockets.look(str(base))
        sockets.remove(directory(base))
        base.rmdir()
        base.touch()
        with pytest.raises(DirectoryUnusable):
            sockets.open(str(base))
    sockets.close()

    assert open_files() == before
