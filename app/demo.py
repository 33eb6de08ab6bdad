"""The demo: a whole node in one process, and what a pod gets on it.

An in-process kubelet on real Unix sockets in a private temporary directory, an in-memory runtime, and the daemon as it
is.  Every line that ends well is a check; the demo succeeds only if all of them held.
"""

import asyncio
import contextlib
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from adapters.memory.node import ContainerKind, ContainerSpec, EmbeddedNode, Pod, PodSpec, Timing
from adapters.memory.runtime import MemoryRuntime
from app import daemon, demo_memif
from app.container import Container, build
from app.logs import configure
from app.settings import (
    ControlSettings,
    HttpSettings,
    KubeletSettings,
    LogFormat,
    LogLevel,
    PoolSettings,
    ReconcileSettings,
    RuntimeKind,
    RuntimeSettings,
    Settings,
)
from domain.lookup import NoPod, PodMemif
from domain.secret import MASK

RESOURCE: Final = "contivpp.io/memif"
_READMIT: Final = 1.0
"""Seconds until the kubelet admits its pods anew.  A real one takes 80 ms; a laptop that is busy with something else
must not lose the demo's pod for that."""

_PATIENCE: Final = 10.0
"""Seconds that something may take before the demo calls it failed."""

_SAMPLE: Final = PodSpec(
    namespace="telco",
    name="cnf",
    containers=(
        ContainerSpec(name="setup", limits={RESOURCE: 1}, kind=ContainerKind.INIT),
        ContainerSpec(name="side", limits={RESOURCE: 1}, kind=ContainerKind.SIDECAR),
        ContainerSpec(name="dataplane", limits={RESOURCE: 2}),
        ContainerSpec(name="probe", limits={RESOURCE: 1}),
    ),
)


class _Stage:
    """Prints what happens and remembers whether everything held."""

    def __init__(self) -> None:
        self.held = True

    def scene(self, text: str) -> None:
        click.echo()
        click.secho(text, bold=True)

    def line(self, text: str) -> None:
        click.echo(f"    {text}")

    def check(self, holds: bool, text: str) -> None:  # noqa: FBT001 -- check(this, "is so") reads as it is meant
        self.held = self.held and holds
        click.echo(f"  {click.style('ok', fg='green') if holds else click.style('NO', fg='red', bold=True)} {text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """The running parts."""

    settings: Settings
    container: Container
    kubelet: EmbeddedNode


def run(*, serve: bool) -> bool:
    """Play the demo and return whether everything that it shows was true; stay up afterwards if asked to."""
    configure(level=LogLevel.WARNING, form=LogFormat.CONSOLE)
    with tempfile.TemporaryDirectory(prefix="memif-demo-") as root:
        return asyncio.run(_play(Path(root), serve=serve))


async def _play(root: Path, *, serve: bool) -> bool:
    stage = _Stage()
    async with _node(root) as node:
        click.secho("memif device plugin: a node in one process", bold=True)
        stage.line(f"everything lives in {root}; nothing else of this machine is touched")
        await _register(stage, node)
        pod = await _admit(stage, node)
        found = await _look_up(stage, node, pod)
        async with _connect(stage, pod, found) as links:
            await _restart(stage, node, pod, links)
        await _delete(stage, node, pod)
        if serve and stage.held:
            await _stay(stage, node)
    click.echo()
    stage.check(stage.held, "everything shown was true" if stage.held else "something shown was not true")
    return stage.held


@contextlib.asynccontextmanager
async def _node(root: Path) -> AsyncIterator[_Node]:
    """Start kubelet and daemon, and stop them in reverse order."""
    settings = _settings(root)
    container = build(settings, daemon.new_process())
    runtime = container.runtime()
    if not isinstance(runtime, MemoryRuntime):
        raise TypeError("the demo's runtime must be the one in memory")
    stop = asyncio.Event()
    async with EmbeddedNode(root, runtime, clock=container.clock(), timing=Timing(readmit_after=_READMIT)) as kubelet:
        serving = asyncio.create_task(daemon.serve(container, stop))
        try:
            yield _Node(settings=settings, container=container, kubelet=kubelet)
        finally:
            stop.set()
            await serving


def _settings(root: Path) -> Settings:
    return Settings(
        pools=(PoolSettings(resource=RESOURCE, host_dir=f"{root}/memif"),),
        runtime=RuntimeSettings(kind=RuntimeKind.MEMORY),
        kubelet=KubeletSettings(
            plugin_dir=f"{root}/device-plugins", pod_resources=f"{root}/pod-resources/kubelet.sock"
        ),
        state=f"{root}/state/state.db",
        control=ControlSettings(socket=f"{root}/control.sock"),
        http=HttpSettings(listen=None),
        reconcile=ReconcileSettings.model_validate({"interval": "1s", "grace": "500ms"}),
    )


async def _register(stage: _Stage, node: _Node) -> None:
    stage.scene("1. The plugin registers with the kubelet")
    await node.kubelet.wait_registered(RESOURCE)
    resources = node.kubelet.resources()[RESOURCE]
    stage.check(
        resources.allocatable == node.settings.pools[0].capacity,
        f"the kubelet offers {resources.allocatable} x {RESOURCE}",
    )


async def _admit(stage: _Stage, node: _Node) -> Pod:
    stage.scene("2. A pod asks for memif: an init container, a sidecar and two containers")
    pod = await node.kubelet.start(_SAMPLE)
    stage.check(pod.running, f"pod {pod.namespace}/{pod.name} runs (uid {pod.uid})")
    sockets = set()
    for each in pod.containers:
        host = each.annotations["io.contivpp.memif.socket.host"]
        sockets.add(host)
        stage.line(f"{click.style(each.name, bold=True)} ({each.kind})")
        stage.line(f"  MEMIF_SOCKET={each.env['MEMIF_SOCKET']}")
        stage.line(f"  MEMIF_SECRET={MASK}")
        stage.line(f"  on the node: {host}")
        directory = Path(host).parent
        holds = directory.is_dir() and each.mounts == {"/run/vpp": str(directory)}
        stage.check(
            holds and _mode(directory) == node.settings.pools[0].directory_mode,
            "its own directory is mounted on /run/vpp, mode 2770",
        )
    secrets = {each.env["MEMIF_SECRET"] for each in pod.containers}
    stage.check(len(sockets) == len(secrets) == len(pod.containers), "no two containers share a socket or a secret")
    ids = node.kubelet.devices_of(pod)
    stage.check(
        ids["setup"] == ids["side"],
        "init container and sidecar were given the same device id, and live side by side all the same",
    )
    return pod


async def _look_up(stage: _Stage, node: _Node, pod: Pod) -> PodMemif:
    stage.scene("3. A dataplane agent asks what the pod was given")
    found = await node.container.look_up()(pod.namespace, pod.name)
    for each in found.containers:
        devices = ", ".join(each.allocation.devices)
        stage.line(f"{each.name}: {each.allocation.host_socket}")
        stage.line(f"  devices {devices}; memif id {', '.join(map(str, range(1, len(each.allocation.devices) + 1)))}")
    stage.check(_agrees(found, pod), "the answer names every container, and its socket and secret")
    return found


@contextlib.asynccontextmanager
async def _connect(stage: _Stage, pod: Pod, found: PodMemif) -> AsyncIterator[demo_memif.Links]:
    stage.scene("4. A dataplane listens, the pod connects")
    (allocation,) = (each.allocation for each in found.containers if each.name == "dataplane")
    async with demo_memif.linked(stage, allocation, pod.container("dataplane")) as links:
        yield links


async def _restart(stage: _Stage, node: _Node, pod: Pod, links: demo_memif.Links) -> None:
    stage.scene("5. The kubelet restarts")
    before = _given(pod)
    await node.kubelet.restart_kubelet()
    await node.kubelet.wait_registered(RESOURCE)
    stage.check(True, "it wiped the plugin's socket, and has the device list again")  # noqa: FBT003
    await node.kubelet.wait_ready()
    await node.kubelet.restart_container(pod, "probe")
    stage.check(pod.container("probe").running, "a container restarts without a new allocation")
    stage.check(_given(pod) == before, "paths and secrets are what they were")
    stage.check(links.up, "the memif links stayed up all the while")


async def _delete(stage: _Stage, node: _Node, pod: Pod) -> None:
    stage.scene("6. The pod is deleted")
    await node.kubelet.delete(pod)
    base = Path(node.settings.pools[0].host_dir)
    reconciler = node.container.reconciler()

    async def gone() -> bool:
        await reconciler.once()
        return not await asyncio.to_thread(os.listdir, base)

    stage.check(await _eventually(gone), "its directories are gone")
    stage.check(len(node.container.state().ledger) == 0, "nothing is left in the ledger")
    try:
        await node.container.look_up()(pod.namespace, pod.name)
    except NoPod as answer:
        stage.check(True, f"asked again, the plugin says: {answer}")  # noqa: FBT003
    else:
        stage.check(False, "the plugin still answers for the pod")  # noqa: FBT003


async def _stay(stage: _Stage, node: _Node) -> None:
    stop = asyncio.Event()
    daemon.stop_on_signals(stop)
    stage.scene("The node stays up; end it with Ctrl-C")
    pod = await node.kubelet.start(_SAMPLE)
    found = await node.container.look_up()(pod.namespace, pod.name)
    async with demo_memif.listening(each.allocation for each in found.containers):
        stage.line(f"the pod runs again; ask with: status, pod {pod.namespace}/{pod.name}, allocations, watch ...")
        stage.line(f"a dataplane listens; try: probe {pod.namespace}/{pod.name}/dataplane --force")
        stage.line(f"kubelet's plugin directory: {node.kubelet.plugin_dir}")
        stage.line(f"--control-socket {node.settings.control.socket}")
        await stop.wait()


async def _eventually(holds: Callable[[], Awaitable[bool]]) -> bool:
    loop = asyncio.get_running_loop()
    until = loop.time() + _PATIENCE
    while not await holds():
        if loop.time() > until:
            return False
        await asyncio.sleep(0.1)
    return True


def _agrees(found: PodMemif, pod: Pod) -> bool:
    told = {each.name: (each.allocation.host_socket, each.allocation.secret.reveal()) for each in found.containers}
    return found.uid == pod.uid and not found.stale and told == _given(pod)


def _given(pod: Pod) -> dict[str | None, tuple[str, str]]:
    return {
        each.name: (each.annotations["io.contivpp.memif.socket.host"], each.env["MEMIF_SECRET"])
        for each in pod.containers
    }


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
