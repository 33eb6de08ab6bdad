"""Embedded nodes for the tests of the embedded node."""

import asyncio
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from grpc import aio

from adapters._pb.kubelet.podresources.v1 import api_pb2_grpc
from adapters.memory.clock import ManualClock
from adapters.memory.node import ContainerKind, ContainerSpec, EmbeddedNode, PodSpec, Timing
from adapters.memory.node.workers import make_source
from adapters.memory.runtime import MemoryRuntime
from tests.integration.plugin import RESOURCE

QUICK: Final = Timing(readmit_after=0.02, retry=0.01)
"""Waits that are short where their length is not the point."""


@asynccontextmanager
async def a_node(
    *, clock: ManualClock | None = None, timing: Timing = QUICK, seed: int = 7, start: bool = True
) -> AsyncIterator[EmbeddedNode]:
    """A node in a directory with a short path, its kubelet started and ready."""
    time = clock or ManualClock()
    with tempfile.TemporaryDirectory(prefix="n", dir="/tmp") as root:
        node = EmbeddedNode(
            Path(root),
            MemoryRuntime(time),
            clock=time,
            seed=seed,
            timing=timing,
            # What answers of scripted plugins name elsewhere is no business of this machine.
            missing_source=lambda path: make_source(path) if Path(path).is_relative_to(root) else None,
        )
        if not start:
            yield node
            await node.stop_kubelet()
            return
        async with node:
            await node.wait_ready()
            yield node


@asynccontextmanager
async def lister(node: EmbeddedNode) -> AsyncIterator[api_pb2_grpc.PodResourcesListerStub]:
    """A client of the node's pod-resources."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with aio.insecure_channel(f"unix:{node.pod_resources_socket}", options=options) as channel:
        yield api_pb2_grpc.PodResourcesListerStub(channel)


def slow_readmission(seconds: float) -> Timing:
    """The quick timing, but with pods admitted only so many seconds after ``kubelet.sock`` listens."""
    return replace(QUICK, readmit_after=seconds)


def app(name: str = "a", count: int = 1, resource: str = RESOURCE) -> ContainerSpec:
    return ContainerSpec(name=name, limits={resource: count} if count else {})


def init(name: str = "setup", count: int = 1, resource: str = RESOURCE) -> ContainerSpec:
    return ContainerSpec(name=name, limits={resource: count}, kind=ContainerKind.INIT)


def sidecar(name: str = "side", count: int = 1, resource: str = RESOURCE) -> ContainerSpec:
    return ContainerSpec(name=name, limits={resource: count}, kind=ContainerKind.SIDECAR)


def pod(name: str = "one", *containers: ContainerSpec, static: bool = False, nonce: str = "") -> PodSpec:
    return PodSpec(namespace="telco", name=name, containers=containers or (app(),), static=static, nonce=nonce)


async def appearance(path: Path) -> None:
    """Wait until a file exists; there is nothing to await, since the kernel makes it in the middle of a start."""
    async with asyncio.timeout(10):
        while not await asyncio.to_thread(path.exists):
            pass


def mode_of(path: Path) -> str:
    """Return a file's kind and mode in words, such as ``drwxr-xr-x``."""
    return stat.filemode(path.stat().st_mode)
