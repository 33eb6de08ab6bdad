"""Pods as the embedded kubelet gets and keeps them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b

from domain.evidence import ObjectState


class ContainerKind(StrEnum):
    """How a container runs: to completion before the others, before and beside the others, or as one of them."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


class Phase(StrEnum):
    """A pod's phase."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Source(StrEnum):
    """Where the kubelet has its pods from; each may be late after a start."""

    FILE = "file"
    API = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """One container and the extended resources that it asks for."""

    name: str
    limits: Mapping[str, int] = field(default_factory=dict)
    kind: ContainerKind = ContainerKind.APP


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """What a user writes.

    Attributes:
        static: a manifest in the kubelet's directory; its pod's name gets the node's as suffix, and its uid is the
            manifest's hash.
        nonce: makes two otherwise equal manifests differ.
        oversized: asks for more cpu than the node has, which the kubelet notices only after Allocate.
    """

    namespace: str = "default"
    name: str
    containers: tuple[ContainerSpec, ...]
    static: bool = False
    nonce: str = ""
    oversized: bool = False

    def hash(self, node: str) -> str:
        """Return the uid that a static pod of this manifest has on a node."""
        return blake2b(f"{self!r} on {node}".encode(), digest_size=16).hexdigest()


@dataclass(slots=True, kw_only=True, eq=False)
class Container:
    """A pod's container as it is now.

    Attributes:
        id: of the newest container in the runtime, ``None`` before the first.
        state: of that container.
        restarts: how often it was started again.
        waiting: why it is not started, in the kubelet's words, ``None`` if nothing is wrong.
        env: what the plugins gave it, merged.
        mounts: host path by container path, likewise.
        read_only: those of the container paths that are mounted read-only.
        annotations: what the plugins gave it and the kubelet's own.
    """

    spec: ContainerSpec
    id: str | None = None
    state: ObjectState | None = None
    restarts: int = 0
    waiting: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    read_only: frozenset[str] = frozenset()
    annotations: Mapping[str, str] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return self.spec.name

    @property
    def kind(self) -> ContainerKind:
        """How it runs."""
        return self.spec.kind

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self.state is ObjectState.RUNNING

    @property
    def done(self) -> bool:
        """Whether nothing is left to start: it runs, or it is an init container that has run."""
        return self.running or (self.kind is ContainerKind.INIT and self.state is ObjectState.EXITED)


@dataclass(slots=True, kw_only=True, eq=False)
class Pod:
    """A pod as it is now.

    Attributes:
        name: as the kubelet shows it, of a static pod with the node's name as suffix.
        admitted: whether the kubelet that runs now has admitted it.
        started: whether its containers are meant to run, so that a restarted kubelet starts them again.
        terminating: whether it is being deleted, while its containers may still run.
        finished: whether the kubelet knows that all its containers have stopped for good.
        sandboxes: ids of its sandboxes in the runtime, newest last.
    """

    spec: PodSpec
    uid: str
    name: str
    containers: tuple[Container, ...]
    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    admitted: bool = False
    started: bool = False
    terminating: bool = False
    finished: bool = False
    sandboxes: list[str] = field(default_factory=list)
    sandbox_ready: bool = False

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.spec.namespace

    @property
    def source(self) -> Source:
        """Where the kubelet has it from."""
        return Source.FILE if self.spec.static else Source.API

    @property
    def terminal(self) -> bool:
        """Whether its phase is final."""
        return self.phase in (Phase.FAILED, Phase.SUCCEEDED)

    @property
    def active(self) -> bool:
        """Whether the kubelet counts it among those that hold devices, if it knows it at all."""
        return not self.finished and (not self.terminal or self.terminating)

    @property
    def running(self) -> bool:
        """Whether every container runs or has run as it should."""
        return all(container.done for container in self.containers)

    def container(self, name: str) -> Container:
        """Return one container by its name."""
        for container in self.containers:
            if container.name == name:
                return container
        raise KeyError(name)

    def in_order(self) -> Iterator[Container]:
        """Yield the containers in the order of admission and start: init and sidecar ones, then the others."""
        yield from (c for c in self.containers if c.kind is not ContainerKind.APP)
        yield from (c for c in self.containers if c.kind is ContainerKind.APP)

    def fail(self, message: str) -> None:
        """Reject it for good; the kubelet never tries again."""
        self.phase = Phase.FAILED
        self.reason = "UnexpectedAdmissionError"
        self.message = message


def new_pod(spec: PodSpec, *, node: str, uid: str) -> Pod:
    """Return a pod as the kubelet first sees it.

    ``uid`` is the API server's and counts for its pods only.
    """
    return Pod(
        spec=spec,
        uid=spec.hash(node) if spec.static else uid,
        name=f"{spec.name}-{node.lower()}" if spec.static else spec.name,
        containers=tuple(Container(spec=container) for container in spec.containers),
    )
