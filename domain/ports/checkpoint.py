"""The kubelet's own record of what it handed out."""

from typing import Protocol

from domain.evidence import CheckpointView, Unknown


class Checkpoint(Protocol):
    """The kubelet's device checkpoint, read-only.

    A plain blocking call, made by the storage worker only.

    * It names what the kubelet can still mount, plain init containers included, with our answer.
    * Missing, unreadable or not understood is :class:`~domain.evidence.Unknown` with the reason; never an exception,
      never an empty view.
    * Entries of other plugins' resources are there too; their answers are not ours to interpret.
    """

    def read(self) -> CheckpointView | Unknown:
        """Read the file as it is now."""
        ...
