"""The daemon's image, run as the manifests say, on a node whose kubelet runs in the test.

The kubelet's translation of a pod into a container is played here: capabilities, user, mounts and variables come from
the rendered manifest, and the node's root is a directory of the test's.  No container of pods is started, since what
the daemon answers are paths below that root.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from adapters.memory.node import EmbeddedNode, Timing
from adapters.memory.runtime import MemoryRuntime
from adapters.system.clock import SystemClock
from tests.e2e.daemon import RESOURCE
from tests.integration.filesystem import run, short_place
from tests.rig.dockerd import PrivateDockerd
from tests.rig.manifests import Manifest, configuration_of, container_of, environment_of, pod_of
from tests.rig.plugin_image import IMAGE

PATIENCE: Final = 30.0
"""Seconds until something that is awaited counts as not coming."""

QUICKLY: Final = {"MEMIF_DP_RECONCILE__INTERVAL": "1s", "MEMIF_DP_RECONCILE__GRACE": "1s"}

_ASK: Final = """\
import sys, urllib.request, urllib.error
try:
    print(urllib.request.urlopen(f"http://127.0.0.1:9599{sys.argv[1]}", timeout=10).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""
"""What asks for a page inside the container, as the kubelet asks from the node."""


class Deployed:
    """One container of the image.

    Attributes:
        id: Docker's.
    """

    def __init__(self, rig: PrivateDockerd, container: str) -> None:
        self.id = container
        self._rig = rig

    async def logged(self) -> list[dict[str, Any]]:
        """Return every line that the daemon logged so far."""
        return [json.loads(line) for line in (await asyncio.to_thread(self._output)).splitlines() if line[:1] == "{"]

    async def says(self, event: str, times: int = 1, **facts: object) -> dict[str, Any]:
        """Wait until something was logged so many times and return the last such line."""
        wanted = {"event": event, **facts}
        found = await self.until(lambda lines: [line for line in lines if wanted.items() <= line.items()], times)
        return found[-1]

    async def until(
        self, find: Callable[[list[dict[str, Any]]], Sequence[dict[str, Any]]], times: int = 1
    ) -> Sequence[dict[str, Any]]:
        """Wait until something is found so many times in what was logged.

        Raises:
            AssertionError: it is not; with what was.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while len(found := find(await self.logged())) < times:  # noqa: ASYNC110 -- Docker tells of no line
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"not said {times} times:\n{await asyncio.to_thread(self._output)}") from None
        return found

    async def registered(self, times: int = 1) -> None:
        """Wait until the kubelet has accepted it for so many times."""
        await self.says("registered with the kubelet", times, resource=RESOURCE)

    async def execute(self, *command: str) -> tuple[int, str]:
        """Run a command in the container, as ``kubectl exec`` does; return its exit code and what it printed."""
        return await asyncio.to_thread(self._execute, command)

    async def page(self, path: str) -> int:
        """Return the status with which the daemon answers for a page."""
        code, printed = await self.execute("/opt/memif-device-plugin/bin/python", "-c", _ASK, path)
        assert code == 0, printed
        return int(printed)

    async def stop(self) -> int:
        """Tell it to stop, as the kubelet does, and return its exit code."""
        return await asyncio.to_thread(self._stop)

    def _output(self) -> str:
        with self._rig.client() as client:
            return str(client.logs(self.id, stdout=True, stderr=True).decode())

    def _execute(self, command: Sequence[str]) -> tuple[int, str]:
        with self._rig.client() as client:
            made = client.exec_create(self.id, list(command))
            printed = client.exec_start(made["Id"]).decode()
            return int(client.exec_inspect(made["Id"])["ExitCode"]), str(printed)

    def _stop(self) -> int:
        with self._rig.client() as client:
            client.stop(self.id, timeout=int(PATIENCE))
            return int(client.wait(self.id)["StatusCode"])


class DeployedNode:
    """A node's root in a directory, its kubelet, and the plugins that run on it.

    Attributes:
        root: what is ``/`` of the node.
    """

    def __init__(self, root: Path, rig: PrivateDockerd, manifests: Sequence[Manifest]) -> None:
        self.root = root
        self._rig = rig
        self._manifests = manifests
        clock = SystemClock()
        self.node = EmbeddedNode(
            root / "var/lib/kubelet",
            MemoryRuntime(clock),
            clock=clock,
            timing=Timing(retry=0.05, readmit_after=0.5),
            rate_limited=False,
        )
        self.host_dir = root / "var/run/contiv/memif"
        (root / "var/lib/kubelet").mkdir(parents=True)
        self._put_runtime()
        (root / "config").mkdir()
        (root / "config/plugin.yaml").write_text(configuration_of(manifests))

    @property
    def directories(self) -> set[Path]:
        """What lies in the base directory."""
        return set(self.host_dir.iterdir()) if self.host_dir.exists() else set()

    def on_the_node(self, path: str) -> Path:
        """Return where a path of the node's lies."""
        return self.root / path.removeprefix("/")

    async def start(self, *, without: str | None = None) -> Deployed:
        """Start a container of the plugin as the manifest says, but for a capability."""
        return await asyncio.to_thread(self._start, without)

    async def run_as(self, user: int, groups: Sequence[int], directory: Path, script: str) -> tuple[int, str]:
        """Run a Python script as a pod does that mounts a directory on ``/run/vpp``; return code and output."""
        return await asyncio.to_thread(self._run_as, user, groups, directory, script)

    def _run_as(self, user: int, groups: Sequence[int], directory: Path, script: str) -> tuple[int, str]:
        with self._rig.client() as client:
            host = client.create_host_config(
                network_mode="none", binds={str(directory): {"bind": "/run/vpp", "mode": "rw"}}, group_add=list(groups)
            )
            made = client.create_container(
                IMAGE, entrypoint=["python"], command=["-c", script], user=f"{user}:{user}", host_config=host
            )
            client.start(made["Id"])
            code = client.wait(made["Id"])["StatusCode"]
            return int(code), str(client.logs(made["Id"]).decode())

    def _put_runtime(self) -> None:
        """Let the private runtime answer where the node's does: Docker, or its containerd, which speaks CRI too."""
        variables = environment_of(self._manifests)
        docker = variables["MEMIF_DP_RUNTIME__KIND"] == "docker"
        (mounted,) = [each for each in container_of(self._manifests)["volumeMounts"] if each["name"] == "runtime"]
        (volume,) = [each for each in pod_of(self._manifests)["volumes"] if each["name"] == "runtime"]
        seen = variables["MEMIF_DP_RUNTIME__ENDPOINT"].removeprefix("unix://")
        socket = self.on_the_node(volume["hostPath"]["path"]) / Path(seen).relative_to(mounted["mountPath"])
        socket.parent.mkdir(parents=True, exist_ok=True)
        socket.touch()
        run("mount", "--bind", self._rig.socket if docker else self._rig.containerd, str(socket))

    def _start(self, without: str | None) -> Deployed:
        context, pod = container_of(self._manifests)["securityContext"], pod_of(self._manifests)
        with self._rig.client() as client:
            host = client.create_host_config(
                network_mode="none",
                binds=self._binds(),
                cap_drop=context["capabilities"]["drop"],
                cap_add=[name for name in context["capabilities"]["add"] if name != without],
                read_only=context["readOnlyRootFilesystem"],
                privileged=context["privileged"],
                security_opt=[] if context["allowPrivilegeEscalation"] else ["no-new-privileges"],
                mem_limit=container_of(self._manifests)["resources"]["limits"]["memory"].removesuffix("i"),
            )
            made = client.create_container(
                IMAGE,
                command=container_of(self._manifests)["args"],
                user="{runAsUser}:{runAsGroup}".format_map(pod["securityContext"]),
                environment={**environment_of(self._manifests), **QUICKLY},
                host_config=host,
            )
            client.start(made["Id"])
        return Deployed(self._rig, str(made["Id"]))

    def _binds(self) -> dict[str, Mapping[str, str]]:
        volumes = {volume["name"]: volume for volume in pod_of(self._manifests)["volumes"]}
        binds: dict[str, Mapping[str, str]] = {}
        for mount in container_of(self._manifests)["volumeMounts"]:
            modes = ["ro" if mount.get("readOnly") else "rw"]
            if mount.get("mountPropagation") == "HostToContainer":
                modes.append("rslave")
            binds[str(self._source(volumes[mount["name"]]))] = {"bind": mount["mountPath"], "mode": ",".join(modes)}
        return binds

    def _source(self, volume: Manifest) -> Path:
        """Return where a volume lies on the node, made as the kubelet makes it."""
        if "configMap" in volume:
            return self.root / "config"
        path = self.on_the_node(volume["hostPath"]["path"])
        if volume["hostPath"]["type"] == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        assert path.is_dir(), f"the kubelet would not start the pod: {path} is not there"
        return path


@contextmanager
def _root() -> Iterator[Path]:
    """A file system of its own, whose mounts are shared with those who ask for it, as systemd has a node's."""
    with short_place() as place:
        root = place / "n"
        root.mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=64m,mode=0755", "tmpfs", str(root))
        run("mount", "--make-shared", str(root))
        yield root


@asynccontextmanager
async def deployed_on(rig: PrivateDockerd, manifests: Sequence[Manifest]) -> AsyncIterator[DeployedNode]:
    """A node that is taken down with all containers on it."""
    with _root() as root:
        place = DeployedNode(root, rig, manifests)
        try:
            async with place.node:
                await place.node.wait_ready()
                yield place
        finally:
            await asyncio.to_thread(rig.clear)
