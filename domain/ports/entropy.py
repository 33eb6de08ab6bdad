"""Randomness."""

from typing import Protocol

from domain.identity import AllocationId
from domain.secret import Secret


class Entropy(Protocol):
    """The node's secure source of random names and secrets.

    * Ids are well formed and drawn from the alphabet of new ids.
    * Secrets have the asked length and are drawn apart from ids, because an id is visible to the pod in its mounts.
    """

    def allocation_id(self) -> AllocationId:
        """Draw a new id."""
        ...

    def secret(self, length: int) -> Secret:
        """Draw a new secret of so many characters."""
        ...
