"""containerd's records of containers become values of the domain.

The CRI plugin keeps what it was asked for in an extension of the record: JSON, with the kubelet's own labels and
annotations, which are the only ones that say whose a container is.  The labels of the record itself are nothing: the
image's are among them, and its author's to choose.

No record makes a reading fail.  One whose extension is not understood still mounts what its OCI specification says, but
belongs to nobody.  A specification that is not understood either mounts nothing; only who may do everything on the node
can make such a one.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Protocol

from domain.evidence import ObjectKind, ObjectState, RuntimeObject
from domain.identity import PodUid

_KINDS: Final[Mapping[str, ObjectKind]] = MappingProxyType(
    {
        "github.com/containerd/cri/pkg/store/sandbox/Metadata": ObjectKind.SANDBOX,
        "github.com/containerd/cri/pkg/store/container/Metadata": ObjectKind.CONTAINER,
    }
)
"""What the CRI plugin's extensions belong to, by their type: the same since its first release, also where the CRI
plugin has moved to another place since."""

_UID: Final = "io.kubernetes.pod.uid"
_NAMESPACE: Final = "io.kubernetes.pod.namespace"
_NAME: Final = "io.kubernetes.pod.name"
_CONTAINER: Final = "io.kubernetes.container.name"

_BINDS: Final = frozenset({"bind", "rbind"})

STATES: Final[Mapping[int, ObjectState]] = MappingProxyType(
    {
        0: ObjectState.UNKNOWN,
        1: ObjectState.CREATED,
        2: ObjectState.RUNNING,
        3: ObjectState.EXITED,
        4: ObjectState.PAUSED,
        5: ObjectState.PAUSED,  # on its way there
    }
)
"""By the number that a task's status has: unknown, created, running, stopped, paused, pausing."""


class Payload(Protocol):
    """A serialized value and what it is; ``google.protobuf.Any``."""

    type_url: str
    value: bytes


class Time(Protocol):
    """``google.protobuf.Timestamp``."""

    seconds: int
    nanos: int


class Record(Protocol):
    """``containerd.services.containers.v1.Container``, as far as it is read."""

    id: str
    spec: Payload
    extensions: Mapping[str, Payload]
    updated_at: Time


class Records:
    """Translates records, and remembers what became of them until they change.

    To decode them takes longer than to receive them, the more so where a tenant's environment is large.

    Args:
        prefixes: the pools' annotation prefixes.
    """

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = tuple(f"{prefix}." for prefix in prefixes)
        self._known: dict[tuple[str, int, int], RuntimeObject] = {}

    def reading(self) -> "Reading":
        """Begin with the first record of a reading."""
        return Reading(self._known, self._prefixes)

    def remember(self, reading: "Reading") -> None:
        """Keep what a complete reading saw, and forget everything else."""
        self._known = reading.seen


class Reading:
    """The records of one reading.

    Attributes:
        seen: objects by the id and the time of the last change of their records.
    """

    def __init__(self, known: Mapping[tuple[str, int, int], RuntimeObject], prefixes: tuple[str, ...]) -> None:
        self._known = known
        self._prefixes = prefixes
        self.seen: dict[tuple[str, int, int], RuntimeObject] = {}

    def add(self, record: Record) -> None:
        """Take another record in."""
        key = (record.id, record.updated_at.seconds, record.updated_at.nanos)
        self.seen[key] = self._known.get(key) or described(record, self._prefixes)

    def objects(self, tasks: Mapping[str, int], waiting: frozenset[str]) -> tuple[RuntimeObject, ...]:
        """Bring all of them up to their states and return them.

        Args:
            tasks: the status of each container's task; containers without a record are none.
            waiting: containers of which is known that they have not been started yet.
        """
        for key, each in self.seen.items():
            state = _state(each.id, tasks, waiting)
            if each.state is not state:
                self.seen[key] = replace(each, state=state)
        return tuple(self.seen.values())


def described(record: Record, prefixes: tuple[str, ...]) -> RuntimeObject:
    """Return what a record says, in an unknown state; the prefixes end in a dot."""
    kind, config = _asked_for(record)
    labels = _mapping(config.get("labels"))
    uid = _text(labels.get(_UID))
    is_container = kind is ObjectKind.CONTAINER
    return RuntimeObject(
        id=record.id,
        kind=kind,
        state=ObjectState.UNKNOWN,
        uid=PodUid(uid) if uid else None,
        namespace=_text(labels.get(_NAMESPACE)),
        name=_text(labels.get(_NAME)),
        container=_text(labels.get(_CONTAINER)) if is_container else None,
        mounts=_mounts(record, config) if is_container else {},
        claimed=_claimed(config.get("annotations"), prefixes),
    )


def _state(name: str, tasks: Mapping[str, int], waiting: frozenset[str]) -> ObjectState:
    """Return a container's state.

    Without a task it has not been started yet or has ended, and no answer of containerd's tells which; without proof
    of the former it is the latter, because nothing may be concluded from an ended container.
    """
    if name in tasks:
        return STATES.get(tasks[name], ObjectState.UNKNOWN)
    return ObjectState.CREATED if name in waiting else ObjectState.EXITED


def _asked_for(record: Record) -> tuple[ObjectKind, Mapping[str, object]]:
    """Return what the CRI plugin made, and what for; nothing, if somebody else made it or it is not understood."""
    for extension in record.extensions.values():
        kind = _KINDS.get(extension.type_url)
        if kind is not None:
            return kind, _mapping(_mapping(_decoded(extension.value).get("Metadata")).get("Config"))
    return ObjectKind.CONTAINER, {}


def _mounts(record: Record, config: Mapping[str, object]) -> dict[str, str]:
    """Return host paths by container path; of two on one container path the later one, which hides the other."""
    asked = list(_pairs(config.get("mounts"), "container_path", "host_path"))
    return dict(asked or _specified(_decoded(record.spec.value).get("mounts")))


def _specified(mounts: object) -> Iterator[tuple[str, str]]:
    """Yield what an OCI specification mounts of the host; anything else is the runtime's own."""
    for mount in _sequence(mounts):
        options = {each for each in _sequence(_mapping(mount).get("options")) if isinstance(each, str)}
        if _mapping(mount).get("type") == "bind" or options & _BINDS:
            yield from _pairs([mount], "destination", "source")


def _pairs(mounts: object, inside: str, outside: str) -> Iterator[tuple[str, str]]:
    for mount in map(_mapping, _sequence(mounts)):
        match mount.get(inside), mount.get(outside):
            case str() as end, str() as source if end and source:  # an image that is mounted has no source
                yield _clean(end), _clean(source)


def _claimed(annotations: object, prefixes: tuple[str, ...]) -> dict[str, str]:
    return {
        _clean(key): _clean(value)
        for key, value in _mapping(annotations).items()
        if key.startswith(prefixes) and isinstance(value, str)
    }


def _text(raw: object) -> str | None:
    return _clean(raw) if isinstance(raw, str) and raw else None


def _clean(text: str) -> str:
    # JSON can spell half of a character; nothing that stores or prints texts takes it.
    return text if text.isascii() else text.encode(errors="replace").decode()


def _decoded(raw: bytes) -> Mapping[str, object]:
    try:
        return _mapping(json.loads(raw.decode()))
    except (ValueError, RecursionError):
        return {}


def _mapping(raw: object) -> Mapping[str, object]:
    return raw if isinstance(raw, dict) else {}


def _sequence(raw: object) -> list[object]:
    return raw if isinstance(raw, list) else []
