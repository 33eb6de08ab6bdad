"""What every keeper of device information promises; subclass :class:`DeviceInfoContract` and give it a stage."""

from typing import Protocol

import pytest

from domain.device_info import DeviceInfo
from domain.ports.device_info import DeviceInfoFiles, Settled
from domain.ports.sockets import DirectoryUnusable

ONE, TWO, OTHERS = "memif-1-device.json", "memif-2-device.json", "sriov-1-device.json"
OURS = frozenset({ONE, TWO})


class Stage(Protocol):
    """The adapter under test, and what others do to its directory."""

    @property
    def keeper(self) -> DeviceInfoFiles: ...
    @property
    def directory(self) -> str:
        """A directory that does not exist yet."""
        ...

    def found(self) -> dict[str, str] | None:
        """Return content by name, ``None`` if there is no directory."""
        ...

    def put(self, name: str, content: str) -> None: ...
    def break_next(self) -> None:
        """Let the next call fail."""
        ...


class DeviceInfoContract:
    @staticmethod
    def info(stage: Stage, **files: str) -> DeviceInfo:
        names = {"one": ONE, "two": TWO}
        return DeviceInfo(directory=stage.directory, files={names[key]: text for key, text in files.items()}, ours=OURS)

    def test_what_is_written_is_there(self, stage: Stage) -> None:
        stage.keeper.write(stage.directory, {ONE: "{}\n", TWO: "[]\n"})

        assert stage.found() == {ONE: "{}\n", TWO: "[]\n"}

    def test_a_file_that_is_there_is_replaced(self, stage: Stage) -> None:
        stage.put(ONE, "of an earlier grant")
        stage.keeper.write(stage.directory, {ONE: "{}\n"})

        assert stage.found() == {ONE: "{}\n"}

    def test_settling_writes_what_is_missing_or_different_and_says_so(self, stage: Stage) -> None:
        stage.put(ONE, "nonsense")

        assert stage.keeper.settle(self.info(stage, one="{}\n", two="[]\n")) == Settled(written=(ONE, TWO))
        assert stage.found() == {ONE: "{}\n", TWO: "[]\n"}

    def test_settling_what_is_as_it_must_be_changes_nothing(self, stage: Stage) -> None:
        stage.keeper.write(stage.directory, {ONE: "{}\n"})

        assert stage.keeper.settle(self.info(stage, one="{}\n")) == Settled()

    def test_only_what_is_ours_is_removed(self, stage: Stage) -> None:
        stage.keeper.write(stage.directory, {ONE: "{}\n", TWO: "{}\n"})
        stage.put(OTHERS, "theirs")

        assert stage.keeper.settle(self.info(stage, two="{}\n")) == Settled(removed=(ONE,))
        assert stage.found() == {TWO: "{}\n", OTHERS: "theirs"}

    def test_a_directory_is_not_made_for_nothing(self, stage: Stage) -> None:
        assert stage.keeper.settle(self.info(stage)) == Settled()
        assert stage.found() is None

    def test_a_trouble_is_told_and_is_over_when_it_is_over(self, stage: Stage) -> None:
        for _ in range(2):
            stage.break_next()
            with pytest.raises(DirectoryUnusable):
                stage.keeper.settle(self.info(stage, one="{}\n"))
            stage.break_next()
            with pytest.raises(DirectoryUnusable):
                stage.keeper.write(stage.directory, {ONE: "{}\n"})

        stage.keeper.write(stage.directory, {ONE: "{}\n"})
        assert stage.found() == {ONE: "{}\n"}
