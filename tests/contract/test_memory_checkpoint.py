"""The memory checkpoint keeps its port's promises."""

from dataclasses import dataclass, field

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.kubelet import MemoryCheckpoint
from domain.evidence import CheckpointEntry, CheckpointView, Unknown
from domain.identity import PodUid
from tests.contract.checkpoint import CheckpointContract, an_entry


@dataclass
class _Stage:
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.checkpoint = MemoryCheckpoint(self.clock)

    def write(self, *entries: CheckpointEntry) -> None:
        self.checkpoint.forget(*(each.uid for each in self.checkpoint.entries))
        self.checkpoint.put(*entries)

    def lose(self) -> None:
        self.checkpoint.lose()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def monotonic(self) -> float:
        return self.clock.monotonic()


class TestMemoryCheckpoint(CheckpointContract):
    @pytest.fixture
    def stage(self) -> _Stage:
        return _Stage()


class TestLevers:
    def test_what_the_kubelet_forgot_stays_in_the_file_until_it_is_written(self) -> None:
        """A pod-resources List drops a dead pod from memory only; a device list makes the kubelet write."""
        checkpoint = MemoryCheckpoint(ManualClock())
        checkpoint.put(an_entry(uid="dead"), an_entry(uid="alive"))

        checkpoint.forget(PodUid("dead"))
        before = checkpoint.read()
        checkpoint.write()
        after = checkpoint.read()

        assert isinstance(before, CheckpointView)
        assert isinstance(after, CheckpointView)
        assert [each.uid for each in before.entries] == ["dead", "alive"]
        assert [each.uid for each in after.entries] == ["alive"]

    def test_a_new_answer_for_a_container_replaces_the_one_before(self) -> None:
        checkpoint = MemoryCheckpoint(ManualClock())
        checkpoint.put(an_entry(devices=("x/1",)))
        checkpoint.put(an_entry(devices=("x/2",)))

        assert [each.devices for each in checkpoint.entries] == [("x/2",)]

    def test_a_lost_file_says_why_and_is_mended_by_the_next_writing(self) -> None:
        checkpoint = MemoryCheckpoint(ManualClock())
        checkpoint.lose("the disk is gone")
        lost = checkpoint.read()
        checkpoint.write()

        assert lost == Unknown("the disk is gone")
        assert isinstance(checkpoint.read(), CheckpointView)
        assert checkpoint.reads == 2
