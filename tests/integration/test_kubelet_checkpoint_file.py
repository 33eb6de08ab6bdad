"""The checkpoint as a file: what may lie there, and when it is read anew."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from adapters.kubelet.checkpoint import FILE_NAME, KubeletCheckpoint
from adapters.memory.clock import ManualClock
from domain.evidence import CheckpointView, Unknown
from tests.integration.kubelet import a_directory

CAPTURE = Path(__file__).parents[1] / "captures" / f"{FILE_NAME}.docker.json"

ROOT = Path(__file__).parents[2]

READ_AS_NOBODY = """
import os, sys
from adapters.kubelet.checkpoint import KubeletCheckpoint
from adapters.memory.clock import ManualClock
checkpoint = KubeletCheckpoint(directory=sys.argv[1], clock=ManualClock())
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
print(checkpoint.read().reason)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


@pytest.fixture
def checkpoint(tmp_path: Path) -> KubeletCheckpoint:
    return KubeletCheckpoint(directory=str(tmp_path), clock=ManualClock())


def reason(checkpoint: KubeletCheckpoint) -> str:
    view = checkpoint.read()
    assert isinstance(view, Unknown)
    return view.reason


def containers(checkpoint: KubeletCheckpoint) -> list[str]:
    view = checkpoint.read()
    assert isinstance(view, CheckpointView), view
    return [each.container for each in view.entries]


def put(file: Path, *names: str) -> None:
    """Write the file as the kubelet does, with an entry for each container: a temporary one, then a rename."""
    entries = [
        {"PodUID": "u", "ContainerName": each, "ResourceName": "a/b", "DeviceIDs": ["x"], "AllocResp": None}
        for each in names
    ]
    temporary = file.with_name(".1")
    temporary.write_text(json.dumps({"Data": {"PodDeviceEntries": entries}}), encoding="utf-8")
    temporary.rename(file)


class TestWhatMayLieThere:
    def test_nothing(self, checkpoint: KubeletCheckpoint, file: Path) -> None:
        assert reason(checkpoint) == f"{file} does not exist; the kubelet writes it with the first device list"

    def test_nothing_not_even_the_directory(self, tmp_path: Path) -> None:
        missing = KubeletCheckpoint(directory=str(tmp_path / "missing"), clock=ManualClock())

        assert "does not exist" in reason(missing)

    def test_a_symlink_which_is_not_followed(self, checkpoint: KubeletCheckpoint, file: Path) -> None:
        file.symlink_to(CAPTURE)

        assert f"{file} cannot be read" in reason(checkpoint)

    def test_a_pipe_that_nobody_writes_to(self, checkpoint: KubeletCheckpoint, file: Path) -> None:
        """Opening one may wait for ever, and the storage worker with it."""
        os.mkfifo(file)

        assert reason(checkpoint) == f"{file} is not understood: it is no regular file"

    def test_a_pipe_that_somebody_may_write_to(self, checkpoint: KubeletCheckpoint, file: Path) -> None:
        os.mkfifo(file)
        writer = os.open(file, os.O_RDWR)
        try:
            assert reason(checkpoint) == f"{file} is not understood: it is no regular file"
        finally:
            os.close(writer)

    def test_a_directory_which_costs_no_descriptor(self, checkpoint: KubeletCheckpoint, file: Path) -> None:
        file.mkdir()
        before = len(list(Path("/proc/self/fd").iterdir()))
        reasons = {reason(checkpoint) for _ in range(20)}

        assert reasons == {f"{file} is not understood: it is no regular file"}
        assert len(list(Path("/proc/self/fd").iterdir())) == before

    def test_a_file_that_is_far_too_big_and_is_not_even_read(self, checkpoint: KubeletCheckpoint, file: Path) -> None:
        with file.open("wb") as made:
            made.truncate(2**40)

        assert reason(checkpoint) == f"{file} is not understood: it has {2**40} bytes"

    @pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody who may not read the file")
    def test_a_file_that_we_may_not_read(self) -> None:
        with a_directory() as directory:
            directory.chmod(0o755)
            file = directory / FILE_NAME
            file.write_bytes(CAPTURE.read_bytes())
            file.chmod(0o600)
            command = [sys.executable, "-c", READ_AS_NOBODY, str(directory)]
            result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

        assert result.stdout.strip() == f"{file} cannot be read: Permission denied"

    def test_a_disk_in_error(self, checkpoint: KubeletCheckpoint, file: Path, mocker: MockerFixture) -> None:
        file.write_bytes(CAPTURE.read_bytes())
        mocker.patch("os.open", side_effect=OSError(5, "Input/output error"))

        assert reason(checkpoint) == f"{file} cannot be read: Input/output error"

    def test_a_process_without_descriptors(
        self, checkpoint: KubeletCheckpoint, file: Path, mocker: MockerFixture
    ) -> None:
        file.write_bytes(CAPTURE.read_bytes())
        mocker.patch("os.open", side_effect=OSError(24, "Too many open files"))

        assert "Too many open files" in reason(checkpoint)


class TestWhenItIsRead:
    """The kubelet rewrites the file at each device list, and PreStartContainer reads it at each start."""

    def test_an_unchanged_file_is_parsed_once(
        self, checkpoint: KubeletCheckpoint, file: Path, mocker: MockerFixture
    ) -> None:
        file.write_bytes(CAPTURE.read_bytes())
        parse = mocker.spy(json, "loads")
        found = [containers(checkpoint) for _ in range(5)]

        assert found == [["a"]] * 5
        assert parse.call_count == 1

    def test_a_replaced_file_is_parsed_again_although_size_and_time_are_the_same(
        self, checkpoint: KubeletCheckpoint, file: Path, mocker: MockerFixture
    ) -> None:
        put(file, "a")
        before = file.stat()
        parse = mocker.spy(json, "loads")
        first = containers(checkpoint)
        put(file, "b")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

        assert (first, containers(checkpoint)) == (["a"], ["b"])
        assert file.stat().st_size == before.st_size
        assert parse.call_count == 2

    def test_a_file_that_is_written_in_place_is_parsed_again(self, checkpoint: KubeletCheckpoint, file: Path) -> None:
        put(file, "a")
        first = containers(checkpoint)
        file.write_text(file.read_text(encoding="utf-8").replace('"a"', '"longer"'), encoding="utf-8")

        assert (first, containers(checkpoint)) == (["a"], ["longer"])

    def test_a_file_that_is_not_understood_hides_nothing_of_the_next(
        self, checkpoint: KubeletCheckpoint, file: Path
    ) -> None:
        put(file, "a")
        first = containers(checkpoint)
        file.write_bytes(b"{")
        unknown = checkpoint.read()
        put(file, "a", "b")

        assert isinstance(unknown, Unknown)
        assert (first, containers(checkpoint)) == (["a"], ["a", "b"])

    def test_a_file_that_is_gone_is_unknown_whatever_was_read_before(
        self, checkpoint: KubeletCheckpoint, file: Path
    ) -> None:
        put(file, "a")
        containers(checkpoint)
        file.unlink()

        assert "does not exist" in reason(checkpoint)

    def test_a_large_node_is_read_whole(self, checkpoint: KubeletCheckpoint, file: Path) -> None:
        entries = [
            {
                "PodUID": f"uid-{number}",
                "ContainerName": "a",
                "ResourceName": "a/b",
                "DeviceIDs": {"-1": [f"a/b/{number}"]},
                "AllocResp": base64.b64encode(b"").decode(),
            }
            for number in range(5000)
        ]
        file.write_text(json.dumps({"Data": {"PodDeviceEntries": entries}}), encoding="utf-8")

        view = checkpoint.read()

        assert isinstance(view, CheckpointView)
        assert [each.uid for each in view.entries] == [f"uid-{number}" for number in range(5000)]
