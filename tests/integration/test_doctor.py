"""The doctor at a node that has each kind of trouble for real: at large, with its kubelet and with its processes."""
# ruff: noqa: ASYNC240 -- nobody waits while a test looks at the disk

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters.kubelet.directory import PluginDirectory
from adapters.kubelet.survey import survey as survey_kubelet
from adapters.memory.node.front import leave_stale_socket
from adapters.system.clock import SystemClock
from adapters.system.lock import NodeLock
from app.doctor import examine, gathering
from domain.diagnosis import kubelet
from tests.integration.daemon import RESOURCE
from tests.integration.filesystem import NOBODY, needs_root, run
from tests.integration.ward import Ward, a_ward, line, lines, only

pytestmark = needs_root


@pytest.fixture
async def ward() -> AsyncIterator[Ward]:
    async with a_ward() as made:
        yield made


async def test_a_healthy_node(ward: Ward) -> None:
    await ward.admitted()

    found = await lines(ward.settings())

    assert [each for each in found if not each.startswith("ok    ")] == []
    assert [each[len("ok    ") :].partition(":")[0] for each in found] == [
        "rights",
        "kubelet socket",
        "plugin directory",
        "pod-resources socket",
        "inotify",
        "daemon",
        "registration",
        "plugin sockets",
        "base directory",
        "file system",
        "mount options",
        "limits",
        "room",
        "SELinux",
        "container runtime",
        "kubelet's record",
        "recorded containers",
        "mounts of containers",
    ]


def everything_below(root: Path) -> dict[str, tuple[int, ...]]:
    """Return what could be changed of whatever lies below a directory."""
    paths = (Path(folder, name) for folder, folders, files in os.walk(root) for name in (*folders, *files))
    found = {str(path): path.lstat() for path in (root, *paths)}
    return {path: (each.st_ino, each.st_mode, each.st_uid, each.st_mtime_ns) for path, each in found.items()}


async def test_it_changes_nothing_on_a_node_on_which_nothing_ever_ran(ward: Ward) -> None:
    before = everything_below(ward.stand.root)
    found = await lines(ward.settings())

    assert everything_below(ward.stand.root) == before
    assert "ok    daemon: no daemon runs" in found
    assert f"ok    base directory: {ward.host_dir} is made when the daemon starts" in found


async def test_it_changes_nothing_below_a_daemon_that_serves(ward: Ward) -> None:
    pod = await ward.admitted()
    directory = Path(pod.container("app").mounts["/run/vpp"])
    directory.chmod(0o000)  # a tenant's doing; to look must not mend it
    before = everything_below(ward.host_dir)
    await examine(ward.settings())

    assert everything_below(ward.host_dir) == before


@contextmanager
def nobody() -> Iterator[None]:
    """Be somebody without rights for the length of a block."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_what_nobody_may_look_at_is_said_to_be_hidden(ward: Ward) -> None:
    await ward.admitted()
    settings = ward.settings()
    for hidden in (ward.host_dir.parent, ward.stand.node.plugin_dir, ward.stand.state_dir):
        hidden.chmod(0o700)
    ward.stand.root.chmod(0o755)
    with nobody():
        found = await examine(settings)

    assert "is uid 65534, which cannot see everything. Cure: run as root" in only("rights", found)
    assert "cannot be judged with these rights. Cure: run as root" in only("base directory", found)
    assert "no permission to connect to" in only("kubelet socket", found)
    assert "Permission denied" in only("kubelet's record", found)
    assert only("daemon", found).startswith("warn  daemon: ")
    assert "storage" not in {each.check for each in found}


class TestTheKubelet:
    async def test_its_socket_is_missing(self, ward: Ward) -> None:
        await ward.stand.node.stop_kubelet()
        ward.stand.node.kubelet_socket.unlink(missing_ok=True)

        found = await line(ward.settings(), "kubelet socket")

        assert found.startswith(
            f"fail  kubelet socket: there is no kubelet socket {ward.stand.node.kubelet_socket}. Cure:"
        )

    async def test_its_socket_is_stale(self, ward: Ward) -> None:
        await ward.stand.node.stop_kubelet()
        ward.stand.node.kubelet_socket.unlink(missing_ok=True)
        leave_stale_socket(ward.stand.node.kubelet_socket)

        found = await line(ward.settings(), "kubelet socket")

        assert (
            "is stale: nobody listens on it, its kubelet is gone. Cure: start the kubelet, which replaces it" in found
        )

    async def test_its_root_is_in_another_usual_place(self, ward: Ward) -> None:
        nowhere = PluginDirectory(path="/nowhere/device-plugins", kubelet_socket="kubelet.sock", endpoint="a.sock")
        root = str(ward.stand.node.plugin_dir.parent)
        facts = survey_kubelet(nowhere, pod_resources="/nowhere/kubelet.sock", roots=(root,))

        found = tuple(kubelet.judge(facts))

        assert f"Cure: set kubelet.plugin_dir to {ward.stand.node.plugin_dir}" in only("kubelet socket", found)
        assert f"set kubelet.pod_resources to {ward.stand.node.pod_resources_socket}" in only(
            "pod-resources socket", found
        )

    @pytest.mark.parametrize("spelled", ["--root-dir={}", "--root-dir {}"])
    async def test_a_running_kubelet_tells_where_its_root_is(self, ward: Ward, spelled: str) -> None:
        root = ward.stand.node.plugin_dir.parent
        nowhere = PluginDirectory(path="/nowhere/device-plugins", kubelet_socket="kubelet.sock", endpoint="a.sock")
        with a_process_named("kubelet", *spelled.format(root).split()):
            facts = survey_kubelet(nowhere, pod_resources="/nowhere/kubelet.sock", roots=())

        assert facts.elsewhere == (str(ward.stand.node.plugin_dir),)

    async def test_a_link_to_the_same_place_is_no_other_place(self, ward: Ward) -> None:
        linked = ward.stand.root / "linked"
        linked.symlink_to(ward.stand.node.plugin_dir.parent)
        directory = gathering.plugin_directory(ward.settings())
        resources = str(ward.stand.node.pod_resources_socket)

        facts = survey_kubelet(directory, pod_resources=resources, roots=(str(linked),))

        assert (facts.elsewhere, facts.pod_resources_elsewhere) == ((), ())

    async def test_its_directory_is_read_only(self, ward: Ward) -> None:
        target = ward.stand.node.plugin_dir
        run("mount", "--bind", str(target), str(target))
        run("mount", "-o", "remount,bind,ro", str(target))

        assert "its file system is read-only" in await line(ward.settings(), "plugin directory")

    async def test_its_record_is_not_understood(self, ward: Ward) -> None:
        ward.stand.node.checkpoint_path.write_text("{", encoding="utf-8")

        found = await line(ward.settings(), "kubelet's record")

        assert found.startswith("fail  kubelet's record: ")
        assert "is not understood: it is not JSON. Cure: nothing is released meanwhile" in found

    async def test_its_record_cannot_be_read(self, ward: Ward) -> None:
        ward.stand.node.checkpoint_path.unlink(missing_ok=True)
        ward.stand.node.checkpoint_path.symlink_to("elsewhere")

        assert "cannot be read: " in await line(ward.settings(), "kubelet's record")

    async def test_there_is_no_record_yet(self, ward: Ward) -> None:
        assert (await line(ward.settings(), "kubelet's record")).startswith("warn  ")


@contextmanager
def a_process_named(name: str, *arguments: str) -> Iterator[None]:
    """Run a process that calls itself something, until the end of the block."""
    waiting = ("-c", "import sys; print(flush=True); sys.stdin.read()")
    with subprocess.Popen(
        [name, *waiting, *arguments], executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.communicate()


class TestProcesses:
    async def test_the_daemon_and_another_one_that_holds_the_lock(self, ward: Ward) -> None:
        await ward.admitted()
        with a_lock(ward.stand.root / "other" / "lock", instance="two"):
            found = await line(ward.settings(state=str(ward.stand.root / "other" / "state.db")), "daemon")

        assert f"process {os.getpid()} (instance two, version 9" in found
        assert f"while daemon 0 (instance one) answers at {ward.stand.root}/control.sock" in found

    async def test_a_daemon_with_another_state(self, ward: Ward) -> None:
        await ward.admitted()

        found = await line(ward.settings(state=str(ward.stand.root / "other" / "state.db")), "daemon")

        assert found.startswith("fail  daemon: daemon 0 (instance one) answers at ")
        assert "it has another state. Cure: give this command the daemon's own --config" in found

    async def test_one_that_holds_the_lock_and_does_not_answer(self, ward: Ward) -> None:
        with a_lock(ward.stand.state_dir / "lock", instance="one"):
            found = await line(ward.settings(), "daemon")

        assert found.startswith(f"fail  daemon: process {os.getpid()} (instance one, version 9) holds ")
        assert "is not to be reached: no daemon answers: there is no socket" in found

    async def test_a_lock_that_is_no_lock_does_not_end_the_examination(self, ward: Ward) -> None:
        ward.stand.state_dir.mkdir()
        (ward.stand.state_dir / "lock").symlink_to("elsewhere")

        assert (await line(ward.settings(), "daemon")).startswith("warn  daemon: ")

    async def test_a_contiv_agent_lives(self, ward: Ward) -> None:
        path = ward.stand.node.plugin_dir / "contiv-vpp.sock"
        with socket.socket(socket.AF_UNIX) as agent:
            agent.bind(str(path))
            agent.listen()
            found = await line(ward.settings(), "plugin sockets")

        assert f"a Contiv agent, or another plugin of its name, serves at {path}. Cure: stop it" in found

    async def test_a_contiv_agent_died(self, ward: Ward) -> None:
        path = ward.stand.node.plugin_dir / "contiv-vpp.sock"
        leave_stale_socket(path)

        assert f"Cure: rm {path}" in await line(ward.settings(), "plugin sockets")

    async def test_a_pool_that_is_not_served_says_why(self, ward: Ward) -> None:
        await ward.stand.serve(ward.settings())
        await ward.stand.node.stop_kubelet()
        await ward.stand.houses[0].until(
            lambda: not all(each.watched for each in ward.stand.houses[0].container.plugins().registrations().values())
        )

        found = await line(ward.settings(), "registration")

        assert found.startswith(f"warn  registration: {RESOURCE} is not served: ")


@contextmanager
def a_lock(path: Path, *, instance: str) -> Iterator[None]:
    """Hold a node's lock, as another daemon does."""
    lock = NodeLock(path, instance=instance, version="9", clock=SystemClock())
    assert lock.try_acquire()
    try:
        yield
    finally:
        lock.release()
