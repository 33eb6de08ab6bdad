"""The doctor as a process: its exit codes, and the troubles that only a process of its own can have."""

import json
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from adapters.memory.node import ContainerSpec, PodSpec
from tests.e2e.commands import Ran, ran
from tests.e2e.daemon import ANYBODY, RESOURCE, Stand, a_stand, needs_root
from tests.e2e.hang import hanging
from tests.integration.filesystem import tmpfs
from tests.unit.cri_server import CriServer, a_cri_server

CNF = PodSpec(namespace="telco", name="cnf", containers=(ContainerSpec(name="app", limits={RESOURCE: 2}),))

WITHOUT_INOTIFY = (
    *("unshare", "--user", "--map-root-user", "sh", "-c"),
    'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"',
    "sh",
)
"""What runs a program where no inotify instance is left; the limit is that of a user namespace of its own."""


class Ward:
    """A node, and the doctor who is given the daemon's configuration."""

    def __init__(self, stand: Stand, runtime: CriServer) -> None:
        self.stand = stand
        self.runtime = runtime
        stand.configuration["runtime"] = {"kind": "cri", "endpoint": f"unix://{runtime.path}"}

    async def doctor(self, *arguments: str, through: Sequence[str] = ()) -> Ran:
        """Run the command."""
        path = self.stand.root / "plugin.yaml"
        path.write_text(json.dumps(self.stand.configuration), encoding="utf-8")
        return await ran("doctor", "--config", str(path), *arguments, through=through)

    async def line(self, check: str, *, through: Sequence[str] = ()) -> str:
        """Return the one line of a check."""
        done = await self.doctor(through=through)
        assert done.error == ""
        (found,) = [line for line in done.out.splitlines() if line[6:].startswith(f"{check}: ")]
        return found


@pytest.fixture
async def ward() -> AsyncIterator[Ward]:
    async with a_stand() as stand, a_cri_server() as runtime:
        yield Ward(stand, runtime)


@needs_root
async def test_a_healthy_node_and_one_that_is_not(ward: Ward) -> None:
    with tmpfs(ward.stand.root / "own", "size=1m,nr_inodes=1k,nosuid,nodev") as place:
        ward.stand.pool["host_dir"] = str(place / "memif")
        ward.runtime.sandbox("cnf")
        daemon = await ward.stand.registered()
        await ward.stand.node.start(CNF)
        well = await ward.doctor()
        daemon.process.send_signal(signal.SIGSTOP)
        ill = await ward.doctor("--json")
        daemon.process.send_signal(signal.SIGCONT)
        await daemon.stop()

    assert (well.code, well.error) == (0, "")
    assert {line[:6] for line in well.out.splitlines()} == {"ok    "}
    assert (ill.code, ill.error, ill.json["ok"]) == (1, "", False)
    (failed,) = [each for each in ill.json["findings"] if each["verdict"] == "fail"]
    assert failed["check"] == "daemon"
    assert failed["what"].startswith(f"process {daemon.process.pid} (instance ")
    assert "does not answer in time; it hangs or is stopped" in failed["what"]
    assert "end that process" in failed["cure"]


@needs_root
async def test_without_rights_it_says_what_it_cannot_see(ward: Ward) -> None:
    daemon = await ward.stand.registered()
    done = await ward.doctor(through=ANYBODY)
    await daemon.stop()

    lines = {line[6:].partition(":")[0]: line for line in done.out.splitlines()}
    assert (done.code, done.error) == (1, "")
    assert (
        lines["rights"]
        == "fail  rights: this is uid 65534, which cannot see everything. Cure: run as root, as the daemon does"
    )
    assert "no permission to connect to" in lines["kubelet socket"]
    assert "cannot be judged with these rights. Cure: run as root" in lines["base directory"]
    assert lines["daemon"].startswith("warn  daemon: ")
    assert "no permission to connect to" in lines["daemon"]


async def test_no_inotify_instance_is_left(ward: Ward) -> None:
    found = await ward.line("inotify", through=WITHOUT_INOTIFY)

    assert found.startswith(
        "warn  inotify: no watch can be had (Too many open files), so directories are polled. Cure:"
    )
    assert "fs.inotify.max_user_instances" in found


@needs_root
async def test_a_base_directory_that_hangs_is_not_waited_for(ward: Ward) -> None:
    ward.stand.host_dir.mkdir(mode=0o711)
    with hanging(ward.stand.host_dir):
        found = await ward.line("storage")

    assert f"looking at {ward.stand.host_dir} took longer than 2.5 s" in found


async def test_a_path_that_is_too_long(ward: Ward) -> None:
    ward.stand.pool["host_dir"] = f"{ward.stand.root}/{'x' * 80}"

    done = await ward.doctor()

    assert (done.code, done.error) == (1, "")
    assert done.out.startswith("fail  configuration: ")
    assert "bytes, at most 100 are allowed: shorten host_dir or socket_name" in done.out
    assert ". Cure: mend it" in done.out


def below(directory: Path) -> list[Path]:
    """Return what lies in a directory."""
    return list(directory.iterdir())


async def test_flags_and_variables_say_where_to_look(ward: Ward, tmp_path: Path) -> None:
    flags = (
        *("--plugin-dir", "/nowhere/plugins", "--runtime", "docker"),
        *("--state", str(tmp_path / "state.db"), "--control-socket", "/nowhere/control.sock"),
        *("--log-level", "debug", "--log-format", "console"),
    )

    done = await ward.doctor(*flags)

    assert "there is no kubelet socket /nowhere/plugins/kubelet.sock" in done.out
    assert below(tmp_path) == []
