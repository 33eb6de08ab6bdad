"""The node's clock."""

import time
from datetime import UTC, datetime


class SystemClock:
    """A :class:`~domain.ports.clock.Clock` that reads the kernel's clocks."""

    def monotonic(self) -> float:
        """See the port."""
        return time.monotonic()

    def now(self) -> datetime:
        """See the port."""
        return datetime.now(UTC)
