"""A private dockerd with a containerd of its own, under root, and pods on it as cri-dockerd makes them."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.rig import images
from tests.rig.containerd import PrivateContainerd, RigBroken
from tests.rig.leftovers import kill_those_that_name, unmount_below
from tests.rig.pods import ContainerPlan

if TYPE_CHECKING:
    from docker import APIClient

API: Final = "1.40"
"""The oldest version of the API that is read by us, so that the rig runs on any dockerd."""

_PATIENCE: Final = 60.0
"""Seconds until something that is awaited counts as not coming."""

_PROGRAMS: Final = {
    "containerd": "containerd",
    "ctr": "containerd",
    "dockerd": "docker.io",
    "runc": "runc",
    "busybox": "busybox-static",
}
"""What must be installed, and Debian's package of it."""

_ALWAYS_MADE: Final = (Path("/run/docker/plugins"), Path("/run/docker"))
"""Directories that every dockerd makes, whatever it is told; the inner one first."""


def missing() -> str | None:
    """Say why this machine cannot run the rig, ``None`` if it can."""
    if os.geteuid() != 0:
        return "a private dockerd needs root"
    lacking = sorted({package for program, package in _PROGRAMS.items() if shutil.which(program) is None})
    return f"a private dockerd needs the packages {', '.join(lacking)}" if lacking else None


@contextmanager
def private_dockerd() -> Iterator["PrivateDockerd"]:
    """Start one with the images of :mod:`tests.rig.images`; afterwards nothing of it is left."""
    home = Path(tempfile.mkdtemp(prefix="dckr-", dir="/tmp"))
    rig = PrivateDockerd(home)
    try:
        rig.start()
        rig.load_images()
        yield rig
    finally:
        rig.close()


class PrivateDockerd:
    """One dockerd, whatever process serves it at the moment.

    Attributes:
        home: the directory below which everything of it lies; there is room for a test's own files.
        socket: path of its socket.
        containerd: path of its containerd's socket.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.socket = str(home / "docker.sock")
        self._log = home / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._made = [each for each in _ALWAYS_MADE if not each.exists()]
        below = home / "containerd"
        below.mkdir()
        self._containerd = PrivateContainerd(below)
        self.containerd = self._containerd.socket

    def start(self) -> None:
        """Start it and wait until it answers; containers that were there before are found again."""
        if self._process is not None:
            return
        self._containerd.start()
        # Nothing of the machine's is read or written: neither /etc/docker, where the settings and a key would be, nor
        # what makes it a router.
        (self.home / "daemon.json").write_text(json.dumps({"deprecated-key-path": f"{self.home}/key.json"}))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [  # noqa: S607 -- wherever it is installed
                    "dockerd",
                    f"--config-file={self.home}/daemon.json",
                    f"--data-root={self.home}/docker",
                    f"--exec-root={self.home}/exec",
                    f"--pidfile={self.home}/docker.pid",
                    f"--host=unix://{self.socket}",
                    f"--containerd={self._containerd.socket}",
                    "--bridge=none",
                    "--iptables=false",
                    "--ip-forward=false",
                    "--ip-masq=false",
                    "--storage-driver=overlay2",
                    "--live-restore",  # as is recommended for nodes: containers outlive the daemon
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt from the keyboard is the tests' to handle
            )
        self._until_it_answers()

    def stop(self) -> None:
        """End the daemon; containers run on, as they do when Docker is upgraded."""
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
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGSTOP)
            # On a busy machine its threads would still answer for a moment.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        """Let it go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def load_images(self) -> None:
        """Load the images."""
        program = images.busybox()
        if program is None:
            raise RigBroken("there is no busybox")
        archive = self.home / "images.tar"
        images.write_archive(archive, program)
        with self.client() as client, archive.open("rb") as file:
            answer = list(client.load_image(file))  # type: ignore[no-untyped-call]
            found = {tag for image in client.images() for tag in image["RepoTags"]}
        archive.unlink()
        if not found >= {images.PAUSE, images.BUSYBOX}:
            raise RigBroken(f"the private dockerd does not load the images: {answer}")

    # -- pods, as cri-dockerd makes them ------------------------------------------------------------------------

    def run_sandbox(self, uid: str, namespace: str, name: str, annotations: Mapping[str, str] | None = None) -> str:
        """Run a pod's sandbox with the pod's own annotations; return its id."""
        labels = {
            **_pod_labels(uid, namespace, name),
            "io.kubernetes.docker.type": "podsandbox",
            "io.kubernetes.container.name": "POD",
            **_as_labels(annotations),
        }
        sandbox = self.create(images.PAUSE, labels=labels)
        self.start_container(sandbox)
        return sandbox

    def create_container(
        self,
        sandbox: str,
        name: str,
        *,
        mounts: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        image: str = images.BUSYBOX,
    ) -> str:
        """Create a container of a sandbox, not started; ``mounts`` are host paths by container path."""
        return self.create(image, labels=self._labels(sandbox, name, annotations), mounts=mounts)

    def create_planned(self, sandbox: str, plan: ContainerPlan) -> str:
        """Create a container of a sandbox with everything that the kubelet passes on, not started; return its id."""
        binds = [f"{host}:{inside}{':ro' * (inside in plan.read_only)}" for inside, host in plan.mounts.items()]
        with self.client() as client:
            made = client.create_container(
                images.BUSYBOX,
                entrypoint=list(plan.command),
                labels=self._labels(sandbox, plan.name, plan.annotations),
                environment=dict(plan.envs),
                user=None if plan.user is None else f"{plan.user}:{plan.user}",
                host_config=client.create_host_config(network_mode="none", binds=binds, group_add=list(plan.groups)),
            )
        return str(made["Id"])

    def _labels(self, sandbox: str, name: str, annotations: Mapping[str, str] | None) -> dict[str, str]:
        """Return the labels of a container in a sandbox."""
        with self.client() as client:
            pod = client.inspect_container(sandbox)["Config"]["Labels"]
        return {
            **{key: pod[key] for key in _pod_labels("", "", "")},
            "io.kubernetes.docker.type": "container",
            "io.kubernetes.container.name": name,
            "io.kubernetes.sandbox.id": sandbox,
            **_as_labels(annotations),
        }

    def create(
        self,
        image: str = images.BUSYBOX,
        *,
        labels: Mapping[str, str] | None = None,
        mounts: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Create a container of nobody's and return its id; a mount's missing source is made, as the kubelet asks."""
        with self.client() as client:
            host = client.create_host_config(
                network_mode="none", binds=[f"{source}:{inside}" for inside, source in (mounts or {}).items()]
            )
            made = client.create_container(
                image,
                entrypoint=["/bin/sleep"],
                command=["2147483647"],
                labels=dict(labels or {}),
                environment=dict(environment or {}),
                host_config=host,
            )
        return str(made["Id"])

    def build(self, name: str, labels: Mapping[str, str]) -> str:
        """Make an image with labels of its author's, and return its name."""
        file = "\n".join([f"FROM {images.BUSYBOX}", *(f'LABEL "{key}"="{text}"' for key, text in labels.items())])
        context = self.home / "context"
        context.mkdir(exist_ok=True)
        (context / "Dockerfile").write_text(file)
        with self.client() as client:
            answer = [line for line in client.build(path=str(context), tag=name, decode=True) if "error" in line]
        if answer:
            raise RigBroken(f"the private dockerd does not build an image: {answer}")
        return name

    def start_container(self, container: str) -> None:
        """Start a container."""
        with self.client() as client:
            client.start(container)

    def execute(self, container: str, *command: str) -> str:
        """Run a command in a running container; return what it printed."""
        with self.client() as client:
            made = client.exec_create(container, list(command))
            printed: bytes = client.exec_start(made["Id"])
            code = client.exec_inspect(made["Id"])["ExitCode"]
        if code != 0:
            raise RigBroken(f"{' '.join(command)} ended with {code}: {printed!r}")
        return printed.decode()

    def end_container(self, container: str) -> None:
        """Let a started container end."""
        with self.client() as client:
            client.kill(container)
            client.wait(container)

    def pause_container(self, container: str) -> None:
        """Pause a running container."""
        with self.client() as client:
            client.pause(container)

    def remove_container(self, container: str) -> None:
        """Remove a container, running or not."""
        with self.client() as client:
            client.remove_container(container, force=True)

    def clear(self) -> None:
        """Remove all containers."""
        with self.client() as client:
            for container in client.containers(all=True):
                client.remove_container(container["Id"], force=True)

    # -- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End everything that came of it, and remove it."""
        if self._process is not None and self._process.poll() is None:
            self.thaw()
            self.clear()
        self.stop()
        self._containerd.close()
        kill_those_that_name(self._containerd.socket)
        unmount_below(self.home)
        shutil.rmtree(self.home)
        for each in self._made:
            with suppress(OSError):  # another dockerd has put something there since
                each.rmdir()

    @contextmanager
    def client(self) -> "Iterator[APIClient]":
        """A client of the rig's own: what is tested must not help to test itself."""
        from docker import APIClient  # noqa: PLC0415 -- slow to import, and most test runs need no Docker

        client = APIClient(base_url=f"unix://{self.socket}", version=API, timeout=int(_PATIENCE))
        try:
            yield client
        finally:
            client.close()

    def _until_it_answers(self) -> None:
        end = time.monotonic() + _PATIENCE
        while not self._answers():
            alive = self._process is not None and self._process.poll() is None
            if not alive or time.monotonic() > end:
                tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
                raise RigBroken(f"the private dockerd does not answer:\n{tail}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:  # the SDK leaves sockets open where nobody listens
            if probe.connect_ex(self.socket) != 0:
                return False
        try:
            with self.client() as client:
                return bool(client.ping())
        except OSError:  # which the SDK's errors about an answer are, too
            return False


def _pod_labels(uid: str, namespace: str, name: str) -> dict[str, str]:
    return {
        "io.kubernetes.pod.uid": uid,
        "io.kubernetes.pod.namespace": namespace,
        "io.kubernetes.pod.name": name,
    }


def _as_labels(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """Docker has labels only; cri-dockerd stores annotations as labels with a prefix."""
    return {f"annotation.{key}": text for key, text in (annotations or {}).items()}
