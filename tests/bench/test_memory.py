"""Resident memory: of a daemon that does nothing, of one with very many devices, and after many kubelet restarts."""

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.bench.book import Book
from tests.bench.measure import resident_mebibytes
from tests.e2e.daemon import RESOURCE, a_stand
from tests.integration.nodes import slow_readmission
from tests.integration.web import LOCALHOST, free_port

IDLE: Final = 60.0
"""Seconds."""

AT_MOST_MIB: Final = 72.0
MANY: Final = 10_000

RESTARTS, SETTLED = 500, 100
"""Restarts of the kubelet, and those of them after which allocators have found their level."""

LOOKS: Final = 25
"""Restarts that are looked at together."""

STEEPEST: Final = 4.0
"""KiB that a restart may cost."""

PART: Final = "Resident memory"


@pytest.mark.timeout(180)
async def test_devices(book: Book, warm: Mapping[str, str]) -> None:
    async with a_stand() as few, a_stand() as many:
        found = {}
        for stand, capacity in ((few, 100), (many, MANY)):
            stand.pool["capacity"] = capacity
            stand.configuration.update(
                runtime={"kind": "containerd", "endpoint": f"unix://{stand.root}/none.sock"},
                http={"listen": f"{LOCALHOST}:{free_port()}"},
                reconcile={},
            )
            found[capacity] = await stand.run(environment=warm)
            await found[capacity].registered()
        await asyncio.sleep(IDLE)
        memory = {capacity: resident_mebibytes(each.process.pid) for capacity, each in found.items()}
        for each in found.values():
            await each.stop()
    row = book.plain(PART, f"100 devices, {IDLE:.0f} s idle", memory[100], unit="MiB", limit=AT_MOST_MIB)
    book.plain(PART, f"{MANY:,} devices, {IDLE:.0f} s idle", memory[MANY], unit="MiB")

    assert row.reached


@pytest.mark.timeout(400)
async def test_kubelet_restarts(book: Book, warm: Mapping[str, str]) -> None:
    async with a_stand(timing=slow_readmission(0.0)) as stand:
        stand.pool["capacity"] = 100
        daemon = await stand.run(environment=warm)
        await daemon.registered()
        figures = []
        for restart in range(RESTARTS):
            await stand.node.restart_kubelet()
            await daemon.registered(times=restart + 2)
            await stand.node.wait_registered(RESOURCE)
            figures.append(_held(daemon.process.pid))
        await daemon.stop()
    memory = [kib for kib, _, _ in figures]
    steep = statistics.linear_regression(range(RESTARTS - SETTLED), memory[SETTLED:]).slope
    first, last = figures[SETTLED : SETTLED + LOOKS], figures[-LOOKS:]
    more = [_typical(last, column) - _typical(first, column) for column in range(3)]
    rows = (
        book.plain(PART, f"after {RESTARTS} kubelet restarts", memory[-1] / 1024, unit="MiB"),
        book.plain(PART, f"a kubelet restart, after the first {SETTLED}", steep, unit="KiB", limit=STEEPEST),
        book.plain(PART, "descriptors more than then", more[1], unit="", limit=0),
        book.plain(PART, "threads more than then", more[2], unit="", limit=0),
    )

    assert all(row.reached for row in rows)


def _typical(figures: Sequence[tuple[int, int, int]], column: int) -> float:
    """Return the median: a connection of the moment comes and goes."""
    return statistics.median(each[column] for each in figures)


def _held(pid: int) -> tuple[int, int, int]:
    """Return KiB of resident memory, descriptors and threads."""
    descriptors = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    threads = sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    return round(resident_mebibytes(pid) * 1024), descriptors, threads
