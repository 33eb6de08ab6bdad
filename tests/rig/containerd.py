"""A private containerd: in a temporary directory of its own, under root, never one that is already there."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import grpc

from tests.rig import images
from tests.rig.leftovers import (
    group_of,
    kill_those_that_live_below,
    kill_those_that_name,
    remove_groups,
    remove_runc_state,
    unmount_below,
)
from tests.rig.pods import pods_of

_CONFIG: Final = """\
version = 2
root = "{home}/root"
state = "{home}/state"
[grpc]
  address = "{home}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  # Where a process may not lower its score for the out-of-memory killer, no sandbox comes up otherwise.
  restrict_oom_score_adj = true
  sandbox_image = "{pause}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "{home}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "{home}/runc"
"""

_PATIENCE: Final = 30.0
"""Seconds until something that is awaited counts as not coming."""

_PROGRAMS: Final = {"containerd": "containerd", "ctr": "containerd", "runc": "runc", "busybox": "busybox-static"}
"""What must be installed, and Debian's package of it."""


class RigBroken(Exception):
    """The private containerd does not do what it was started for; the text has the end of its log."""


def missing() -> str | None:
    """Say why this machine cannot run the rig, ``None`` if it can."""
    if os.geteuid() != 0:
        return "a private containerd needs root"
    lacking = sorted({package for program, package in _PROGRAMS.items() if shutil.which(program) is None})
    return f"a private containerd needs the packages {', '.join(lacking)}" if lacking else None


@contextmanager
def private_containerd() -> Iterator["PrivateContainerd"]:
    """Start one with the images of :mod:`tests.rig.images`; afterwards nothing of it is left."""
    home = Path(tempfile.mkdtemp(prefix="ctrd-", dir="/tmp"))
    rig = PrivateContainerd(home)
    try:
        rig.start()
        rig.load_images()
        yield rig
    finally:
        rig.close()


class PrivateContainerd:
    """One containerd, whatever process serves it at the moment.

    Attributes:
        home: the directory below which everything of it lies; there is room for a test's own files.
        socket: path of its socket, which also serves the CRI.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.socket = str(home / "containerd.sock")
        self._log = home / "log"
        self._process: subprocess.Popen[bytes] | None = None
        (home / "cni").mkdir()
        (home / "config.toml").write_text(_CONFIG.format(home=home, pause=images.PAUSE))

    def start(self) -> None:
        """Start it and wait until it answers; containers that ran before are found again."""
        if self._process is not None:
            return
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["containerd", "--config", str(self.home / "config.toml")],  # noqa: S607 -- wherever it is installed
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt from the keyboard is the tests' to handle
            )
        self._until(self._answers, "answer")

    def stop(self) -> None:
        """End the daemon; containers run on, as they do when containerd is upgraded."""
        if self._process is None:
            return
        self.thaw()
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_PATIENCE)
        self._process = None

    def freeze(self) -> None:
        """Let it hang: connections are accepted, and nothing is answered."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
            # On a busy machine its threads would still answer for a moment.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        """Let it go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def ctr(self, *arguments: str) -> str:
        """Run containerd's own client in the kubelet's namespace; return what it printed."""
        command = ["ctr", "--address", self.socket, "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
        if done.returncode != 0:
            raise RigBroken(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def load_images(self) -> None:
        """Import the images and wait until pods can be made of them."""
        program = images.busybox()
        if program is None:
            raise RigBroken("there is no busybox")
        archive = self.home / "images.tar"
        images.write_archive(archive, program)
        self.ctr("images", "import", str(archive))
        archive.unlink()
        self._until(self._has_images, "load its images")

    def close(self) -> None:
        """End everything that came of it, and remove it: in good order if it can be, and by force what is left."""
        with suppress(RigBroken, grpc.RpcError):
            self.start()
            self.thaw()
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                runner.run(self._remove_pods())
            self._remove_others()
        self.stop()
        bundles = list(self.home.glob("state/io.containerd.runtime.v2.task/*/*"))
        sockets = [file.read_text() for bundle in bundles for file in bundle.glob("address")]
        kill_those_that_name(self.socket)
        kill_those_that_live_below(self.home)
        for address in sockets:
            Path(address.removeprefix("unix://")).unlink(missing_ok=True)
        unmount_below(self.home)
        remove_groups(group_of(self.home), *(f"{bundle.parent.name}/{bundle.name}" for bundle in bundles))
        remove_runc_state(self.home)
        shutil.rmtree(self.home)

    async def _remove_pods(self) -> None:
        async with pods_of(self.socket, self.home):
            """Leaving it removes them."""

    def _remove_others(self) -> None:
        """Remove what was made without the CRI, in any namespace."""
        for namespace in self.ctr("namespaces", "list", "--quiet").split():
            for each in self.ctr("--namespace", namespace, "containers", "list", "--quiet").split():
                with suppress(RigBroken):  # it may have no task
                    self.ctr("--namespace", namespace, "tasks", "delete", "--force", each)
                self.ctr("--namespace", namespace, "containers", "delete", each)

    def _answers(self) -> bool:
        """Whether the CRI answers, which it does only when the pods of earlier times are found again."""
        with socket.socket(socket.AF_UNIX) as client:
            if client.connect_ex(self.socket) != 0:
                return False
        with grpc.insecure_channel(f"unix://{self.socket}") as channel:
            version: Callable[..., bytes] = channel.unary_unary("/runtime.v1.RuntimeService/Version")
            try:
                return bool(version(b"", timeout=_PATIENCE))
            except grpc.RpcError:
                return False

    def _has_images(self) -> bool:
        """Whether the CRI knows them: it hears of an imported image a moment later, and then labels it as its own."""
        lines = self.ctr("images", "list").splitlines()
        known = {line.split()[0] for line in lines if "io.cri-containerd.image=managed" in line}
        return {images.PAUSE, images.BUSYBOX} <= known

    def _until(self, condition: Callable[[], bool], doing: str) -> None:
        end = time.monotonic() + _PATIENCE
        while not condition():
            alive = self._process is not None and self._process.poll() is None
            if not alive or time.monotonic() > end:
                tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
                raise RigBroken(f"the private containerd does not {doing}:\n{tail}")
            time.sleep(0.02)
