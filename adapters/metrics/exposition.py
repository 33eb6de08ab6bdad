"""The text in which metrics are given."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

from adapters.metrics.counts import Counts
from domain.figures import Figures

Render: TypeAlias = Callable[[str, Counts, Figures | None], bytes]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The format that every scraper reads."""


class Exposition:
    """Writes the metrics of the daemon and of its process.

    Args:
        version: of the program.
        counts: what happened.
    """

    def __init__(self, *, version: str, counts: Counts) -> None:
        self._version = version
        self._counts = counts
        self._render: Render | None = None

    async def __call__(self, figures: Figures | None) -> bytes:
        """Return everything.

        Args:
            figures: what is so now; ``None`` for a standby.
        """
        if self._render is None:
            # Some 30 ms, in which no Allocate must have to wait.  A thread for it alone: it is needed once.
            with ThreadPoolExecutor(1, thread_name_prefix="metrics") as once:
                self._render = await asyncio.get_running_loop().run_in_executor(once, _load)
        return self._render(self._version, self._counts, figures)


def _load() -> Render:
    from adapters.metrics.collector import render  # noqa: PLC0415 -- loads prometheus_client

    return render
