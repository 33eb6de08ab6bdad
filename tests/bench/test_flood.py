"""What an Allocate takes, and the daemon grows, while every socket is flooded: see :mod:`tests.e2e.flood`."""

from typing import Final

import pytest

from tests.bench.book import Book, Sample
from tests.bench.measure import percentile
from tests.e2e.daemon import a_stand
from tests.e2e.flooded import DESCRIPTORS, flooding, kubelet, limited, used

SECONDS: Final = 60.0
ALONE: Final = 10.0
SLOWEST: Final = 200.0
"""Milliseconds at p99."""

GROWTH: Final = 20.0
"""MiB."""


@pytest.mark.timeout(300)
async def test_flood(book: Book) -> None:
    async with a_stand() as stand:
        daemon = await limited(stand)
        async with kubelet(stand) as client:
            before = await used(client, daemon, ALONE)
            async with flooding(stand):
                seen = await used(client, daemon, SECONDS)
    part = f"A flood at every socket, {SECONDS:.0f} s, {DESCRIPTORS} descriptors"
    book.ratio(
        part,
        "Allocate p50, beside none",
        Sample.of([percentile(seen.allocates, 50)]).times(1e3),
        Sample.of([percentile(before.allocates, 50)]).times(1e3),
        unit="ms",
    )
    rows = (
        book.plain(part, "Allocate p99", percentile(seen.allocates, 99) * 1e3, unit="ms", limit=SLOWEST),
        book.plain(part, "growth", max(seen.resident) - before.resident[-1], unit="MiB", limit=GROWTH),
        book.plain(part, "descriptors", float(max(seen.descriptors)), unit="", limit=float(DESCRIPTORS)),
    )

    assert all(row.reached for row in rows)
