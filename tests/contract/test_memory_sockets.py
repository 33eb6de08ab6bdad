from dataclasses import replace

import pytest

from adapters.memory.sockets import MemorySockets
from adapters.system.clock import SystemClock
from domain.allocation import Directory
from domain.pool import DirectoryRules
from domain.ports.sockets import DirectoryUnusable, NoRoom
from tests.contract.sockets import ENTRIES_A_PASS, ONE, SocketsContract, Stage


class _MemoryStage:
    host_dir = "/run/memif"

    def __init__(self) -> None:
        self.sockets = MemorySockets(SystemClock(), entries_a_pass=ENTRIES_A_PASS)

    def exists(self, directory: Directory) -> bool:
        return self.sockets.exists(directory)

    def mode(self, directory: Directory) -> int:
        return self.sockets.mode(directory)

    def waiting(self) -> int:
        return self.sockets.waiting(self.host_dir).total()

    def wipe(self) -> None:
        self.sockets.wipe(self.host_dir)

    def runtime_makes(self, directory: Directory) -> int:
        return self.sockets.replace(directory)

    def put(self, directory: Directory, name: str, content: str) -> None:
        self.sockets.put(directory, name, content)

    def litter(self, directory: Directory, entries: int) -> None:
        self.sockets.litter(directory, entries)

    def obstruct(self, directory: Directory) -> None:
        self.sockets.obstruct(directory)

    def clear(self, directory: Directory) -> None:
        self.sockets.clear(directory)

    def fill(self) -> None:
        self.sockets.fill(self.host_dir)

    def free(self) -> None:
        self.sockets.free(self.host_dir)

    def add_stranger(self, name: str) -> None:
        self.sockets.add_stranger(self.host_dir, name)


class TestMemorySockets(SocketsContract):
    @pytest.fixture
    def stage(self) -> Stage:
        return _MemoryStage()


class TestItsLevers:
    """What tests of the use cases rely on beyond the port."""

    @pytest.fixture
    def stage(self) -> _MemoryStage:
        return _MemoryStage()

    def test_every_call_is_remembered_in_order(self, stage: _MemoryStage) -> None:
        directory = SocketsContract.directory(stage)
        stage.sockets.open(stage.host_dir)
        stage.sockets.make(directory)
        stage.sockets.remove(directory)

        assert stage.sockets.asked == ["open /run/memif", f"make /run/memif/{ONE}", f"remove /run/memif/{ONE}"]

    def test_a_failure_is_served_once_and_changes_nothing(self, stage: _MemoryStage) -> None:
        directory = SocketsContract.directory(stage)
        stage.sockets.fail_next(NoRoom("told to"))
        stage.sockets.fail_next()
        with pytest.raises(NoRoom, match="told to"):
            stage.sockets.make(directory)
        with pytest.raises(DirectoryUnusable):
            stage.sockets.ensure(directory)

        assert not stage.exists(directory)
        assert stage.sockets.ensure(directory).made

    def test_group_and_label_are_kept_and_mended(self, stage: _MemoryStage) -> None:
        rules = DirectoryRules(mode=0o2750, group="memif", selinux_label="system_u:object_r:memif_t:s0")
        directory = replace(SocketsContract.directory(stage), rules=rules)
        stage.sockets.replace(directory)

        different = stage.sockets.differences(directory)
        mended = stage.sockets.ensure(directory).mended

        assert mended == (
            "group None -> memif",
            "mode 0755 -> 2750",
            "label none -> system_u:object_r:memif_t:s0",
        )
        assert different == mended
        assert stage.sockets.differences(directory) == ()
        assert stage.sockets.rules(directory) == rules

    def test_another_spelling_shows_in_the_view(self, stage: _MemoryStage) -> None:
        stage.sockets.also_spelled(stage.host_dir, "/var/run/memif")

        assert stage.sockets.look(stage.host_dir).spellings == {"/run/memif", "/var/run/memif"}
