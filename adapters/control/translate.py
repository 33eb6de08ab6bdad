"""Domain values as messages."""

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from adapters._pb.memif.v1 import memif_pb2
from domain.allocation import Allocation, Owner
from domain.events import Event, EventType
from domain.evidence import CheckpointView, RuntimeView, Unknown
from domain.lookup import PodMemif
from domain.overview import Listed, Overview, PoolStatus, ViewStatus
from domain.ports.inbound import Outcome
from domain.resync import Ask, Effect, Own

_KNOWN = "known"

_EVENTS = {
    EventType.ALLOCATED: memif_pb2.EVENT_TYPE_ALLOCATED,
    EventType.BOUND: memif_pb2.EVENT_TYPE_BOUND,
    EventType.RELEASED: memif_pb2.EVENT_TYPE_RELEASED,
    EventType.SYNCED: memif_pb2.EVENT_TYPE_SYNCED,
    EventType.RESYNC_NEEDED: memif_pb2.EVENT_TYPE_RESYNC_NEEDED,
}


def allocation(
    each: Allocation,
    *,
    secrets: bool,
    held_by: tuple[str, ...] = (),
    running: bool | None = None,
    container: str | None = None,
) -> memif_pb2.Allocation:
    """Return an allocation.

    Args:
        each: the allocation.
        secrets: whether its secret goes with it.
        held_by: what keeps it.
        running: whether a container among these may run, if it is known.
        container: its container's name, if the owner does not know it.
    """
    return memif_pb2.Allocation(
        id=each.id,
        resource=each.resource,
        devices=each.devices,
        state=memif_pb2.ALLOCATION_STATE_BOUND if each.owner.complete else memif_pb2.ALLOCATION_STATE_PENDING,
        pod=_pod(each.owner),
        container=each.owner.container if container is None else container,
        host_socket=each.host_socket,
        container_socket=each.container_socket,
        secret=each.secret.reveal() if secrets else None,
        granted=_time(each.granted),
        held_by=held_by,
        running=running,
    )


def pod(found: PodMemif, *, secrets: bool) -> memif_pb2.GetPodResponse:
    """Return what a pod was given."""
    return memif_pb2.GetPodResponse(
        pod=memif_pb2.Pod(namespace=found.namespace, name=found.name, uid=found.uid),
        stale=found.stale,
        containers=[allocation(each.allocation, secrets=secrets, container=each.name) for each in found.containers],
    )


def allocations(listed: tuple[Listed, ...], *, secrets: bool) -> memif_pb2.ListAllocationsResponse:
    """Return everything that is there."""
    return memif_pb2.ListAllocationsResponse(
        allocations=[
            allocation(each.allocation, secrets=secrets, held_by=each.held_by, running=each.running) for each in listed
        ]
    )


def event(told: Event, instance: str, *, secrets: bool) -> memif_pb2.WatchResponse:
    """Return one message of a watch."""
    return memif_pb2.WatchResponse(
        instance=instance,
        seq=told.seq,
        type=_EVENTS[told.type],
        allocation=None if told.allocation is None else allocation(told.allocation, secrets=secrets),
    )


def outcome(done: Outcome, *, dry_run: bool) -> memif_pb2.ReconcileResponse:
    """Return what a reconcile saw and decided."""
    return memif_pb2.ReconcileResponse(
        dry_run=dry_run,
        views=memif_pb2.Views(runtime=_view(done.runtime), checkpoint=_view(done.checkpoint)),
        effects=[_effect(each) for each in done.effects],
    )


def overview(seen: Overview) -> memif_pb2.GetStatusResponse:
    """Return how the daemon is; only an active one answers."""
    return memif_pb2.GetStatusResponse(
        version=seen.version,
        instance=seen.instance,
        role="active",
        since=_time(seen.since),
        runtime=memif_pb2.RuntimeStatus(
            kind=None if seen.identity is None else seen.identity.kind,
            version=None if seen.identity is None else seen.identity.version,
            reachable=seen.runtime.unknown is None,
            since=_time(seen.runtime.since),
        ),
        kubelet=memif_pb2.KubeletStatus(
            reachable=any(each.registration.watched for each in seen.pools), restarts=seen.restarts
        ),
        views=memif_pb2.Views(runtime=_view_status(seen.runtime), checkpoint=_view_status(seen.checkpoint)),
        pools=[_pool(each) for each in seen.pools],
        allocations=memif_pb2.AllocationCounts(pending=seen.pending, bound=seen.bound),
        reconcile=_reconcile(seen),
        config=memif_pb2.ConfigStatus(loaded=_time(seen.configuration.loaded), error=seen.configuration.error),
    )


def _pod(owner: Owner) -> memif_pb2.Pod | None:
    if owner.uid is None and owner.namespace is None and owner.name is None:
        return None
    return memif_pb2.Pod(namespace=owner.namespace, name=owner.name, uid=owner.uid)


def _pool(each: PoolStatus) -> memif_pb2.PoolStatus:
    return memif_pb2.PoolStatus(
        resource=each.resource,
        registered=each.registration.registered,
        watched=each.registration.watched,
        capacity=each.listed,
        healthy=each.healthy,
        allocated=each.allocated,
        endpoint=each.registration.endpoint,
        reason=each.reason,
    )


def _reconcile(seen: Overview) -> memif_pb2.ReconcileStatus:
    last = seen.reconcile
    if last is None:
        return memif_pb2.ReconcileStatus()
    return memif_pb2.ReconcileStatus(
        last=_time(last.ended), result="ok" if last.error is None else "error", reason=last.error
    )


def _effect(each: Effect) -> memif_pb2.Effect:
    return memif_pb2.Effect(
        effect=type(each).__name__.lower(),
        allocation=None if isinstance(each, Ask) else each.id,
        reason="its owner became known" if isinstance(each, Own) else each.reason,
    )


def _view(view: RuntimeView | CheckpointView | Unknown) -> str:
    return f"unknown: {view.reason}" if isinstance(view, Unknown) else _KNOWN


def _view_status(status: ViewStatus) -> str:
    if status.unknown is None:
        return _KNOWN
    since = status.since.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"unknown: {status.unknown} since {since}"


def _time(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment.astimezone(UTC))
    return stamp
