"""Health of a pool's devices, held steady.

Devices turn unhealthy only for troubles that no pod can cause (a base directory that is missing, read-only or not ours,
a journal that cannot be written), or one tenant could take the devices of all others away.  A trouble must be seen
twice in a row before it counts, and be gone twice before it does not any more: each change is a device list to the
kubelet and a node status to the API server.
"""

from dataclasses import dataclass
from typing import Final

STEADY: Final = 2
"""Equal observations in a row that make a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The health of one pool as it counts now, and what speaks against it.

    Attributes:
        trouble: why the devices are unhealthy, ``None`` while they are healthy.
        seen: the last observation, if it differs in kind from what counts.
        times: how often in a row it was seen.
    """

    trouble: str | None = None
    seen: str | None = None
    times: int = 0

    @property
    def healthy(self) -> bool:
        """Whether the devices are healthy."""
        return self.trouble is None

    def after(self, seen: str | None) -> "Pulse":
        """Return the health after one more observation: a trouble, or ``None`` for none."""
        if (seen is None) == self.healthy:
            return Pulse(trouble=seen)  # the same kind; of a trouble, the newest words count
        times = self.times + 1
        if times >= STEADY:
            return Pulse(trouble=seen)
        return Pulse(trouble=self.trouble, seen=seen, times=times)
