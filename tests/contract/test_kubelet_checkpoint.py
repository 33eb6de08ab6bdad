"""The reader of the kubelet's own file keeps the port's promises."""

import base64
import json
from pathlib import Path

import pytest

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2
from adapters.kubelet.checkpoint import FILE_NAME, KubeletCheckpoint
from adapters.memory.clock import ManualClock
from domain.answer import Answer
from domain.evidence import CheckpointEntry
from tests.contract.checkpoint import CheckpointContract


class _Stage:
    """A file that is written as kubelet 1.36 does it: a temporary one beside it, then a rename."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._clock = ManualClock()
        self.checkpoint = KubeletCheckpoint(directory=str(directory), clock=self._clock)
        self.write()

    def write(self, *entries: CheckpointEntry) -> None:
        data: dict[str, object] = {
            "PodDeviceEntries": [
                {
                    "PodUID": each.uid,
                    "ContainerName": each.container,
                    "ResourceName": each.resource,
                    "DeviceIDs": {"-1": each.devices},
                    "AllocResp": base64.b64encode(_stored(each.answer)).decode(),
                }
                for each in entries
            ]
            or None,
            "RegisteredDevices": {},
        }
        temporary = self._path.with_name(".123456789")
        temporary.write_text(json.dumps({"Data": data, "Checksum": 1}), encoding="utf-8")
        temporary.rename(self._path)

    def lose(self) -> None:
        self._path.unlink()

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)

    def monotonic(self) -> float:
        return self._clock.monotonic()


def _stored(answer: Answer) -> bytes:
    return api_pb2.ContainerAllocateResponse(
        envs=answer.envs,
        mounts=[
            api_pb2.Mount(host_path=each.host_path, container_path=each.container_path, read_only=each.read_only)
            for each in answer.mounts
        ],
        annotations=answer.annotations,
    ).SerializeToString()


class TestKubeletCheckpoint(CheckpointContract):
    @pytest.fixture
    def stage(self, tmp_path: Path) -> _Stage:
        return _Stage(tmp_path)
