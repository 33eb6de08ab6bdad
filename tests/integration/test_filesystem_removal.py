"""Removal of what tenants leave behind, on real file systems with real mounts, devices and races."""

import itertools
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from adapters.filesystem.removal import Limits
from adapters.filesystem.sockets import FileSystemSockets
from domain.ports.sockets import Leftover
from tests.integration.filesystem import (
    ONE,
    TWO,
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
def base(place: Path) -> Path:
    return place / "memif"


@pytest.fixture
def sockets() -> Iterator[FileSystemSockets]:
    made = FileSystemSockets()
    yield made
    made.close()


def passes(sockets: FileSystemSockets, base: Path, most: int) -> int:
    """Resume until nothing is left to do and return how many passes that took."""
    for number in range(1, most + 1):
        if not sockets.resume(str(base)).more:
            return number
    raise AssertionError(f"more than {most} passes")


def deep(parent: Path, levels: int) -> None:
    """Make directories below each other, deeper than a path can be long, with a file in each."""
    fd = os.open(parent, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=fd)
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)


# what may lie there -----------------------------------------------------------------------------------------------


def test_everything_that_a_tenant_can_make_goes(base: Path, sockets: FileSystemSockets) -> None:
    sockets.make(directory(base))
    there = base / ONE
    os.mkfifo(there / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(there / "s"))
    (there / "hard").touch()
    os.link(there / "hard", there / "linked")
    (there / "dangling").symlink_to("nowhere")
    (there / "loop").symlink_to("loop")
    (there / "up").symlink_to("..")
    (there / "-rf *").touch()
    (there / "line\nbreak").mkdir()
    (there / ("n" * 255)).touch()
    (there / "a/b/c").mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(there) + b"/\xff\xfe")).mkdir()

    assert sockets.remove(directory(base)) == Leftover()
    assert names(base) == set()


@needs_root
def test_devices_are_removed_and_never_opened(base: Path, sockets: FileSystemSockets, mocker: MockerFixture) -> None:
    sockets.make(directory(base))
    os.mknod(base / ONE / "block", stat.S_IFBLK | 0o666, os.makedev(7, 250))
    os.mknod(base / ONE / "secret", stat.S_IFCHR | 0o666, os.makedev(10, 130))  # a watchdog, which opening starts
    opened = mocker.spy(os, "open")

    assert sockets.read(directory(base), "secret") is None
    assert sockets.remove(directory(base)).done
    assert names(base) == set()
    assert all(call.args[1] & os.O_PATH for call in opened.call_args_list if call.args[0] in {"block", "secret"})


def test_what_symlinks_point_to_stays(base: Path, place: Path, sockets: FileSystemSockets) -> None:
    sockets.make(directory(base))
    (place / "treasure/chest").mkdir(parents=True)
    (place / "treasure/coin").touch()
    (base / ONE / "etc").symlink_to("/etc")
    (base / ONE / "treasure").symlink_to(place / "treasure")
    (base / ONE / "coin").symlink_to(place / "treasure/coin")

    assert sockets.remove(directory(base)).done
    assert names(place / "treasure") == {"chest", "coin"}
    assert Path("/etc").is_dir()


def test_a_symlink_in_the_place_of_an_allocation_goes_without_its_target(
    base: Path, place: Path, sockets: FileSystemSockets
) -> None:
    sockets.open(str(base))
    (place / "treasure").mkdir()
    (base / ONE).symlink_to(place / "treasure")
    (place / "treasure/coin").touch()

    assert sockets.look(str(base)).strangers == {ONE}
    assert sockets.remove(directory(base)).done
    assert names(base) == set()
    assert names(place / "treasure") == {"coin"}


@needs_root
def test_directories_without_any_permission_go(base: Path, sockets: FileSystemSockets) -> None:
    sockets.make(directory(base))
    (base / ONE / "locked/inner").mkdir(parents=True)
    (base / ONE / "locked/inner").chmod(0)
    (base / ONE / "locked").chmod(0)
    (base / ONE).chmod(0)

    assert sockets.remove(directory(base)).done


# bounds -----------------------------------------------------------------------------------------------------------


def test_many_entries_take_several_passes(base: Path, sockets: FileSystemSockets) -> None:
    sockets.make(directory(base))
    for number in range(10_050):
        os.close(os.open(base / ONE / f"{number}", os.O_CREAT | os.O_WRONLY))

    first = sockets.remove(directory(base))

    left = list((base / next(iter(names(base)))).iterdir())
    assert first == Leftover(more=True, left=frozenset({ONE}))
    assert len(left) >= 50  # more than that if this machine needs over a second
    passes(sockets, base, 30)
    assert names(base) == set()


@pytest.mark.parametrize("entries", [1, 2, 3, 7])
def test_no_pass_removes_more_than_its_entries_and_all_of_them_come_to_an_end(base: Path, entries: int) -> None:
    sockets = FileSystemSockets(limits=Limits(entries=entries, seconds=60))
    sockets.make(directory(base))
    for name in ("a", "b"):
        (base / ONE / name / "sub").mkdir(parents=True)
        (base / ONE / name / "file").touch()
    total = 7  # 2 x (itself, sub, file), and the allocation's own
    sockets.remove(directory(base))

    def count() -> int:
        return sum(len(below) + len(found) for _, below, found in os.walk(base))

    assert count() == total - min(entries, total)
    for _ in range(-(-total // entries) - 1):
        before = count()
        sockets.resume(str(base))
        assert count() == before - min(entries, before)
    assert sockets.resume(str(base)).done
    sockets.close()


def test_a_pass_ends_with_its_time(base: Path) -> None:
    ticks = itertools.count()
    sockets = FileSystemSockets(monotonic=lambda: float(next(ticks)), limits=Limits(seconds=3))
    sockets.make(directory(base))
    for number in range(10):
        (base / ONE / f"{number}").touch()

    left = sockets.remove(directory(base))

    assert left == Leftover(more=True, left=frozenset({ONE}))
    assert sum(len(found) for _, _, found in os.walk(base)) == 7
    assert passes(sockets, base, 10) == 3
    sockets.close()


def test_a_clock_that_is_always_late_does_not_stop_the_removal_for_ever(base: Path) -> None:
    """On storage so slow that the descent alone takes the whole pass."""
    ticks = itertools.count(step=10)
    sockets = FileSystemSockets(monotonic=lambda: float(next(ticks)), limits=Limits(seconds=1))
    sockets.make(directory(base))
    deep(base / ONE, 3)
    sockets.remove(directory(base))

    passes(sockets, base, 10)
    assert names(base) == set()
    sockets.close()


@pytest.mark.parametrize("levels", [63, 64, 65, 100, 300])
def test_deep_trees_are_moved_up_and_removed(base: Path, sockets: FileSystemSockets, levels: int) -> None:
    sockets.make(directory(base))
    deep(base / ONE, levels)
    sockets.remove(directory(base))

    passes(sockets, base, 10)
    assert names(base) == set()


def test_a_tree_that_is_too_deep_for_any_path_is_removed_in_several_passes(base: Path) -> None:
    sockets = FileSystemSockets(limits=Limits(levels=8, entries=100, seconds=60))
    sockets.make(directory(base))
    deep(base / ONE, 3000)
    before = open_files()
    sockets.remove(directory(base))

    assert sockets.look(str(base)).strangers == frozenset()
    assert passes(sockets, base, 100) > 10
    assert names(base) == set()
    assert open_files() == before
    sockets.close()


def test_a_removal_that_crashed_is_resumed_by_the_next_process(base: Path, sockets: FileSystemSockets) -> None:
    crashed = FileSystemSockets(limits=Limits(entries=1))
    crashed.make(directory(base))
    (base / ONE / "a/b").mkdir(parents=True)
    crashed.remove(directory(base))
    crashed.close()

    assert len(names(base)) == 1
    assert sockets.resume(str(base)).done
    assert names(base) == set()


def test_waiting_names_that_are_not_ours_are_left_alone(base: Path, sockets: FileSystemSockets) -> None:
    sockets.open(str(base))
    ours = f".gone-{ONE}-0123456789abcdef"
    others = {".gone-", ".gone-x-y", f".gone-{ONE}", f".gone-{ONE}-0123", f".gone-{ONE.upper()}-0123456789abcdef"}
    for name in {ours, *others}:
        (base / name).mkdir()

    assert sockets.look(str(base)).strangers == others
    assert sockets.resume(str(base)).done
    assert names(base) == others


# obstacles --------------------------------------------------------------------------------------------------------


@needs_root
def test_a_bind_mount_inside_is_not_entered(base: Path, place: Path, sockets: FileSystemSockets) -> None:
    """On the same file system, so that the device number alone would not give it away."""
    sockets.make(directory(base))
    (place / "treasure").mkdir()
    (place / "treasure/coin").touch()
    (base / ONE / "a").touch()
    (base / ONE / "z").touch()
    (base / ONE / "sub").mkdir()
    with mounted(base / ONE / "sub/mnt", "--bind", str(place / "treasure")):
        left = sockets.remove(directory(base))

    (waiting,) = names(base)
    assert left.obstacle is not None
    assert not left.more
    assert f"{base}/{waiting}/sub/mnt: Device or resource busy; it is a mount point" in left.obstacle
    assert names(base / waiting) == {"sub"}
    assert names(place / "treasure") == {"coin"}
    run("umount", str(base / waiting / "sub/mnt"))
    assert sockets.resume(str(base)).done
    assert names(base) == set()


@needs_root
def test_a_file_that_is_a_mount_point_is_an_obstacle(base: Path, place: Path, sockets: FileSystemSockets) -> None:
    sockets.make(directory(base))
    (place / "coin").write_text("gold")
    (base / ONE / "file").touch()
    run("mount", "--bind", str(place / "coin"), str(base / ONE / "file"))

    left = sockets.remove(directory(base))

    (waiting,) = names(base)
    run("umount", str(base / waiting / "file"))
    assert left.obstacle is not None
    assert "/file: Device or resource busy" in left.obstacle
    assert (place / "coin").read_text() == "gold"
    assert sockets.resume(str(base)).done


@needs_root
def test_a_directory_that_is_a_mount_point_itself_stays(base: Path, sockets: FileSystemSockets) -> None:
    sockets.make(directory(base))
    with tmpfs(base / ONE):
        (base / ONE / "data").touch()

        left = sockets.remove(directory(base))

        assert left.obstacle is not None
        assert f"{base / ONE}: Device or resource busy; it is a mount point" in left.obstacle
        assert names(base / ONE) == {"data"}
        assert sockets.look(str(base)).inodes == {ONE: (base / ONE).stat().st_ino}

    assert sockets.remove(directory(base)).done


@needs_root
def test_an_immutable_file_is_an_obstacle_and_the_rest_goes(base: Path, sockets: FileSystemSockets) -> None:
    sockets.make(directory(base))
    kept = base / ONE / "sub" / "kept"
    kept.parent.mkdir()
    for path in (kept, base / ONE / "a", base / ONE / "sub/z"):
        path.touch()
    try:
        run("chattr", "+i", str(kept))
    except Exception as error:  # noqa: BLE001 - no chattr, or a file system without it
        pytest.skip(f"chattr +i does not work here: {error}")

    left = sockets.remove(directory(base))

    (waiting,) = names(base)
    found = [Path(at, name).name for at, _, files in os.walk(base / waiting) for name in files]
    run("chattr", "-i", str(base / waiting / "sub/kept"))
    assert left.obstacle is not None
    assert not left.more
    assert "/sub/kept: Operation not permitted; if lsattr shows it immutable" in left.obstacle
    assert found == ["kept"]
    assert sockets.resume(str(base)).done


@needs_root
def test_what_is_stuck_does_not_keep_the_rest_from_being_removed(base: Path) -> None:
    """However often it is retried, and although it could use up every pass."""
    sockets = FileSystemSockets(limits=Limits(entries=3))
    sockets.make(directory(base))
    stuck = [base / ONE / f"{number}" for number in range(5)]
    for path in stuck:
        path.mkdir()
        run("mount", "-t", "tmpfs", "tmpfs", str(path))
    sockets.remove(directory(base))
    sockets.make(directory(base, TWO))
    for number in range(10):
        (base / TWO / f"{number}").touch()
    sockets.remove(directory(base, TWO))
    for _ in range(5):
        sockets.resume(str(base))

    (waiting,) = names(base)
    for path in stuck:
        run("umount", str(base / waiting / path.name))
    while sockets.resume(str(base)).more:
        pass
    assert names(base) == set()
    sockets.close()


@needs_root
def test_names_in_obstacles_are_escaped_and_cut(base: Path, sockets: FileSystemSockets) -> None:
    sockets.make(directory(base))
    name = b"\x1b[31m\n\xff" + b"n" * 200
    path = Path(os.fsdecode(os.fsencode(base / ONE) + b"/" + name))
    with mounted(path, "--bind", "/etc"):
        obstacle = sockets.remove(directory(base)).obstacle

    (waiting,) = names(base)
    assert obstacle is not None
    assert obstacle.isascii()
    assert obstacle.isprintable()
    assert rf"{waiting}/\x1b[31m\n\xffnnn" in obstacle
    assert "n" * 120 not in obstacle


# races ------------------------------------------------------------------------------------------------------------


def test_a_directory_exchanged_for_a_symlink_after_the_listing_leads_nowhere(
    base: Path, place: Path, sockets: FileSystemSockets, mocker: MockerFixture
) -> None:
    sockets.make(directory(base))
    (base / ONE / "sub").mkdir()
    (place / "treasure").mkdir()
    (place / "treasure/coin").touch()
    really_open = os.open

    def open_late(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "sub" and dir_fd is not None:
            os.rmdir("sub", dir_fd=dir_fd)
            os.symlink(place / "treasure", "sub", dir_fd=dir_fd)
        return really_open(path, flags, mode, dir_fd=dir_fd)

    mocker.patch("os.open", open_late)
    first = sockets.remove(directory(base))
    mocker.stopall()

    assert first == Leftover(more=True, left=frozenset({ONE}))
    assert names(place / "treasure") == {"coin"}
    assert sockets.resume(str(base)).done
    assert names(base) == set()
    assert names(place / "treasure") == {"coin"}


def test_a_directory_exchanged_after_it_was_emptied_leads_nowhere(
    base: Path, place: Path, sockets: FileSystemSockets, mocker: MockerFixture
) -> None:
    sockets.make(directory(base))
    (base / ONE / "sub").mkdir()
    (place / "treasure").mkdir()
    really_rmdir = os.rmdir

    def rmdir_late(path: str, *, dir_fd: int | None = None) -> None:
        if path == "sub":
            really_rmdir("sub", dir_fd=dir_fd)
            os.symlink(place / "treasure", "sub", dir_fd=dir_fd)
        really_rmdir(path, dir_fd=dir_fd)

    mocker.patch("os.rmdir", rmdir_late)
    first = sockets.remove(directory(base))
    mocker.stopall()

    assert first.more
    assert (place / "treasure").is_dir()
    assert sockets.resume(str(base)).done


def test_a_file_exchanged_for_a_directory_is_removed_by_the_next_pass(
    base: Path, sockets: FileSystemSockets, mocker: MockerFixture
) -> None:
    sockets.make(directory(base))
    (base / ONE / "thing").touch()
    really_unlink = os.unlink

    def unlink_late(path: str, *, dir_fd: int | None = None) -> None:
        really_unlink(path, dir_fd=dir_fd)
        os.mkdir(path, dir_fd=dir_fd)
        really_unlink(path, dir_fd=dir_fd)

    mocker.patch("os.unlink", unlink_late)
    first = sockets.remove(directory(base))
    mocker.stopall()

    assert first == Leftover(more=True, left=frozenset({ONE}))
    assert sockets.resume(str(base)).done


def test_a_tenant_that_goes_on_writing_is_no_obstacle(
    base: Path, sockets: FileSystemSockets, mocker: MockerFixture
) -> None:
    """As after a forced release, when the container still runs."""
    sockets.make(directory(base))
    really_rmdir = os.rmdir

    def rmdir_late(path: str, *, dir_fd: int | None = None) -> None:
        fd = os.open(path, os.O_RDONLY, dir_fd=dir_fd)
        os.mkdir(f"again-{time.monotonic_ns()}", dir_fd=fd)
        os.close(fd)
        really_rmdir(path, dir_fd=dir_fd)

    mocker.patch("os.rmdir", rmdir_late)
    first = sockets.remove(directory(base))
    mocker.stopall()

    assert first == Leftover(more=True, left=frozenset({ONE}))
    assert sockets.resume(str(base)).done


def test_somebody_else_removing_the_same_is_no_obstacle(
    base: Path, sockets: FileSystemSockets, mocker: MockerFixture
) -> None:
    sockets.make(directory(base))
    (base / ONE / "a").touch()
    really_unlink = os.unlink

    def unlink_twice(path: str, *, dir_fd: int | None = None) -> None:
        really_unlink(path, dir_fd=dir_fd)
        really_unlink(path, dir_fd=dir_fd)

    mocker.patch("os.unlink", unlink_twice)
    left = sockets.remove(directory(base))

    assert left.done
