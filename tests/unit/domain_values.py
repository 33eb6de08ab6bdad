"""Values of the domain for its tests: one of each kind to change at will, numbered ones, and random ones."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hypothesis import strategies as st

from domain.allocation import Allocation, Owner
from domain.answer import answer, files
from domain.evidence import (
    CheckpointEntry,
    CheckpointView,
    DirectoryView,
    ObjectKind,
    ObjectState,
    RuntimeObject,
    RuntimeView,
)
from domain.grant import Draw
from domain.identity import ALLOCATION_ID_ALPHABET, ALLOCATION_ID_LENGTH, AllocationId, DeviceId, PodUid
from domain.pool import Pool, SecretDelivery
from domain.resource import ResourceName
from domain.secret import LONGEST_SECRET, SECRET_ALPHABET, SHORTEST_SECRET, Secret

RESOURCE: Final = ResourceName("contivpp.io/memif")

NOW: Final = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
"""Wall-clock time of whatever does not say another."""

_AN_ID: Final = AllocationId("bcdfghjklmnpqrstvwxz")
_A_SECRET: Final = Secret("HushHushHushHushHush")
_A_UID: Final = PodUid("0a1b2c3d-0000-4000-8000-000000000001")


def a_pool(**changes: Any) -> Pool:
    """Return the pool of a configuration that says nothing, changed."""
    return replace(Pool(resource=RESOURCE), **changes)


def device_ids(*indexes: int, pool: Pool | None = None) -> tuple[DeviceId, ...]:
    """Return the ids of a pool's devices by their indexes."""
    pool = pool or a_pool()
    return tuple(pool.device(index) for index in indexes)


def an_id(number: int) -> AllocationId:
    """Return one of many well-formed ids, in ascending order."""
    return AllocationId(f"b{number:0{ALLOCATION_ID_LENGTH - 1}d}")


def a_secret(number: int) -> Secret:
    """Return one of many secrets, each of which can be searched for."""
    return Secret(f"Hush{number:016d}")


def a_draw(number: int) -> Draw:
    """Return one of many draws."""
    return Draw(id=an_id(number), secret=a_secret(number))


def draws(count: int, start: int = 0) -> tuple[Draw, ...]:
    """Return so many different draws."""
    return tuple(a_draw(number) for number in range(start, start + count))


def an_owner(**changes: Any) -> Owner:
    """Return an owner of whom everything is known, changed."""
    owner = Owner(uid=_A_UID, container="dataplane", namespace="telco", name="cnf")
    return replace(owner, **changes)


def an_allocation(
    id: str = _AN_ID,  # noqa: A002  # as the field is called
    devices: Iterable[str] = (f"{RESOURCE}/0",),
    owner: Owner | None = None,
    *,
    pool: Pool | None = None,
    **changes: Any,
) -> Allocation:
    """Return what a pool would have granted, pending unless an owner is given."""
    pool = pool or a_pool()
    ids = tuple(map(DeviceId, devices))
    secret = changes.pop("secret", _A_SECRET)
    allocation = Allocation(
        id=AllocationId(id),
        resource=pool.resource,
        devices=ids,
        host_dir=pool.host_dir,
        container_dir=pool.container_dir,
        socket_name=pool.socket_name,
        rules=pool.directory,
        secret=secret,
        granted=NOW,
        secret_delivery=pool.secret_delivery,
        files=files(pool, ids, secret),
        owner=owner or Owner(),
    )
    return replace(allocation, **changes)


def numbered(number: int, *, pool: Pool | None = None, **changes: Any) -> Allocation:
    """Return one of many different allocations: id, secret, device and time go with the number."""
    pool = pool or a_pool()
    given: dict[str, Any] = {
        "devices": (pool.device(number),),
        "secret": a_secret(number),
        "granted": NOW + timedelta(seconds=number),
    }
    return an_allocation(an_id(number), pool=pool, **(given | changes))


def an_entry(
    allocation: Allocation,
    uid: str | None = None,
    container: str | None = None,
    pool: Pool | None = None,
    **changes: Any,
) -> CheckpointEntry:
    """Return what the kubelet stored of an allocation, with the pool's answer.

    Uid and container are those of the allocation's owner unless given, and the usual ones of an owner after that.
    """
    owner = Owner(uid=PodUid(uid) if uid is not None else None, container=container)
    known = owner.completed_by(allocation.owner).completed_by(an_owner())
    if known.uid is None or known.container is None:  # the usual owner has both
        msg = "an entry has a uid and a container"
        raise AssertionError(msg)
    entry = CheckpointEntry(
        uid=known.uid,
        container=known.container,
        resource=allocation.resource,
        devices=allocation.devices,
        answer=answer(pool or a_pool(resource=allocation.resource), allocation),
    )
    return replace(entry, **changes)


def a_checkpoint(*entries: CheckpointEntry, began: float = 0.0) -> CheckpointView:
    """Return a reading of the kubelet's checkpoint."""
    return CheckpointView(began=began, entries=entries)


def an_object(allocation: Allocation | None = None, **changes: Any) -> RuntimeObject:
    """Return a running container, changed; with an allocation, it mounts its directory and carries its owner."""
    owner = (allocation.owner if allocation is not None else Owner()).completed_by(an_owner())
    mounts = {} if allocation is None else {allocation.container_dir: allocation.directory.path}
    found = RuntimeObject(
        id="c0ffee",
        kind=ObjectKind.CONTAINER,
        state=ObjectState.RUNNING,
        uid=owner.uid,
        namespace=owner.namespace,
        name=owner.name,
        container=owner.container,
        mounts=mounts,
    )
    return replace(found, **changes)


def a_sandbox(owner: Owner | None = None, **changes: Any) -> RuntimeObject:
    """Return a pod's running sandbox, changed."""
    owner = (owner or Owner()).completed_by(an_owner())
    found = RuntimeObject(
        id="5a5a5a",
        kind=ObjectKind.SANDBOX,
        state=ObjectState.RUNNING,
        uid=owner.uid,
        namespace=owner.namespace,
        name=owner.name,
    )
    return replace(found, **changes)


def a_runtime(*objects: RuntimeObject, began: float = 0.0) -> RuntimeView:
    """Return a reading of the runtime."""
    return RuntimeView(began=began, objects=objects)


def a_base(
    *allocations: Allocation,
    host_dir: str = "/var/run/contiv/memif",
    inodes: dict[AllocationId, int] | None = None,
    **changes: Any,
) -> DirectoryView:
    """Return a base directory in which the given allocations, and directories by inode, lie.

    The k-th allocation's directory has inode k, from 1.
    """
    there = {each.id: number for number, each in enumerate(allocations, start=1)}
    view = DirectoryView(began=0.0, host_dir=host_dir, spellings=frozenset({host_dir}), inodes=there | (inodes or {}))
    return replace(view, **changes)


ids = st.text(ALLOCATION_ID_ALPHABET, min_size=ALLOCATION_ID_LENGTH, max_size=ALLOCATION_ID_LENGTH).map(AllocationId)
"""Ids as they are drawn."""

secrets = st.text(SECRET_ALPHABET, min_size=SHORTEST_SECRET, max_size=LONGEST_SECRET).map(Secret)
"""Secrets as they are drawn."""

random_draws = st.builds(Draw, id=ids, secret=secrets)

pools = st.builds(
    Pool,
    resource=st.sampled_from((RESOURCE, ResourceName("example.com/fast"))),
    capacity=st.integers(1, 20),
    device_id=st.sampled_from(("{resource}/{index}", "memif-{index}", "{index}")),
    env_suffix=st.sampled_from(("", "_FAST")),
    annotation_prefix=st.sampled_from(("io.contivpp.memif", "com.example.fast")),
    secret_delivery=st.sampled_from(SecretDelivery),
    pod_file=st.booleans(),
    pod_env_extra=st.booleans(),
    read_only_mount=st.booleans(),
)
"""Pools of every kind, small."""

owners = st.builds(
    Owner,
    uid=st.none() | st.sampled_from(("uid-1", "uid-2")).map(PodUid),
    container=st.none() | st.sampled_from(("app", "sidecar")),
    namespace=st.none() | st.sampled_from(("telco", "lab")),
    name=st.none() | st.sampled_from(("cnf", "probe")),
)
"""Owners of whom more or less is known."""


@st.composite
def requests(draw: st.DrawFn, pool: Pool) -> Sequence[Sequence[DeviceId]]:
    """Draw valid container requests of one call; different requests may name the same ids."""
    one = st.lists(st.sampled_from(list(pool.indexes)), min_size=1, max_size=5, unique=True)
    return draw(st.lists(one, min_size=1, max_size=3))
