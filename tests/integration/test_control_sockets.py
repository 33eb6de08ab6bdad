"""Where the control sockets lie, and who may use them."""

import grp
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters.control.sockets import ControlSocketUnusable, Place, hand_over, prepare
from tests.integration.filesystem import short_place

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files away: run as root")


@pytest.fixture
def root() -> Iterator[Path]:
    with short_place() as place:
        yield place


def a_place(path: Path, mode: int = 0o600, group: str | int | None = None) -> Place:
    return Place(path=str(path), mode=mode, group=group)


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def listening(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(1)
        yield


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_missing_directories_are_made_for_everybody_to_pass(root: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        prepare(a_place(root / "a" / "b" / "control.sock"))
    finally:
        os.umask(before)

    assert [permissions(path) for path in (root / "a", root / "a" / "b")] == [0o755, 0o755]


def test_a_directory_that_is_there_stays_as_it_is(root: Path) -> None:
    (root / "a").mkdir()
    (root / "a").chmod(0o700)
    prepare(a_place(root / "a" / "control.sock"))

    assert permissions(root / "a") == 0o700


def test_the_socket_of_a_dead_process_is_removed(root: Path) -> None:
    path = root / "control.sock"
    with listening(path):
        pass
    assert path.is_socket()
    prepare(a_place(path))

    assert not path.exists()


def test_the_socket_of_a_living_process_is_never_taken_over(root: Path) -> None:
    path = root / "control.sock"
    with listening(path):
        with pytest.raises(ControlSocketUnusable, match=r"control\.sock cannot be opened: another process answers"):
            prepare(a_place(path))

        assert path.is_socket()


def test_a_process_that_is_too_busy_to_take_another_connection_lives(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "control.sock"
    monkeypatch.setattr("adapters.control.sockets._ANSWER", 0.01)
    with listening(path):
        waiting = []
        for _ in range(3):
            waiting.append(client := socket.socket(socket.AF_UNIX))
            client.settimeout(0)
            client.connect_ex(str(path))
        with pytest.raises(ControlSocketUnusable, match="another process answers"):
            prepare(a_place(path))
        for client in waiting:
            client.close()


@pytest.mark.parametrize("kind", ["file", "directory", "symlink"])
def test_what_is_no_socket_is_left_alone(root: Path, kind: str) -> None:
    path = root / "control.sock"
    match kind:
        case "file":
            path.write_text("mine", encoding="utf-8")
        case "directory":
            path.mkdir()
        case _:
            path.symlink_to(root / "elsewhere")

    with pytest.raises(ControlSocketUnusable, match="no socket lies there; move it away"):
        prepare(a_place(path))
    assert os.path.lexists(path)


def test_a_directory_that_cannot_be_made_is_told(root: Path) -> None:
    (root / "file").write_text("", encoding="utf-8")

    with pytest.raises(ControlSocketUnusable, match=r"file/control\.sock cannot be opened: Not a directory"):
        prepare(a_place(root / "file" / "control.sock"))


@as_root
def test_a_socket_is_handed_to_its_group_with_its_mode(root: Path) -> None:
    path = root / "control.sock"
    group = grp.getgrgid(NOBODY)
    with listening(path):
        for given in (NOBODY, group.gr_name):
            hand_over(a_place(path, mode=0o660, group=given))
            found = path.stat()

            assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, NOBODY, 0o660)
        hand_over(a_place(path))

        assert (path.stat().st_gid, permissions(path)) == (0, 0o600)


def test_a_group_that_does_not_exist_is_told(root: Path) -> None:
    path = root / "control.sock"
    with listening(path), pytest.raises(ControlSocketUnusable, match="there is no group 'nosuch' on this node"):
        hand_over(a_place(path, group="nosuch"))
