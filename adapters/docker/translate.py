"""From Docker's list of containers to what the domain knows.

Whatever has not the form that Docker gives it makes the whole list useless: a mount overlooked would be a directory
lost.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from domain.evidence import ObjectKind, ObjectState, RuntimeObject
from domain.identity import PodUid
from domain.ports.runtime import RuntimeUnavailable

ANNOTATION: Final = "annotation."
"""Docker has labels only; cri-dockerd stores a container's annotations as labels that begin so."""

_UID: Final = "io.kubernetes.pod.uid"
_NAMESPACE: Final = "io.kubernetes.pod.namespace"
_NAME: Final = "io.kubernetes.pod.name"
_CONTAINER: Final = "io.kubernetes.container.name"
_TYPE: Final = "io.kubernetes.docker.type"
"""cri-dockerd's labels.  It sets each of them itself, over what an image may bring along."""

_SANDBOX_TYPE: Final = "podsandbox"
_SANDBOX_NAME: Final = "POD"
"""The container's name in a sandbox; no name that Kubernetes admits has capitals."""

_STATES: Final = {
    "created": ObjectState.CREATED,
    "running": ObjectState.RUNNING,
    "paused": ObjectState.PAUSED,
    "restarting": ObjectState.RESTARTING,
    "exited": ObjectState.EXITED,
}
_BIND: Final = "bind"
"""Also where no kind is given: Docker leaves out what is empty."""

_GONE: Final = frozenset({"dead", "removing"})
"""Removal has begun, and may have failed half way: nothing of it starts again."""


def objects(listed: object, prefixes: tuple[str, ...]) -> tuple[RuntimeObject, ...]:
    """Return what exists of a list of containers.

    Args:
        listed: the decoded answer.
        prefixes: the pools' annotation prefixes.

    Raises:
        RuntimeUnavailable: with what was expected, and never with content, which holds secrets.
    """
    begins = tuple(f"{ANNOTATION}{prefix}." for prefix in prefixes)
    return tuple(_objects(_sequence(listed), begins))


def version(description: object) -> str:
    """Return the daemon's version from its description of itself.

    Raises:
        RuntimeUnavailable: it has none.
    """
    found = _text(_mapping(description).get("Version"), "a version")
    if not found:
        raise _not_understood("an empty version")
    return found


def _objects(listed: list[object], begins: tuple[str, ...]) -> Iterator[RuntimeObject]:
    for each in listed:
        raw = _mapping(each)
        state = _text(raw.get("State"), "a state")
        if state not in _GONE:
            yield _object(raw, _STATES.get(state, ObjectState.UNKNOWN), begins)


def _object(raw: Mapping[str, object], state: ObjectState, begins: tuple[str, ...]) -> RuntimeObject:
    name = _text(raw.get("Id"), "an id")
    if not name:
        raise _not_understood("a container without an id")
    labels = _mapping(raw.get("Labels") or {})
    inside = _label(labels, _CONTAINER)
    is_sandbox = labels.get(_TYPE) == _SANDBOX_TYPE or inside == _SANDBOX_NAME
    uid = _label(labels, _UID)
    return RuntimeObject(
        id=name,
        kind=ObjectKind.SANDBOX if is_sandbox else ObjectKind.CONTAINER,
        state=state,
        uid=None if uid is None else PodUid(uid),
        namespace=_label(labels, _NAMESPACE),
        name=_label(labels, _NAME),
        container=None if is_sandbox else inside,
        mounts=dict(_binds(raw)),
        # Of some dozen labels on each of some hundred containers only these are looked at further.
        claimed={
            _text(key[len(ANNOTATION) :], "a label"): _text(labels[key], "a label")
            for key in labels
            if key.startswith(begins)
        },
    )


def _label(labels: Mapping[str, object], key: str) -> str | None:
    return _text(labels[key], "a label") or None if key in labels else None


def _binds(raw: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the directories and files of the host that a container mounts; volumes and tmpfs are Docker's own."""
    for each in _sequence(raw.get("Mounts") or []):
        mount = _mapping(each)
        if mount.get("Type", _BIND) == _BIND:
            yield _text(mount.get("Destination"), "a mount's end"), _text(mount.get("Source"), "a mount's source")


def _sequence(raw: object) -> list[object]:
    if not isinstance(raw, list):
        raise _not_understood("no list")
    return raw


def _mapping(raw: object) -> dict[str, object]:
    if not isinstance(raw, dict):
        raise _not_understood("no object")
    return raw


def _text(raw: object, what: str) -> str:
    if isinstance(raw, str):
        # JSON can spell half of a character; nothing that stores or prints texts takes it.
        return raw if raw.isascii() else raw.encode(errors="replace").decode()
    raise _not_understood(f"{what} that is no text")


def _not_understood(what: str) -> RuntimeUnavailable:
    return RuntimeUnavailable(f"Docker's answer is not understood: it has {what} where something else belongs")
