"""What must be true of a node whatever has happened to it: nothing lost, nothing left.

Checked on a stand as it is, against what the kubelet double holds and what the runtime shows.
"""

import stat
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from adapters.memory.node import Container, Pod
from domain.identity import AllocationId
from domain.ledger import Standing
from tests.integration.socketless import GRACE, INTERVAL, House, Stand, allocation_in

ROUNDS: Final = 3
"""Reconciles until nothing changes any more: one to ask the kubelet, one to release, and one to spare."""

MOUNTED_AT: Final = "/run/vpp"
MODE: Final = 0o2770


class Unsound(AssertionError):
    """Something is lost, or something is left."""


def must(condition: object, text: str) -> None:
    """Fail with a text unless something is so."""
    if not condition:
        raise Unsound(text)


class Given:
    """What each container was given when it ran first, which must never change."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], tuple[str, str | None]] = {}

    def check(self, stand: Stand) -> None:
        """Compare what runs with what ran before, and remember what is new.

        A static pod that was deleted and comes back has the uid that it had, and is another pod all the same.
        """
        uids = {pod.uid for pod in (*stand.node.pods, *stand.node.orphans)}
        self._given = {key: given for key, given in self._given.items() if key[0] in uids}
        for pod, container, name in running(stand):
            now = (container.mounts[MOUNTED_AT], secret_of(stand, container, name))
            if now[1] is None:
                continue
            before = self._given.setdefault((pod.uid, container.name), now)
            must(now == before, f"path or secret of {pod.name}/{container.name} changed: {before[0]} -> {now[0]}")

    def forget(self) -> None:
        """Accept other paths and secrets from now on: nothing runs, and the kubelet's own record may be lost."""
        self._given.clear()


def running(stand: Stand) -> Iterator[tuple[Pod, Container, AllocationId]]:
    """Yield every running container that has a memif directory, of deleted pods too, with its allocation."""
    for pod in (*stand.node.pods, *stand.node.orphans):
        for container in pod.containers:
            if container.running and MOUNTED_AT in container.mounts:
                yield pod, container, allocation_in(container.mounts[MOUNTED_AT])


def secret_of(stand: Stand, container: Container, name: AllocationId) -> str | None:
    """Return the secret that a container sees, ``None`` if its file is gone with its directory."""
    given = container.env.get("MEMIF_SECRET")
    if given is not None:
        return given
    file = stand.host_dir / name / "secret"
    return file.read_text(encoding="ascii") if file.exists() else None


async def settled(stand: Stand, rounds: int = ROUNDS) -> None:
    """Let time pass and reconcile until everything that is due has been done."""
    assert stand.house is not None
    for _ in range(rounds):
        stand.clock.advance(INTERVAL + GRACE)
        await stand.house.reconcile()


async def check_started(stand: Stand) -> None:
    """Make sure that the kubelet can start everything that it has admitted."""
    for pod in tuple(stand.node.pods):
        if pod.admitted and not pod.terminal:
            await stand.node.attempt(pod)
            waiting = [container.waiting for container in pod.containers if container.waiting]
            must(pod.running, f"{pod.name} cannot be started: {waiting}")


def check_running(stand: Stand) -> None:
    """Make sure that every running container has its directory, and that we know it with the same secret."""
    house = _house(stand)
    for pod, container, name in running(stand):
        if name in forced(stand):
            continue
        what = f"{pod.name}/{container.name} ({name})"
        path = stand.host_dir / name
        must(path.is_dir(), f"{what} runs without its directory")
        must(stat.S_IMODE(path.stat().st_mode) == MODE, f"the directory of {what} has mode {path.stat().st_mode:o}")
        if name not in stand.stored():
            continue  # the kubelet has forgotten it: kept for the container's sake, whoever knows it
        must(name in house.live, f"{what} runs and is not in the ledger")
        must(str(path) == container.mounts[MOUNTED_AT], f"{what} mounts {container.mounts[MOUNTED_AT]}")
        must(
            house.live[name].secret.reveal() == secret_of(stand, container, name),
            f"the secret of {what} is not the one in the ledger",
        )


def forced(stand: Stand) -> frozenset[AllocationId]:
    """Return what an operator forced out although something may use it; whether it has a directory is nobody's care."""
    ledger = _house(stand).container.state().ledger
    return frozenset(record.allocation.id for record in ledger if record.standing is Standing.FORCED)


def check_equal(stand: Stand, *, journal_lost: bool = False, journal_behind: bool = False) -> None:
    """Make sure that disk, ledger and journal hold what the kubelet or the runtime holds, and nothing else.

    Args:
        stand: where everything that is due has been done.
        journal_lost: what only ended containers still mount is kept for their sake and may be known to nobody; if it
            is gone, nobody makes it again.
        journal_behind: its disk failed in this run of the daemon, and what is missing or too much in it is put right
            by the next.
    """
    house = _house(stand)
    used = set(stand.used())
    on_disk = set(stand.directories())
    ledger = {record.allocation.id: record.standing for record in house.container.state().ledger}
    known = used & (set(ledger) | set(stand.stored())) if journal_lost else used
    there = (known | (used & on_disk) if journal_lost else used) - forced(stand)
    on_disk -= forced(stand)
    must(on_disk == there, _difference("on disk", on_disk, "in use", there))
    must(set(ledger) == known, _difference("in the ledger", set(ledger), "in use", known))
    halves = sorted(str(each.relative_to(stand.host_dir)) for each in stand.host_dir.glob("*/.new-*"))
    must(not halves, f"files that were never finished are left: {halves}")
    strangers = {each.name for each in stand.state_dir.iterdir()} - {"state.db", "state.db-wal", "state.db-shm"}
    strangers = {each for each in strangers if ".bad" not in each}
    must(not strangers, f"files are left beside the journal: {sorted(strangers)}")
    must(Standing.RELEASING not in ledger.values(), f"something in the ledger is still being released: {ledger}")
    if journal_behind:
        return
    journal = {name: standing for name, (_, standing) in stand.journal().items()}
    must(set(journal) == known, _difference("in the journal", set(journal), "in use", known))
    must(journal == ledger, f"the journal says {journal}, and the ledger {ledger}")
    for name, (recorded, _) in stand.journal().items():
        record = house.container.state().ledger.records[name].allocation
        must(
            (recorded.secret, recorded.devices) == (record.secret, record.devices),
            f"the journal has another secret or other devices for {name} than the ledger",
        )


async def check_sound(stand: Stand, *, journal_lost: bool = False, journal_behind: bool = False) -> None:
    """Make sure that everything runs and that everything is equal, once all that is due has been done.

    The arguments are those of :func:`check_equal`.
    """
    await check_started(stand)
    await settled(stand)
    check_running(stand)
    check_equal(stand, journal_lost=journal_lost, journal_behind=journal_behind)


async def check_empty(stand: Stand) -> None:
    """Delete every pod, and make sure that nothing is left."""
    for pod in tuple(stand.node.pods):
        await stand.node.delete(pod)
    for pod in stand.node.orphans:
        await stand.node.finish(pod)
    await settled(stand)
    check_equal(stand)
    must(not stand.used(), f"the kubelet or the runtime still names {sorted(stand.used())}")


def _house(stand: Stand) -> House:
    assert stand.house is not None
    return stand.house


def _difference(one: str, first: AbstractSet[str], other: str, second: AbstractSet[str]) -> str:
    return f"only {one}: {sorted(first - second)}; only {other}: {sorted(second - first)}"
