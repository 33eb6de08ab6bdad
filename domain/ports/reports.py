"""Telling people."""

from typing import Protocol


class Reports(Protocol):
    """Where the use cases say what an operator should know; an adapter makes log lines of it.

    * An event is a short fixed phrase; what varies is in the facts.
    * No fact is ever a secret.
    """

    def note(self, event: str, **facts: object) -> None:
        """Say something ordinary that changed."""
        ...

    def warn(self, event: str, **facts: object) -> None:
        """Say something that needs attention."""
        ...
