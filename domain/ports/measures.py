"""Counting what happens."""

from enum import StrEnum
from typing import Protocol

from domain.claims import Fault
from domain.resource import ResourceName


class ReleasedBy(StrEnum):
    """What let an allocation go; these few values label a metric."""

    RULE = "rule"
    """The Release rule, in a reconcile."""
    REQUEST = "request"
    """Somebody who said that its pod is gone, and the same rule agreed."""
    FORCE = "force"
    """An operator, whatever the rule says."""


class Measures(Protocol):
    """Where the use cases say how often and how fast.

    * Counting never fails, never waits and does no I/O: it stands on the way of an Allocate.
    * Nothing that a pod or a tenant named is ever counted by: every label has few values, known beforehand.
    * It belongs to the event loop, like the ledger.
    """

    def allocated(self, resource: ResourceName, *, ok: bool, seconds: float) -> None:
        """Count an Allocate call that was answered, refused or given up, and how long it took."""
        ...

    def reconciled(self, *, ok: bool, seconds: float) -> None:
        """Count a reconcile that was meant to change something, and how long it took."""
        ...

    def released(self, resource: ResourceName, by: ReleasedBy) -> None:
        """Count an allocation that is gone."""
        ...

    def orphan_removed(self, resource: ResourceName) -> None:
        """Count a directory that belonged to nobody and was swept from the base directory of a pool."""
        ...

    def claim_rejected(self, fault: Fault) -> None:
        """Count what a container claims about itself and is ignored."""
        ...

    def reloaded(self, *, ok: bool) -> None:
        """Count an attempt to take over a changed configuration."""
        ...
