"""A loss of power: what was not on the disk yet is gone, of the journal and of the kubelet's file.

A short life of a node is lived, and every state that the journal and the kubelet's file had in it is kept.  Then the
node comes up with each state of the one and each of the other, its base directory kept, as on a disk, or empty, as in
memory.  The journal never falls behind what was synced, which is each grant where secrets are delivered by file: or the
secret would be lost with the directory.  Whatever the kubelet still knows keeps its path and its secret.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Final

import pytest

from adapters.kubelet.checkpoint import parse
from adapters.memory.node import PodSpec
from domain.identity import AllocationId
from tests.integration.crash import Power, frozen, powered, thaw
from tests.integration.nodes import app, init, pod
from tests.integration.places import memory_place
from tests.integration.socketless import GRACE, INTERVAL, RESOURCE, Stand
from tests.integration.soundness import check_empty, check_sound, running, secret_of

PODS: Final[tuple[PodSpec, ...]] = (
    pod("first", init("setup", 1, RESOURCE), app("a", 1, RESOURCE)),
    pod("second", app("a", 2, RESOURCE)),
)


@dataclass(slots=True)
class Past:
    """Every state that the two files had and a loss of power may bring back, oldest first.

    Attributes:
        synced: whether the last commit is on the disk, and with it all before.
    """

    journals: list[dict[str, bytes]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    synced: bool = False


@pytest.fixture(scope="module")
def power() -> Iterator[Power]:
    with powered() as made:
        yield made


async def lived(stand: Stand) -> Past:
    """Live: two pods come, the first goes and is released, a third comes under its name."""
    past = Past()

    def journal(durable: bool) -> None:  # noqa: FBT001 -- a callback with one argument
        keep()
        past.synced = past.synced or durable

    def keep() -> None:
        """Note the states as they are, if they are new; a commit is noted when the next one comes."""
        if past.synced:
            past.journals.clear()
            past.synced = False
        now = frozen(stand.state_dir)
        if "state.db" in now and now not in past.journals:
            past.journals.append(now)
        path = stand.node.checkpoint_path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if text and text not in past.files:
            past.files.append(text)

    stand.power.committing = journal
    await stand.start_kubelet()
    house = await stand.run()
    keep()
    pods = []
    for each in PODS:
        pods.append(await stand.node.admit(each))
        keep()
        await stand.node.attempt(pods[-1])
        await house.reconcile()
    await stand.node.delete(pods[0])
    for _ in range(3):
        stand.clock.advance(INTERVAL + GRACE)
        await house.reconcile()
        keep()
    assert len(stand.directories()) == 1
    await stand.node.attempt(await stand.node.admit(PODS[0]))
    await house.reconcile()
    keep()
    stand.power.committing = lambda durable: None  # noqa: ARG005
    return past


def given(stand: Stand) -> dict[tuple[str, str], tuple[AllocationId, str | None]]:
    """Return which allocation each container that runs was given, and the secret that it sees."""
    return {
        (one.uid, container.name): (name, secret_of(stand, container, name)) for one, container, name in running(stand)
    }


async def lost(stand: Stand, journal: dict[str, bytes], file: str, *, keep: bool) -> None:
    """Come up again with the files as they were at some time."""

    def disks() -> None:
        thaw(stand.state_dir, journal)
        stand.node.checkpoint_path.write_text(file, encoding="utf-8")
        if not keep:
            stand.empty()

    await stand.reboot(disks)


async def different(power: Power, delivery: str) -> tuple[list[int], list[int]]:
    """Return the places of the states that tell something else than the one before, of journal and file."""
    with memory_place() as root:
        stand = Stand(root, power, secret_delivery=delivery)
        try:
            past = await lived(stand)
            stand.stop()
            journals = []
            for each in past.journals:
                thaw(stand.state_dir, each)
                journals.append(repr(stand.journal()))
        finally:
            await stand.close()
            power.reset()
    files = [repr(sorted((each.uid, each.container) for each in parse(text.encode()))) for text in past.files]
    return _new(journals), _new(files)


def _new(states: list[str]) -> list[int]:
    return [place for place, state in enumerate(states) if place == 0 or states[place - 1] != state]


@pytest.mark.parametrize("keep", [False, True], ids=["in memory", "on a disk"])
@pytest.mark.parametrize("delivery", ["env", "file"])
async def test_nothing_is_lost_and_nothing_is_left(power: Power, delivery: str, *, keep: bool) -> None:
    """Every state of the one file with every state of the other."""
    journals, files = await different(power, delivery)
    for journal, file in product(journals, files):
        with memory_place() as root:
            stand = Stand(root, power, secret_delivery=delivery)
            try:
                past = await lived(stand)
                before = given(stand)
                still_stored = {name for each in parse(past.files[file].encode()) for name in each.named()}
                await lost(stand, past.journals[journal], past.files[file], keep=keep)
                await check_sound(stand)
                after = given(stand)
                assert after.keys() == before.keys()
                kept = {key: what for key, what in before.items() if what[0] in still_stored}
                assert after.items() >= kept.items()
                await check_empty(stand)
            finally:
                await stand.close()
                power.reset()

    assert len(journals) >= (3 if delivery == "file" else 12)
    assert len(files) >= 5
