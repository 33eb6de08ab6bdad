"""A real kubelet in standalone mode, with static pods, on a private containerd.

Its directory of device plugins is hard-wired into it, so this runs only where nobody else has that directory.
Everything else of it lies in a directory of its own.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from adapters.kubelet.pod_resources import KubeletPodResources
from adapters.memory.node import ContainerKind, ContainerSpec, PodSpec
from tests.e2e_kubelet.driver import NODE, Seen, containers, sandboxes, shown_name
from tests.rig import images
from tests.rig.pods import Pods

PLUGIN_DIR: Final = Path("/var/lib/kubelet/device-plugins")

_PATIENCE: Final = 120.0
"""Seconds until something that is awaited counts as not coming."""

_STOP: Final = 4
"""Seconds that containers are given to end, and take: their first process hears no SIGTERM."""


def trouble(kubelet: str) -> str | None:
    """Say why a kubelet cannot be run here, ``None`` if it can."""
    if os.geteuid() != 0:
        return "a kubelet needs root"
    if shutil.which(kubelet) is None:
        return f"KUBELET={kubelet} is no program"
    if PLUGIN_DIR.exists() and any(PLUGIN_DIR.iterdir()):
        return f"{PLUGIN_DIR} is in use: a kubelet lives here, or has; use another machine, or remove it"
    return None


class RealKubelet:
    """A :class:`~tests.e2e_kubelet.driver.KubeletDriver` that is one.

    Args:
        program: the kubelet.
        root: a directory of its own, with a short path.
        pods: the runtime, to look at.
        runtime: its socket.
    """

    def __init__(self, program: str, *, root: Path, pods: Pods, runtime: str) -> None:
        self._program = program
        self._root = root
        self._pods = pods
        self._process: asyncio.subprocess.Process | None = None
        self._made = [each for each in (PLUGIN_DIR, PLUGIN_DIR.parent) if not each.exists()]
        self._manifests = root / "manifests"
        self._log = root / "kubelet.log"
        self.about = f"{_version(program)} on containerd"
        self.plugin_dir = PLUGIN_DIR
        self.pod_resources = root / "kubelet" / "pod-resources" / "kubelet.sock"
        self.runtime = runtime
        self._manifests.mkdir()
        (root / "cwd").mkdir()  # a kubelet has been seen to remove files of the directory that it runs in
        PLUGIN_DIR.mkdir(parents=True, exist_ok=True)
        (root / "kubelet.yaml").write_text(json.dumps(self._configuration()), encoding="utf-8")  # JSON is YAML

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "staticPodPath": str(self._manifests),
            "podLogsDir": str(self._root / "logs"),
            "containerRuntimeEndpoint": f"unix://{self.runtime}",
            # An old containerd does not tell its driver, and an old kernel has the old hierarchy.
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "enableServer": False,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "fileCheckFrequency": "1s",
            "syncFrequency": "1s",
        }

    async def start(self) -> None:
        """See the driver."""
        with self._log.open("ab") as log:
            # Not more verbose: from level 2 on a kubelet prints our answers with the secrets in them.
            self._process = await asyncio.create_subprocess_exec(
                self._program,
                f"--config={self._root / 'kubelet.yaml'}",
                f"--root-dir={self._root / 'kubelet'}",
                f"--hostname-override={NODE}",
                "--v=1",
                cwd=self._root / "cwd",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt from the keyboard is the tests' to handle
            )
        await self._until(self._listens, "listen for plugins")

    async def stop(self) -> None:
        """See the driver."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.terminate()
            async with asyncio.timeout(_PATIENCE):
                await process.wait()

    async def place(self, spec: PodSpec) -> None:
        """See the driver."""
        hidden, shown = self._manifests / f".{spec.name}", self._manifests / f"{spec.name}.json"
        hidden.write_text(json.dumps(manifest(spec)), encoding="utf-8")
        hidden.rename(shown)  # half of a file would be read as one
        await self._until(partial(self._run, spec), f"run {spec.name}")

    async def take_away(self, spec: PodSpec) -> None:
        """See the driver; its ``Get`` of pod-resources tells, and makes it drop nothing."""
        (self._manifests / f"{spec.name}.json").unlink()
        asked = KubeletPodResources(path=str(self.pod_resources))

        async def forgotten() -> bool:
            return await asked.pod(spec.namespace, shown_name(spec)) is None

        await self._until(forgotten, f"forget {spec.name}")

    async def buried(self, spec: PodSpec) -> None:
        """See the driver."""

        async def nothing() -> bool:
            return not await sandboxes(self._pods, spec) and not await containers(self._pods, spec)

        await self._until(nothing, f"remove {spec.name}")

    async def end(self, spec: PodSpec, container: str) -> None:
        """See the driver."""
        before = (await containers(self._pods, spec))[container]
        await self._pods.end(before.id)

        async def again() -> bool:
            now = (await containers(self._pods, spec)).get(container)
            return now is not None and now.id != before.id and now.running

        await self._until(again, f"start {container} again")

    async def power_cycle(self, specs: Collection[PodSpec], meanwhile: Callable[[], Awaitable[None]]) -> None:
        """See the driver."""
        await self.stop()
        ended: set[str] = set()
        for spec in specs:
            ended |= {each.id for each in (await containers(self._pods, spec)).values()}
            for sandbox in await sandboxes(self._pods, spec):
                await self._pods.end_sandbox(sandbox)
        await meanwhile()
        await self.start()
        for spec in specs:
            await self._until(partial(self._run, spec, besides=ended), f"run {spec.name} again")

    async def close(self) -> None:
        """End it, and remove what it made outside of its own directory."""
        await self.stop()
        for each in PLUGIN_DIR.iterdir():  # it was empty
            each.unlink()
        for made in self._made:
            shutil.rmtree(made, ignore_errors=True)

    async def _run(self, spec: PodSpec, besides: Collection[str] = ()) -> bool:
        """Whether every container of a pod runs, or has run, and is none of some others."""
        seen = await containers(self._pods, spec)
        return all(_does_its_part(each, seen.get(each.name), besides) for each in spec.containers)

    async def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(PLUGIN_DIR / "kubelet.sock")) == 0

    async def _until(self, holds: Callable[[], Awaitable[bool]], doing: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while not await holds():
                    if self._process is None or self._process.returncode is not None:
                        break
                    await asyncio.sleep(0.1)
                else:
                    return
        tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-30:])
        raise AssertionError(f"the kubelet does not {doing}:\n{tail}")


def _does_its_part(spec: ContainerSpec, seen: Seen | None, besides: Collection[str]) -> bool:
    if seen is None or seen.id in besides:
        return False
    return not seen.running if spec.kind is ContainerKind.INIT else seen.running


def manifest(spec: PodSpec) -> dict[str, Any]:
    """Return a static pod's manifest; it needs no network and no registry."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": spec.name, "namespace": spec.namespace, "annotations": {"nonce": spec.nonce}},
        "spec": {
            "hostNetwork": True,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": _STOP,
            "initContainers": [_container(each) for each in spec.containers if each.kind is not ContainerKind.APP],
            "containers": [_container(each) for each in spec.containers if each.kind is ContainerKind.APP],
        },
    }


def _container(spec: ContainerSpec) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": spec.name,
        "image": images.BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["/bin/true"] if spec.kind is ContainerKind.INIT else ["/bin/sleep", "2147483647"],
        "resources": {"limits": {resource: str(count) for resource, count in spec.limits.items()}},
    }
    if spec.kind is ContainerKind.SIDECAR:
        made["restartPolicy"] = "Always"
    return made


def _version(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return f"kubelet {done.stdout.strip().removeprefix('Kubernetes ')}"
