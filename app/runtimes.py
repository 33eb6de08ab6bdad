"""Where each container runtime usually answers, and what is tried there."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from adapters.containerd.runtime import ContainerdRuntime
from adapters.docker.runtime import DockerRuntime
from app.settings import RuntimeKind, Settings
from app.use_cases.runtimes import Candidate, Substitute
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

CRI_NAMESPACE: Final = "k8s.io"
"""containerd's namespace in which its CRI keeps everything."""

Make: TypeAlias = Callable[[str, Settings, Clock], Candidate]


def _containerd(path: str, settings: Settings, clock: Clock) -> Candidate:
    """Return containerd's own API, and the CRI that its socket serves too, whose lists hold no environments."""
    namespace = settings.runtime.containerd_namespace
    runtime = ContainerdRuntime(endpoint=path, namespace=namespace, prefixes=_prefixes(settings), clock=clock)
    substitute = Substitute(main=runtime, other=partial(_cri_runtime, path, settings, clock))
    return _candidate(RuntimeKind.CONTAINERD, path, runtime, substitute if namespace == CRI_NAMESPACE else None)


def _docker(path: str, settings: Settings, clock: Clock) -> Candidate:
    runtime = DockerRuntime(endpoint=path, prefixes=_prefixes(settings), clock=clock)
    return _candidate(RuntimeKind.DOCKER, path, runtime)


def _cri(path: str, settings: Settings, clock: Clock) -> Candidate:
    return _candidate(RuntimeKind.CRI, path, _cri_runtime(path, settings, clock))


def _cri_runtime(path: str, settings: Settings, clock: Clock) -> ContainerRuntime:
    # Its messages take a while to load, and most nodes never need them.
    from adapters.cri.runtime import CriRuntime  # noqa: PLC0415 -- as said

    return CriRuntime(endpoint=path, prefixes=_prefixes(settings), clock=clock)


def _candidate(
    kind: RuntimeKind, path: str, runtime: ContainerRuntime, substitute: Substitute | None = None
) -> Candidate:
    return Candidate(kind=kind, place=f"{kind} at {path}", runtime=runtime, substitute=substitute)


_MAKE: Final[Mapping[RuntimeKind, Make]] = {
    RuntimeKind.CONTAINERD: _containerd,
    RuntimeKind.DOCKER: _docker,
    RuntimeKind.CRI: _cri,
}


def candidates(settings: Settings, clock: Clock) -> tuple[Candidate, ...]:
    """Return what is tried for the configured kind, in the order of preference.

    A configured endpoint is the only place; with the kind ``auto`` each kind is tried there.  The runtime in memory is
    nowhere.
    """
    wanted = settings.runtime.kind
    given = settings.runtime.endpoint
    return tuple(
        make(path, settings, clock)
        for kind, make in _MAKE.items()
        if wanted in {kind, RuntimeKind.AUTO}
        for path in ((given.removeprefix("unix://"),) if given else PLACES[kind])
    )


def _prefixes(settings: Settings) -> tuple[str, ...]:
    return tuple(pool.annotation_prefix for pool in settings.pools)
