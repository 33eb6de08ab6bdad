"""The fake keeps the port's promises."""

import pytest

from adapters.memory.device_info import MemoryDeviceInfo
from tests.contract.device_info import DeviceInfoContract


class MemoryStage:
    directory = "/var/run/devinfo/dp"

    def __init__(self) -> None:
        self.keeper = MemoryDeviceInfo()

    def found(self) -> dict[str, str] | None:
        return self.keeper.directories.get(self.directory)

    def put(self, name: str, content: str) -> None:
        self.keeper.directories.setdefault(self.directory, {})[name] = content

    def break_next(self) -> None:
        self.keeper.fail_next()


@pytest.fixture
def stage() -> MemoryStage:
    return MemoryStage()


class TestMemoryDeviceInfo(DeviceInfoContract):
    pass
