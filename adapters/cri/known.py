"""What is known of the things that exist.

Labels, annotations and mounts are given to a sandbox or container when it is made and never change; only its state
does.  So each is translated once in its life, and a container of ours is asked for its mounts once.  On a node with
hundreds of containers a reading then costs little more than the lists themselves.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import grpc
import grpc.aio

from adapters._pb.cri.runtime.v1 import api_pb2, api_pb2_grpc
from adapters.cri import translate
from domain.evidence import ObjectState, RuntimeObject

IN_FLIGHT: Final = 8
"""Calls at a time: quick after a start on a full node, and no burst that a busy runtime would feel."""


class KnownSandboxes:
    """Remembers the sandboxes of the last reading."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes
        self._known: dict[str, RuntimeObject] = {}

    def of(self, listed: Sequence[api_pb2.PodSandbox]) -> tuple[RuntimeObject, ...]:
        """Return what was listed, and forget everything else."""
        before = self._known
        found = {}
        for item in listed:
            name = item.id
            thing = before.get(name)
            found[name] = (
                translate.sandbox(item, self._prefixes)
                if thing is None
                else _in_state(thing, translate.sandbox_state(item))
            )
        self._known = found
        return tuple(found.values())


class KnownContainers:
    """Remembers the containers of the last reading.

    A container whose mounts cannot be had now is shown without, which what it carries makes up for, and asked for
    again in the next reading: one bad container (cri-dockerd fails on one whose image is gone, and a runtime may hang
    on one) spoils no reading.  One that has vanished since it was listed is left out.
    """

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes
        self._known: dict[str, RuntimeObject] = {}

    async def of(
        self, stub: api_pb2_grpc.RuntimeServiceStub, listed: Sequence[api_pb2.Container], *, budget: float
    ) -> tuple[RuntimeObject, ...]:
        """Return what was listed, asking for the mounts of what is new, and forget everything else.

        Args:
            stub: whom to ask.
            listed: the containers that exist.
            budget: seconds to wait for mounts at most.
        """
        before = self._known
        found: dict[str, RuntimeObject] = {}
        unsure: dict[str, RuntimeObject] = {}
        for item in listed:
            name = item.id
            thing = before.get(name)
            if thing is not None:
                found[name] = _in_state(thing, translate.container_state(item))
                continue
            found[name] = thing = translate.container(item, self._prefixes)
            if thing.claimed:
                unsure[name] = thing
        if unsure:
            for name, mounts in (await _mounts(stub, unsure, budget=budget)).items():
                if mounts is None:
                    del found[name]
                else:
                    found[name] = replace(unsure[name], mounts=mounts)
                del unsure[name]
        self._known = {name: thing for name, thing in found.items() if name not in unsure}
        return tuple(found.values())


def _in_state(thing: RuntimeObject, state: ObjectState) -> RuntimeObject:
    return thing if thing.state is state else replace(thing, state=state)


async def _mounts(
    stub: api_pb2_grpc.RuntimeServiceStub, containers: Iterable[str], *, budget: float
) -> dict[str, Mapping[str, str] | None]:
    """Ask what containers mount; ``None`` for one that is gone.  Who gives no answer in time is left out."""
    found: dict[str, Mapping[str, str] | None] = {}
    pending = iter(tuple(containers))

    async def ask() -> None:
        for name in pending:
            try:
                answer = await stub.ContainerStatus(api_pb2.ContainerStatusRequest(container_id=name))
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    found[name] = None
                continue
            except grpc.aio.BaseError:
                continue
            if answer is not None:  # what gRPC makes of an answer that it cannot decode
                found[name] = translate.mounts(answer.status.mounts)

    with suppress(TimeoutError):
        async with asyncio.timeout(budget), asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(ask())
    return found
