"""Device information files as Multus finds them, from the first grant to the last release, crashes included."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.daemon import RESOURCE, Stand, a_stand, dev, soon
from tests.integration.nodes import app, init, pod


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        made.pool["device_info_dir"] = str(place(made))
        yield made


def place(stand: Stand) -> Path:
    return stand.root / "devinfo" / "dp"


def names(stand: Stand) -> set[str]:
    return {each.name for each in place(stand).iterdir()} if place(stand).exists() else set()


def named(device: str) -> str:
    return f"{RESOURCE}-{device}-device.json".replace("/", "-")


async def test_every_device_of_a_pod_has_one_when_it_is_admitted(stand: Stand) -> None:
    daemon = await stand.registered()
    one = await stand.node.start(pod("one", init("setup", 1, RESOURCE), app("a", 2, RESOURCE)))
    held = {device for by in stand.node.devices_of(one).values() for device in by[RESOURCE]}

    assert names(stand) >= {named(device) for device in held}
    for device in held:
        assert json.loads((place(stand) / named(device)).read_text(encoding="utf-8")) == {
            "type": "memif",
            "version": "1.1.0",
            "memif": {"role": "slave", "path": one.container("a").env["MEMIF_SOCKET"], "mode": "ethernet"},
        }
    assert daemon.warnings == []


async def test_it_is_repaired_and_goes_with_the_pod_and_others_files_stay(stand: Stand) -> None:
    daemon = await stand.registered()
    one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
    (name,) = names(stand)
    (place(stand) / "sriov-device.json").write_text("theirs", encoding="utf-8")
    (place(stand) / name).write_text("nonsense", encoding="utf-8")
    await daemon.says("device information was missing or different and was written again")
    assert "memif" in (place(stand) / name).read_text(encoding="utf-8")
    await stand.node.delete(one)
    await soon(lambda: names(stand) == {"sriov-device.json"})
    await soon(lambda: stand.directories == set())


async def test_what_a_crash_left_is_put_right_at_the_next_start(stand: Stand) -> None:
    daemon = await stand.registered()
    await stand.node.start(pod("one", app("a", 1, RESOURCE)))
    (name,) = names(stand)
    await daemon.kill()
    (place(stand) / name).unlink()
    orphan = named(dev(7)) if name != named(dev(7)) else named(dev(6))
    (place(stand) / orphan).write_text("of a grant that nobody was told of", encoding="utf-8")
    await stand.registered()

    assert names(stand) == {name}


async def test_a_directory_that_cannot_be_trusted_fails_the_pod_with_the_reason(stand: Stand) -> None:
    place(stand).mkdir(parents=True)
    place(stand).chmod(0o777)
    await stand.registered()
    one = await stand.node.admit(pod("one", app("a", 1, RESOURCE)))

    assert "so others could write what Multus tells pods" in one.message
    assert stand.directories == set()
    await asyncio.to_thread(place(stand).chmod, 0o755)
    two = await stand.node.start(pod("two", app("a", 1, RESOURCE)))
    assert two.running
