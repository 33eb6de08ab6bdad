"""Messages of the CRI become values of the domain.

The kubelet's labels are the only ones that say whose something is: a pod's own labels cannot have their names, while
the metadata of a sandbox is not always complete.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from adapters._pb.cri.runtime.v1 import api_pb2
from domain.evidence import ObjectKind, ObjectState, RuntimeObject
from domain.identity import PodUid
from domain.ports.runtime import RuntimeIdentity

_UID: Final = "io.kubernetes.pod.uid"
_NAMESPACE: Final = "io.kubernetes.pod.namespace"
_NAME: Final = "io.kubernetes.pod.name"
_CONTAINER: Final = "io.kubernetes.container.name"

CONTAINER_STATES: Final[Mapping[int, ObjectState]] = MappingProxyType(
    {
        api_pb2.CONTAINER_CREATED: ObjectState.CREATED,
        api_pb2.CONTAINER_RUNNING: ObjectState.RUNNING,
        api_pb2.CONTAINER_EXITED: ObjectState.EXITED,
        api_pb2.CONTAINER_UNKNOWN: ObjectState.UNKNOWN,
    }
)
SANDBOX_STATES: Final[Mapping[int, ObjectState]] = MappingProxyType(
    {
        api_pb2.SANDBOX_READY: ObjectState.RUNNING,
        api_pb2.SANDBOX_NOTREADY: ObjectState.EXITED,
    }
)


def identity(answer: api_pb2.VersionResponse) -> RuntimeIdentity:
    """Return who answered."""
    return RuntimeIdentity(kind="cri", version=f"{answer.runtime_name} {answer.runtime_version}".strip())


def sandbox_state(item: api_pb2.PodSandbox) -> ObjectState:
    """Return a sandbox's state; one of a later version of the CRI is unknown, and the sandbox exists."""
    return SANDBOX_STATES.get(item.state, ObjectState.UNKNOWN)


def container_state(item: api_pb2.Container) -> ObjectState:
    """Return a container's state; one of a later version of the CRI is unknown, and the container exists."""
    return CONTAINER_STATES.get(item.state, ObjectState.UNKNOWN)


def sandbox(item: api_pb2.PodSandbox, prefixes: tuple[str, ...]) -> RuntimeObject:
    """Return a sandbox, with what the pod's author wrote below a pool's prefix; it mounts nothing of ours."""
    labels = item.labels
    return RuntimeObject(
        id=item.id,
        kind=ObjectKind.SANDBOX,
        state=sandbox_state(item),
        uid=_uid(labels),
        namespace=labels.get(_NAMESPACE) or None,
        name=labels.get(_NAME) or None,
        claimed=claimed(item.annotations, prefixes),
    )


def container(item: api_pb2.Container, prefixes: tuple[str, ...]) -> RuntimeObject:
    """Return a container with what it carries below a pool's prefix; the list shows no mounts.

    None are made up from the annotations: those keep an allocation anyway, and on cri-dockerd an image's author can
    write them, so a mount that only they speak of must not look like a real one.
    """
    labels = item.labels
    carried = claimed(item.annotations, prefixes)
    return RuntimeObject(
        id=item.id,
        kind=ObjectKind.CONTAINER,
        state=container_state(item),
        uid=_uid(labels),
        namespace=labels.get(_NAMESPACE) or None,
        name=labels.get(_NAME) or None,
        container=labels.get(_CONTAINER) or None,
        claimed=carried,
    )


def claimed(annotations: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return the annotations that begin with one of the prefixes, which end in a dot.

    Values are looked at only then: a tenant may have written a megabyte into another one.
    """
    return {key: annotations[key] for key in annotations if key.startswith(prefixes)}


def mounts(listed: Iterable[api_pb2.Mount]) -> dict[str, str]:
    """Return host paths by container path; of two on one container path the later one, which shadows the other."""
    return {mount.container_path: mount.host_path for mount in listed}


def _uid(labels: Mapping[str, str]) -> PodUid | None:
    uid = labels.get(_UID)
    return PodUid(uid) if uid else None
