"""What the resync rules cost, which the event loop waits for: they must stay linear on any node.

A node with one allocation a pod: each has a sandbox, a container that mounts its directory and carries its annotations,
a place in the kubelet's checkpoint, and a directory.  One in twenty is over and is released, one in twenty is known to
the kubelet only and is adopted.
"""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Final

from domain.answer import answer
from domain.evidence import Evidence
from domain.identity import PodUid
from domain.ledger import Ledger
from domain.resync import Adopt, Release
from tests.bench.book import Book, Sample
from tests.unit.domain_values import a_base, a_pool, a_sandbox, an_entry, an_object, an_owner, numbered
from tests.unit.resync_scene import effects, evidence, ledger

SIZES: Final = (100, 1_000, 5_000, 10_000, 20_000)
ROUNDS: Final = 9

FULL: Final = 10_000
AT_MOST_MS: Final = 250.0
"""For a full node; in processor time, because nothing here waits."""

GROWTH: Final = 2.3
"""Times, for twice as much."""

PART: Final = "Resync rules"
POOL: Final = a_pool(capacity=20_000, device_id="{index}")


def test_plan_grows_with_the_node(book: Book) -> None:
    scenes = {size: _scene(size) for size in SIZES}
    times: dict[int, list[float]] = {size: [] for size in SIZES}
    with _no_collections():
        for _ in range(ROUNDS):
            for size, (known, seen) in scenes.items():
                times[size].append(_seconds(known, seen))
    samples = {size: Sample.of(each).times(1e3) for size, each in times.items()}
    rows = [
        book.plain(PART, f"plan, {size:,} allocations", sample, unit="ms", limit=AT_MOST_MS if size == FULL else None)
        for size, sample in samples.items()
    ]
    for small, large in pairwise(SIZES):
        if large == 2 * small:
            growth = samples[large].over(samples[small])
            rows.append(book.plain(PART, f"growth from {small:,} to {large:,}", growth, unit="x", limit=GROWTH))

    assert all(row.reached for row in rows)


def _seconds(known: Ledger, seen: Evidence) -> float:
    begun = time.process_time()
    found = effects(known, seen, (POOL,))
    used = time.process_time() - begun
    assert sum(isinstance(each, Release) for each in found) == len(known) // 19
    assert sum(isinstance(each, Adopt) for each in found) == len(known) // 19
    return used


def _scene(size: int) -> tuple[Ledger, Evidence]:
    """Return what is known and seen on a node with so many allocations."""
    everything = [
        numbered(number, pool=POOL, owner=an_owner(uid=PodUid(f"uid-{number}"), name=f"cnf-{number}"))
        for number in range(size)
    ]
    living = [each for number, each in enumerate(everything) if number % 20 != 0]
    known = [each for number, each in enumerate(everything) if number % 20 != 1]
    objects = []
    for each in living:
        given = answer(POOL, each)
        objects += [
            a_sandbox(each.owner, id=f"sandbox-{each.id}"),
            an_object(each, id=f"container-{each.id}", claimed=dict(given.annotations)),
        ]
    entries = [an_entry(replace(each), each.owner.uid, each.owner.container, POOL) for each in living]
    return ledger(*known), evidence(objects, entries, directories=[a_base(*known)])


@contextmanager
def _no_collections() -> Iterator[None]:
    """Keep the collector of garbage out of it: what it searches here is mostly the scenes, which no daemon has."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
