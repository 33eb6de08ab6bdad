"""The container runtime."""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Protocol

from domain.errors import MemifError
from domain.evidence import RuntimeView


class RuntimeUnavailable(MemifError):
    """The runtime does not answer, or answers what we do not understand: its view is unknown."""


class AnswerTooLarge(RuntimeUnavailable):
    """The runtime cannot say by this API what it has to: a tenant's container is larger than one of its messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeIdentity:
    """Which runtime answers.

    Attributes:
        kind: docker, containerd, cri or memory.
        version: in the runtime's own words.
    """

    kind: str
    version: str


class ContainerRuntime(Protocol):
    """What still exists on the node.

    * One snapshot names every sandbox and container that still exists, in any state; what the runtime calls dead or
      removing does not exist any more.
    * A snapshot has a deadline; one that fails is an error, never an empty or partial answer.
    * Its ``began`` is taken before the first question to the runtime.
    * What a container carries is given on unjudged; whose data it is, the domain knows.
    * After the runtime was away, the next call works again by itself.
    """

    async def snapshot(self) -> RuntimeView:
        """Return everything that exists.

        Raises:
            RuntimeUnavailable: the view is unknown.
        """
        ...

    async def identity(self) -> RuntimeIdentity:
        """Return which runtime answers now.

        Raises:
            RuntimeUnavailable: none does.
        """
        ...

    def changes(self) -> AsyncIterator[None]:
        """Yield whenever something may have come, gone or changed its state since the last time.

        Hints only: several changes may be one of them, and what was missed while the feed was down shows in the next
        snapshot.  The first hint comes as soon as the feed is up.

        Raises:
            RuntimeUnavailable: the feed broke, or there is none; a new one may be asked for.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections; the runtime is not used afterwards."""
        ...


class PartlyReadable(ContainerRuntime, Protocol):
    """A runtime that can leave out of an answer what is known already, and what would make it too large."""

    async def besides(self, ids: Collection[str]) -> RuntimeView:
        """Return everything that exists but the objects of these ids, of which nothing is transferred.

        Raises:
            RuntimeUnavailable: the view is unknown.
        """
        ...
