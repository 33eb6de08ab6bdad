"""The grant rule: which requests are granted, and as what.

A grant never destroys an earlier one.  The kubelet gives an init container's devices to a later container of the same
pod and calls Allocate for all of them before any starts, and after a forced deletion an id comes back while the old
container still runs; so the same id granted twice lives twice, each time with a directory and a secret of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from domain.allocation import Allocation
from domain.answer import Answer, answer, files
from domain.errors import MemifError
from domain.identity import AllocationId, DeviceId
from domain.ledger import Ledger
from domain.pool import Pool
from domain.secret import Secret


class RequestRefused(MemifError):
    """Root of the reasons for which a request is refused before anything is done."""


class NothingAsked(RequestRefused):
    """A call without requests, or a request without device ids."""

    def __init__(self, resource: str) -> None:
        super().__init__(f"a container request for {resource} names no device id")


class DeviceAskedTwice(RequestRefused):
    """One request names one id twice."""

    def __init__(self, device: DeviceId) -> None:
        super().__init__(f"device id {device!r} is named twice in one container request")
        self.device = device


class UnknownDevice(RequestRefused):
    """An id that the pool never advertised."""

    def __init__(self, device: str, resource: str, capacity: int) -> None:
        super().__init__(f"device id {device!r} is not one of the {capacity} devices of {resource}")
        self.device = device


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """The random part of one allocation: an unused id and a secret, drawn apart from each other."""

    id: AllocationId
    secret: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """All container requests of one call, granted: one allocation and one answer each, in the order of the requests.

    To be carried out all or none: every allocation in the journal and every directory on disk, before the answer.
    """

    allocations: tuple[Allocation, ...]
    answers: tuple[Answer, ...]


def check(pool: Pool, requests: Sequence[Sequence[str]]) -> tuple[tuple[DeviceId, ...], ...]:
    """Return the ids of each request in index order.

    Raises:
        NothingAsked: no request at all, or an empty one.
        UnknownDevice: an id that is not the pool's.
        DeviceAskedTwice: an id twice in one request.
    """
    if not requests:
        raise NothingAsked(pool.resource)
    return tuple(_checked(pool, request) for request in requests)


def plan(
    pool: Pool, requests: Sequence[Sequence[str]], ledger: Ledger, draws: Sequence[Draw], *, now: datetime
) -> Grant:
    """Decide what the requests of one Allocate are granted.

    Args:
        pool: the pool that was asked.
        requests: device ids of each container request, in any order.
        ledger: what lives already; it is only consulted so that no id is used twice.
        draws: one draw a request.
        now: wall-clock time in UTC.

    Raises:
        RequestRefused: see :func:`check`; nothing is granted then, whatever the other requests were.
        ValueError: a draw too few or too many, or one whose id is in use: a mistake of the caller.
    """
    asked = check(pool, requests)
    if len({draw.id for draw in draws if draw.id not in ledger}) != len(asked) or len(draws) != len(asked):
        msg = "one unused draw is needed for each request"
        raise ValueError(msg)
    allocations = tuple(
        Allocation(
            id=draw.id,
            resource=pool.resource,
            devices=devices,
            host_dir=pool.host_dir,
            container_dir=pool.container_dir,
            socket_name=pool.socket_name,
            rules=pool.directory,
            secret=draw.secret,
            granted=now,
            secret_delivery=pool.secret_delivery,
            files=files(pool, devices, draw.secret),
        )
        for devices, draw in zip(asked, draws, strict=True)
    )
    return Grant(allocations=allocations, answers=tuple(answer(pool, each) for each in allocations))


def _checked(pool: Pool, request: Sequence[str]) -> tuple[DeviceId, ...]:
    if not request:
        raise NothingAsked(pool.resource)
    seen: set[DeviceId] = set()
    for name in request:
        device = DeviceId(name)
        if device not in pool.indexes:
            raise UnknownDevice(name, pool.resource, pool.capacity)
        if device in seen:
            raise DeviceAskedTwice(device)
        seen.add(device)
    return tuple(sorted(seen, key=pool.indexes.__getitem__))
