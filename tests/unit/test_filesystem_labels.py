import errno
import os
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from adapters.filesystem import labels
from adapters.filesystem.labels import CONTAINER_FILE, SelinuxLabels
from adapters.filesystem.sockets import FileSystemSockets
from domain.allocation import Directory, File
from domain.identity import AllocationId
from domain.pool import DirectoryRules
from domain.ports.sockets import DirectoryUnusable

PATH = "/run/contiv/memif/x"
OTHER = "system_u:object_r:memif_t:s0"


class Attributes:
    """The extended attribute of one file, as SELinux keeps it: with a zero at the end."""

    def __init__(self, mocker: MockerFixture) -> None:
        self.label: str | None = None
        self.refuses: int | None = None
        mocker.patch("os.getxattr", self._get)
        mocker.patch("os.setxattr", self._set)

    def _get(self, _fd: int, name: str) -> bytes:
        assert name == "security.selinux"
        if self.label is None:
            raise OSError(errno.ENODATA, os.strerror(errno.ENODATA))
        return self.label.encode() + b"\0"

    def _set(self, _fd: int, name: str, value: bytes) -> None:
        assert name == "security.selinux"
        if self.refuses is not None:
            raise OSError(self.refuses, os.strerror(self.refuses))
        self.label = value.decode()


@pytest.fixture
def attributes(mocker: MockerFixture) -> Attributes:
    return Attributes(mocker)


@pytest.fixture
def selinux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "enforce").write_text("1")
    monkeypatch.setattr(labels, "SELINUXFS", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("selinux")
def test_auto_lets_every_container_in_where_there_is_selinux(attributes: Attributes) -> None:
    """The kubelet does not relabel what a device plugin mounts."""
    attributes.label = "system_u:object_r:var_run_t:s0"

    said = SelinuxLabels().settle(3, "auto", PATH)

    assert attributes.label == CONTAINER_FILE == "system_u:object_r:container_file_t:s0"
    assert said == f"label system_u:object_r:var_run_t:s0 -> {CONTAINER_FILE}"
    assert SelinuxLabels().settle(3, "auto", PATH) is None


def test_auto_does_nothing_without_selinux(attributes: Attributes, selinux: Path) -> None:
    (selinux / "enforce").unlink()

    assert SelinuxLabels().settle(3, "auto", PATH) is None
    assert attributes.label is None


@pytest.mark.usefixtures("selinux")
def test_none_does_nothing_even_with_selinux(attributes: Attributes) -> None:
    assert SelinuxLabels().settle(3, "none", PATH) is None
    assert attributes.label is None


def test_a_label_of_ones_own_is_set_anywhere(attributes: Attributes) -> None:
    assert SelinuxLabels().settle(3, OTHER, PATH) == f"label none -> {OTHER}"
    assert attributes.label == OTHER


@pytest.mark.usefixtures("selinux")
def test_auto_bears_a_file_system_whose_label_is_fixed_by_a_mount_option(attributes: Attributes) -> None:
    attributes.refuses = errno.ENOTSUP

    assert SelinuxLabels().settle(3, "auto", PATH) is None


@pytest.mark.usefixtures("selinux")
@pytest.mark.parametrize(
    "rule, number", [(OTHER, errno.ENOTSUP), (OTHER, errno.EINVAL), ("auto", errno.EACCES), ("auto", errno.EPERM)]
)
def test_a_refused_label_is_told_with_its_key(attributes: Attributes, rule: str, number: int) -> None:
    attributes.refuses = number
    with pytest.raises(DirectoryUnusable, match=rf"on {PATH}: {os.strerror(number)}; check the pool's selinux_label"):
        SelinuxLabels().settle(3, rule, PATH)


@pytest.mark.parametrize("rule", ["none", "auto"])
def test_without_a_label_of_ours_none_differs(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mocker: MockerFixture
) -> None:
    monkeypatch.setattr(labels, "SELINUXFS", str(tmp_path))
    looked = mocker.patch("os.getxattr")

    assert SelinuxLabels().difference(PATH, rule) is None
    looked.assert_not_called()


@pytest.mark.parametrize(
    "found, told",
    [
        (CONTAINER_FILE.encode() + b"\0", None),
        (b"system_u:object_r:var_run_t:s0\0", f"label system_u:object_r:var_run_t:s0 -> {CONTAINER_FILE}"),
        (OSError(errno.ENODATA, "no data"), f"label none -> {CONTAINER_FILE}"),
        (OSError(errno.ENOTSUP, "not supported"), None),
    ],
    ids=["as it must be", "another", "none", "a file system without labels"],
)
@pytest.mark.usefixtures("selinux")
def test_what_differs_is_told_and_nothing_is_set(
    found: bytes | OSError, told: str | None, mocker: MockerFixture
) -> None:
    look = mocker.patch("os.getxattr", side_effect=[found])
    setting = mocker.patch("os.setxattr")

    assert SelinuxLabels().difference(PATH, "auto") == told
    look.assert_called_once_with(PATH, "security.selinux", follow_symlinks=False)
    setting.assert_not_called()


def test_a_label_that_cannot_be_read_is_an_error(mocker: MockerFixture) -> None:
    mocker.patch("os.getxattr", side_effect=OSError(errno.EIO, "input/output error"))
    with pytest.raises(OSError, match="input/output error"):
        SelinuxLabels().difference(PATH, OTHER)


class FakeLabels:
    """SELinux that is only written down."""

    def __init__(self) -> None:
        self.set: dict[str, str] = {}
        self.refuses = False

    def settle(self, fd: int, rule: str, path: str) -> str | None:
        assert os.fstat(fd)
        if self.refuses:
            raise DirectoryUnusable(f"cannot label {path}")
        if self.set.get(path) == rule:
            return None
        self.set[path] = rule
        return f"label -> {rule}"

    def difference(self, path: str, rule: str) -> str | None:
        assert Path(path).is_dir()
        return None if rule in self.set.values() else f"label -> {rule}"


def test_directories_and_files_are_labelled_and_mended(tmp_path: Path) -> None:
    fake = FakeLabels()
    sockets = FileSystemSockets(labels=fake)
    directory = Directory(
        host_dir=f"{tmp_path}/memif",
        id=AllocationId("bcdfghjklmnpqrstvwxz"),
        rules=DirectoryRules(selinux_label=OTHER),
        files=(File(name="secret", content="s3cr3t"),),
    )
    sockets.make(directory)
    labelled = dict(fake.set)
    assert sockets.differences(directory) == ()
    fake.set.clear()
    different = sockets.differences(directory)
    mended = sockets.ensure(directory).mended
    sockets.close()

    assert different == (f"label -> {OTHER}",)
    assert labelled == {directory.path: OTHER, f"{directory.path}/secret": OTHER}
    assert mended == (f"label -> {OTHER}", f"file secret: label -> {OTHER}")


def test_a_directory_that_cannot_be_labelled_is_not_made(tmp_path: Path) -> None:
    fake = FakeLabels()
    fake.refuses = True
    sockets = FileSystemSockets(labels=fake)
    directory = Directory(host_dir=f"{tmp_path}/memif", id=AllocationId("bcdfghjklmnpqrstvwxz"), rules=DirectoryRules())
    with pytest.raises(DirectoryUnusable, match="cannot label"):
        sockets.make(directory)
    sockets.close()

    assert list((tmp_path / "memif").iterdir()) == []
