"""The container runtime."""

from typing import Protocol

from domain.errors import MemifError
from domain.evidence import RuntimeView


class RuntimeUnavailable(MemifError):
    """The runtime does not answer, or answers what we do not understand: its view is unknown."""


class ContainerRuntime(Protocol):
    """What still exists on the node.

    * One snapshot names every sandbox and container that still exists, in any state.
    * A snapshot has a deadline; one that fails is an error, never an empty or partial answer.
    * Its ``began`` is taken before the first question to the runtime.
    """

    async def snapshot(self) -> RuntimeView:
        """Return everything that exists.

        Raises:
            RuntimeUnavailable: the view is unknown.
        """
        ...
