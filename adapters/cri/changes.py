"""When to look again: the runtime's events where it has them for everybody, and a look now and then where not."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import grpc
import grpc.aio

from adapters._pb.cri.runtime.v1 import api_pb2, api_pb2_grpc
from adapters.cri.errors import mapped, understood
from domain.ports.runtime import RuntimeUnavailable

_FEWER_THAN_ALL: Final = ("1.", "v1.")
"""How the versions begin of those containerds that give an event to one listener only: whoever listens beside the
kubelet takes some of its events."""


class Changes:
    """One listener's feed of hints.

    Args:
        stub: whom to ask; nobody else uses its channel.
        path: the runtime's socket, for messages.
        deadline: seconds for one answer.
        poll: seconds between two looks where there are no events.
    """

    def __init__(self, stub: api_pb2_grpc.RuntimeServiceStub, *, path: str, deadline: float, poll: float) -> None:
        self._stub = stub
        self._path = path
        self._deadline = deadline
        self._poll = poll

    async def hints(self) -> AsyncGenerator[None]:
        """Yield when the feed is up, and at every change from then on.

        Raises:
            RuntimeUnavailable: the runtime is not there, or not any more.
        """
        version = await self._version()
        if not (version.runtime_name == "containerd" and version.runtime_version.startswith(_FEWER_THAN_ALL)):
            async with aclosing(self._events()) as events:
                async for _ in events:
                    yield
        async with aclosing(self._looks()) as looks:
            async for _ in looks:
                yield

    async def _events(self) -> AsyncGenerator[None]:
        """Yield at the runtime's events; end if it has none.

        A runtime without events says so, as cri-dockerd does, or ends the stream at once, as CRI-O does unless it is
        told to serve them.
        """
        stream = self._stub.GetContainerEvents(api_pb2.GetEventsRequest())
        # Nothing comes until something happens.  An answer to a later question shows that this one has arrived.
        await self._version()
        yield
        some = False
        while True:
            with mapped(self._path, self._deadline):
                try:
                    event = await stream.read()
                except grpc.aio.AioRpcError as error:
                    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                        return
                    raise
            if event is grpc.aio.EOF and not some:
                return
            if event is grpc.aio.EOF:
                raise RuntimeUnavailable(f"the container runtime at {self._path} has ended its stream of events")
            some = True
            yield

    async def _looks(self) -> AsyncGenerator[None]:
        """Yield whenever a list of the containers differs from the one before.

        It costs one list a look, like a reading, but nothing follows from it unless something has changed.
        """
        before = await self._look()
        yield
        while True:
            await asyncio.sleep(self._poll)
            now = await self._look()
            if now != before:
                before = now
                yield

    async def _look(self) -> frozenset[tuple[str, int]]:
        with mapped(self._path, self._deadline):
            async with asyncio.timeout(self._deadline):
                answer = await self._stub.ListContainers(api_pb2.ListContainersRequest())
        return frozenset((each.id, each.state) for each in understood(self._path, answer).containers)

    async def _version(self) -> api_pb2.VersionResponse:
        with mapped(self._path, self._deadline):
            async with asyncio.timeout(self._deadline):
                answer = await self._stub.Version(api_pb2.VersionRequest())
        return understood(self._path, answer)
