"""How long it takes from the start of the process until the kubelet has our devices.

The runtime is not there, which is when there is nothing to read; a start with pods of its own is tested elsewhere.
"""

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import pytest

from tests.bench.book import Book, Sample
from tests.bench.measure import cpu_seconds
from tests.bench.programs import bare
from tests.e2e.daemon import RESOURCE, Stand, a_stand

ROUNDS, WARM_UP = 11, 2
BARE: str = "example.com/bare"

AT_MOST, AT_MOST_SECONDS = 4.0, 0.5
"""Times the bare plugin, and seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Seconds of one start: of the clock until modules were loaded and until registered, and of the processor."""

    imported: float
    registered: float
    cpu: float


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        made.pool["capacity"] = 100
        made.configuration["runtime"] = {"kind": "containerd", "endpoint": f"unix://{made.root}/none.sock"}
        made.configuration["reconcile"] = {}
        (made.root / "bare").mkdir()
        yield made


@pytest.mark.timeout(180)
async def test_start_until_registered(stand: Stand, book: Book, warm: Mapping[str, str]) -> None:
    ours, least = [], []
    for _ in range(WARM_UP + ROUNDS):
        least.append(await _bare(stand, warm))
        ours.append(await _ours(stand, warm))
    ours, least = ours[WARM_UP:], least[WARM_UP:]
    part = "Start"

    def rows(what: str, kind: str, unit_limit: float | None = None) -> bool:
        samples = [Sample.of([getattr(each, kind) for each in starts]).times(1e3) for starts in (ours, least)]
        return book.ratio(part, what, *samples, unit="ms", limit=unit_limit).reached

    def work(starts: list[Start]) -> Sample:
        return Sample.of([each.registered - each.imported for each in starts]).times(1e3)

    reached = rows("process start until registered", "registered", AT_MOST)
    rows("of that, until the modules are loaded", "imported")
    book.ratio(part, "of that, the work from then on", work(ours), work(least), unit="ms")
    rows("processor time of all that", "cpu")
    seconds = book.plain(
        part,
        "process start until registered",
        Sample.of([each.registered for each in ours]),
        unit="s",
        limit=AT_MOST_SECONDS,
    )

    assert reached
    assert seconds.reached


async def _ours(stand: Stand, warm: Mapping[str, str]) -> Start:
    begun = time.perf_counter()
    daemon = await stand.run(environment=warm)
    await daemon.says("starting")
    imported = time.perf_counter()
    await stand.node.wait_registered(RESOURCE)
    registered = time.perf_counter()
    cpu = cpu_seconds(daemon.process.pid)
    await daemon.kill()
    await stand.node.until(lambda: not stand.node.registered(RESOURCE))
    return Start(imported=imported - begun, registered=registered - begun, cpu=cpu)


async def _bare(stand: Stand, warm: Mapping[str, str]) -> Start:
    begun = time.perf_counter()
    async with bare("aio", stand.node.plugin_dir, stand.root / "bare", warm, resource=BARE) as started:
        await stand.node.wait_registered(BARE)
        registered = time.perf_counter()
        cpu = cpu_seconds(started.pid)
    await stand.node.until(lambda: not stand.node.registered(BARE))
    (stand.node.plugin_dir / "bare-aio.sock").unlink()
    return Start(imported=started.imported, registered=registered - begun, cpu=cpu)
