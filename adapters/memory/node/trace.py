"""What happened between the embedded kubelet and its peers, and how to wait for it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from domain.ports.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One thing that crossed a socket.

    Attributes:
        at: monotonic seconds, when it was over (a stream's messages: when they came).
        rpc: the method, such as ``Allocate``.
        resource: the resource that it is about, empty for calls to pod-resources.
        ids: the devices that it names.
        what: ``open``, ``list`` or ``end`` of a ListAndWatch, else empty.
        answer: ``ok``, or the error in the kubelet's words.
    """

    at: float
    rpc: str
    resource: str = ""
    ids: tuple[str, ...] = ()
    what: str = ""
    answer: str = "ok"


class Trace:
    """The calls so far, in order; whoever waits for something is woken at each change."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()
        self.calls: list[Call] = []

    def note(
        self,
        rpc: str,
        *,
        resource: str = "",
        ids: tuple[str, ...] = (),
        what: str = "",
        answer: str = "ok",
    ) -> None:
        """Record a call and wake whoever waits."""
        self.calls.append(
            Call(at=self._clock.monotonic(), rpc=rpc, resource=resource, ids=ids, what=what, answer=answer)
        )
        self.changed()

    def changed(self) -> None:
        """Wake whoever waits: something of the node's state is different."""
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, condition: Callable[[], bool], within: float) -> None:
        """Wait until a condition on the node's state holds.

        Raises:
            TimeoutError: it does not hold after so many seconds of real time.
        """
        async with asyncio.timeout(within):
            while not condition():
                await self._event.wait()
