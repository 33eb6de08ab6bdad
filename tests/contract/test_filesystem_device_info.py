"""The file system keeps the port's promises, whatever lies in its way."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_mock

from adapters.filesystem.device_info import FileSystemDeviceInfo
from domain.device_info import DeviceInfo
from domain.ports.sockets import DirectoryUnusable
from tests.contract.device_info import ONE, OURS, TWO, DeviceInfoContract
from tests.integration.filesystem import short_place


class DiskStage:
    def __init__(self, root: Path, mocker: pytest_mock.MockerFixture) -> None:
        self.place = root / "devinfo" / "dp"
        self.directory = str(self.place)
        self.keeper = FileSystemDeviceInfo()
        self._mocker = mocker

    def found(self) -> dict[str, str] | None:
        if not self.place.exists():
            return None
        return {each.name: each.read_text(encoding="utf-8") for each in self.place.iterdir()}

    def put(self, name: str, content: str) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        (self.place / name).write_text(content, encoding="utf-8")

    def break_next(self) -> None:
        really, failed = os.open, [False]

        def fails_once(*arguments: object, **options: object) -> int:
            if not failed[0]:
                failed[0] = True
                raise PermissionError(13, "no")
            return really(*arguments, **options)  # type: ignore[arg-type]  # whatever was given

        self._mocker.patch("adapters.filesystem.device_info.os.open", fails_once)


@pytest.fixture
def stage(mocker: pytest_mock.MockerFixture) -> Iterator[DiskStage]:
    with short_place() as root:
        yield DiskStage(root, mocker)


class TestFileSystemDeviceInfo(DeviceInfoContract):
    @pytest.mark.parametrize("umask", [0o000, 0o077])
    def test_everybody_may_read_and_nobody_else_write(self, stage: DiskStage, umask: int) -> None:
        stage.place.parent.mkdir()
        before = os.umask(umask)
        try:
            stage.keeper.write(stage.directory, {ONE: "{}\n"})
        finally:
            os.umask(before)

        assert stat.S_IMODE(stage.place.stat().st_mode) & 0o022 == 0
        assert stat.S_IMODE((stage.place / ONE).stat().st_mode) == 0o644

    def test_a_symlink_in_the_place_of_a_file_is_replaced_and_not_followed(self, stage: DiskStage) -> None:
        stage.place.mkdir(parents=True)
        target = stage.place.parent / "target"
        target.write_text("untouched", encoding="utf-8")
        (stage.place / ONE).symlink_to(target)
        stage.keeper.write(stage.directory, {ONE: "{}\n"})

        assert target.read_text(encoding="utf-8") == "untouched"
        assert not (stage.place / ONE).is_symlink()

    def test_what_a_crash_left_half_written_goes(self, stage: DiskStage) -> None:
        stage.put(".new-0123456789abcdef", "hal")
        stage.keeper.write(stage.directory, {ONE: "{}\n"})

        assert stage.found() == {ONE: "{}\n"}

    def test_a_directory_that_others_may_write_to_is_refused(self, stage: DiskStage) -> None:
        stage.place.mkdir(parents=True)
        stage.place.chmod(0o777)
        with pytest.raises(DirectoryUnusable, match="has mode 0777, so others could write what Multus tells pods"):
            stage.keeper.write(stage.directory, {ONE: "{}\n"})

    def test_a_symlink_in_the_place_of_the_directory_is_refused(self, stage: DiskStage) -> None:
        stage.place.parent.mkdir()
        (stage.place.parent / "real").mkdir()
        stage.place.symlink_to(stage.place.parent / "real")
        with pytest.raises(DirectoryUnusable, match="cannot open or make"):
            stage.keeper.write(stage.directory, {ONE: "{}\n"})

    def test_when_the_second_cannot_be_written_the_first_is_taken_back(self, stage: DiskStage) -> None:
        (stage.place / TWO).mkdir(parents=True)
        with pytest.raises(DirectoryUnusable):
            stage.keeper.write(stage.directory, {ONE: "{}\n", TWO: "{}\n"})

        assert [each.name for each in stage.place.iterdir()] == [TWO]

    def test_one_that_cannot_be_removed_is_told(self, stage: DiskStage) -> None:
        (stage.place / ONE).mkdir(parents=True)
        with pytest.raises(DirectoryUnusable, match="cannot remove device information"):
            stage.keeper.settle(DeviceInfo(directory=stage.directory, files={}, ours=OURS))
