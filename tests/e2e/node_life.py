"""Pods for a node's life, and what is told of them."""

from typing import Final

from adapters.memory.node import EmbeddedNode, Pod, PodSpec
from domain.lookup import Question
from tests.e2e.daemon import Daemon
from tests.e2e.daemon import Stand as Processes
from tests.integration.daemon import RESOURCE, House
from tests.integration.nodes import app, init, pod, sidecar

STOP_GRACE: Final = 300.0
"""Seconds for which the kubelet keeps the capacity of a plugin that went away."""


def cnf(name: str = "cnf", devices: int = 1) -> PodSpec:
    """Return a pod of one container."""
    return pod(name, app("a", devices, RESOURCE))


def telco() -> PodSpec:
    """Return a pod with an init container, a sidecar and another container."""
    return pod("telco", init("setup", 1, RESOURCE), sidecar("side", 1, RESOURCE), app("main", 2, RESOURCE))


def given(*pods: Pod) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Return what each container was given."""
    return [(dict(each.env), dict(each.mounts)) for one in pods for each in one.containers]


def memif(one: Pod) -> list[str]:
    """Return the directories that a pod mounts."""
    return sorted(each.mounts["/run/vpp"].rpartition("/")[2] for each in one.containers)


def allocations(node: EmbeddedNode) -> int:
    """Return how often the kubelet called Allocate."""
    return sum(call.rpc == "Allocate" for call in node.calls)


async def waiting(stand: Processes) -> Daemon:
    """Start a daemon that comes before the kubelet, as the units of a node are ordered, and waits for it."""
    daemon = await stand.run()
    await daemon.says("not registered with the kubelet")
    return daemon


async def release(house: House, name: str) -> tuple[str, ...]:
    """Report a pod as gone, as a CNI plugin does."""
    question = Question(namespace="telco", name=name)
    return tuple(await house.container.release_pod()(question, reason="CNI DEL"))
