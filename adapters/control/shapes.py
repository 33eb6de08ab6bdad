"""Messages in the JSON shapes of the command line: fixed names, ``None`` for what is not known, no secret unasked."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from adapters._pb.memif.v1 import memif_pb2
from adapters.control import translate
from domain.allocation import Allocation
from domain.secret import MASK

Shape: TypeAlias = dict[str, Any]

_EVENTS: Final[Mapping[int, str]] = {
    number: name.removeprefix("EVENT_TYPE_") for name, number in memif_pb2.EventType.items()
}
_STATES: Final[Mapping[int, str]] = {
    number: name.removeprefix("ALLOCATION_STATE_").lower() for name, number in memif_pb2.AllocationState.items()
}


def status(message: memif_pb2.GetStatusResponse) -> Shape:
    """Return how a daemon is."""
    reconcile = message.reconcile
    return {
        "version": message.version,
        "instance": message.instance,
        "role": message.role,
        "since": _time(message, "since"),
        "runtime": {
            "kind": _known(message.runtime, "kind"),
            "version": _known(message.runtime, "version"),
            "reachable": message.runtime.reachable,
            "since": _time(message.runtime, "since"),
        },
        "kubelet": {"reachable": message.kubelet.reachable, "restarts": message.kubelet.restarts},
        "views": _views(message.views),
        "pools": [
            {
                "resource": each.resource,
                "registered": each.registered,
                "watched": each.watched,
                "capacity": each.capacity,
                "healthy": each.healthy,
                "allocated": each.allocated,
                "endpoint": _known(each, "endpoint"),
                "reason": _known(each, "reason"),
            }
            for each in message.pools
        ],
        "allocations": {"pending": message.allocations.pending, "bound": message.allocations.bound},
        "reconcile": {
            "last": _time(reconcile, "last"),
            "result": reconcile.result or None,
            "reason": _known(reconcile, "reason"),
        },
        "config": {"loaded": _time(message.config, "loaded"), "error": _known(message.config, "error")},
    }


def pod(message: memif_pb2.GetPodResponse) -> Shape:
    """Return what a pod was given."""
    return {
        "pod": _pod(message.pod),
        "stale": message.stale,
        "containers": [
            {
                "name": _known(each, "container"),
                "resource": each.resource,
                "allocation": each.id,
                "devices": list(each.devices),
                "host_socket": each.host_socket,
                "container_socket": each.container_socket,
                "secret": _secret(each),
                "state": _STATES.get(each.state),
            }
            for each in message.containers
        ],
    }


def allocation(message: memif_pb2.Allocation) -> Shape:
    """Return an allocation."""
    return {
        "id": message.id,
        "resource": message.resource,
        "devices": list(message.devices),
        "state": _STATES.get(message.state),
        "pod": _pod(message.pod) if message.HasField("pod") else None,
        "container": _known(message, "container"),
        "host_socket": message.host_socket,
        "container_socket": message.container_socket,
        "secret": _secret(message),
        "granted": _time(message, "granted"),
        "held_by": list(message.held_by),
        "running": _known(message, "running"),
    }


def recorded(each: Allocation, *, forced: bool) -> Shape:
    """Return an allocation as a journal has it, of which nobody knows what holds it now."""
    shape = allocation(translate.allocation(each, secrets=False))
    return {**shape, "held_by": ["forced"] if forced else None}


def event(message: memif_pb2.WatchResponse) -> Shape:
    """Return one message of a watch."""
    return {
        "instance": message.instance,
        "seq": message.seq,
        "type": _EVENTS.get(message.type),
        "allocation": allocation(message.allocation) if message.HasField("allocation") else None,
    }


def reconcile(message: memif_pb2.ReconcileResponse) -> Shape:
    """Return what a reconcile saw and decided."""
    return {
        "dry_run": message.dry_run,
        "views": _views(message.views),
        "effects": [
            {"effect": each.effect, "allocation": _known(each, "allocation"), "reason": each.reason}
            for each in message.effects
        ],
    }


def _pod(message: memif_pb2.Pod) -> Shape:
    return {name: _known(message, name) for name in ("namespace", "name", "uid")}


def _views(message: memif_pb2.Views) -> Shape:
    return {"runtime": message.runtime, "checkpoint": message.checkpoint}


def _known(message: Message, field: str) -> Any:
    """Return an optional field, ``None`` if it is not there."""
    return getattr(message, field) if message.HasField(field) else None


def _secret(message: memif_pb2.Allocation) -> str:
    return message.secret if message.HasField("secret") else MASK


def _time(message: Message, field: str) -> str | None:
    moment: Timestamp | None = _known(message, field)
    return None if moment is None else moment.ToJsonString()
