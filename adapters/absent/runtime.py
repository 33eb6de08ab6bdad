"""A runtime of which nothing is known."""

from typing import NoReturn

from domain.ports.runtime import RuntimeUnavailable


class AbsentRuntime:
    """Keeps :class:`domain.ports.runtime.ContainerRuntime` by never answering."""

    def __init__(self, *, kind: str) -> None:
        self._kind = kind

    async def snapshot(self) -> NoReturn:
        """Say that the view is unknown."""
        raise RuntimeUnavailable(
            f"this version cannot read a container runtime of kind {self._kind} yet: nothing is released"
        )
