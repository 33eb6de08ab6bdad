"""Where each container runtime usually answers, and what is tried there."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from adapters.containerd.runtime import ContainerdRuntime
from adapters.cri.runtime import CriRuntime
from adapters.docker.runtime import DockerRuntime
from app.settings import RuntimeKind, Settings
from app.use_cases.runtimes import Candidate
from domain.ports.clock import Clock
from domain.ports.runtime import ContainerRuntime

_CONTAINERD: Final = (
    "/run/containerd/containerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
)

PLACES: Final[Mapping[RuntimeKind, tuple[str, ...]]] = {
    RuntimeKind.CONTAINERD: _CONTAINERD,
    RuntimeKind.DOCKER: ("/run/docker.sock",),
    RuntimeKind.CRI: (*_CONTAINERD, "/run/crio/crio.sock", "/run/cri-dockerd.sock"),
}
"""The usual sockets of each kind, in the order of preference."""

Make: TypeAlias = Callable[[str, Settings, Clock], ContainerRuntime]


def _containerd(endpoint: str, settings: Settings, clock: Clock) -> ContainerRuntime:
    return ContainerdRuntime(
        endpoint=endpoint, namespace=settings.runtime.containerd_namespace, prefixes=_prefixes(settings), clock=clock
    )


def _docker(endpoint: str, settings: Settings, clock: Clock) -> ContainerRuntime:
    return DockerRuntime(endpoint=endpoint, prefixes=_prefixes(settings), clock=clock)


def _cri(endpoint: str, settings: Settings, clock: Clock) -> ContainerRuntime:
    return CriRuntime(endpoint=endpoint, prefixes=_prefixes(settings), clock=clock)


_MAKE: Final[Mapping[RuntimeKind, Make]] = {
    RuntimeKind.CONTAINERD: _containerd,
    RuntimeKind.DOCKER: _docker,
    RuntimeKind.CRI: _cri,
}


def candidates(settings: Settings, clock: Clock) -> tuple[Candidate, ...]:
    """Return what is tried for the configured kind, in the order of preference.

    A configured endpoint is the only place; with the kind ``auto`` each kind is tried there.
    """
    kinds = tuple(_MAKE) if settings.runtime.kind is RuntimeKind.AUTO else (settings.runtime.kind,)
    given = settings.runtime.endpoint
    return tuple(
        Candidate(kind=kind, place=f"{kind} at {path}", runtime=_MAKE[kind](path, settings, clock))
        for kind in kinds
        for path in ((given.removeprefix("unix://"),) if given else PLACES[kind])
    )


def _prefixes(settings: Settings) -> tuple[str, ...]:
    return tuple(pool.annotation_prefix for pool in settings.pools)
