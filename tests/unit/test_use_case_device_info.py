"""Device information follows the ledger."""

import asyncio

import pytest

from app.settings import PoolSettings
from domain.ports.sockets import DirectoryUnusable
from tests.unit.house import NOTHING, House, dev

PLACE = "/var/run/k8s.cni.cncf.io/devinfo/dp"
INFORMED = PoolSettings(device_info_dir=PLACE)
AGAIN = "device information was missing or different and was written again"


def named(index: int) -> str:
    return f"contivpp.io-memif-contivpp.io-memif-{index}-device.json"


def there(house: House) -> set[str]:
    """Return the names in the directory."""
    return set(house.device_info.directories.get(PLACE, {}))


async def settle(house: House) -> None:
    await house.container.keep_device_info()()


@pytest.fixture
async def house() -> House:
    return await House(INFORMED).recover()


async def test_nothing_is_done_unless_configured() -> None:
    house = await House().recover()
    await house.granted(dev(1))
    before = list(house.worker.asked)
    await settle(house)

    assert house.device_info.directories == {}
    assert house.worker.asked == before


async def test_the_files_are_there_with_the_answer(house: House) -> None:
    await house.allocate([dev(1), dev(2)], [dev(3)])

    assert there(house) == {named(1), named(2), named(3)}


async def test_without_them_there_is_no_answer_and_nothing_is_left(house: House) -> None:
    house.device_info.fail_next()
    with pytest.raises(DirectoryUnusable):
        await house.allocate([dev(1)])

    assert house.traces == NOTHING
    assert there(house) == set()


async def test_they_go_with_the_last_allocation_that_holds_the_device(house: House) -> None:
    first = await house.granted(dev(1))
    last = await house.granted(dev(1), dev(2))
    await house.release(last)
    await settle(house)
    assert there(house) == {named(1)}
    await house.release(first)
    await settle(house)

    assert there(house) == set()
    assert house.heard.warned == []


async def test_what_is_missing_is_written_again_and_said(house: House) -> None:
    await house.granted(dev(1))
    house.device_info.directories.clear()
    await settle(house)

    assert there(house) == {named(1)}
    assert house.heard.facts(AGAIN) == {"directory": PLACE, "files": 1}


async def test_what_a_process_that_died_left_goes_at_the_next_start(house: House) -> None:
    house.device_info.directories[PLACE] = {named(5): "", "others-device.json": ""}
    after = await House(INFORMED, after=house).recover()
    await settle(after)

    assert there(after) == {"others-device.json"}


async def test_what_is_left_after_it_was_switched_off_goes_too(house: House) -> None:
    await house.granted(dev(1))
    after = await House(after=house).recover()
    await settle(after)

    assert there(after) == set()


async def test_the_files_of_an_allocate_in_flight_stay(house: House) -> None:
    """They are there before the ledger knows of them."""
    house.device_info.directories[PLACE] = {named(1): ""}
    with house.state.allocating():
        await settle(house)
    assert there(house) == {named(1)}
    await settle(house)

    assert there(house) == set()


async def test_an_allocate_that_begins_meanwhile_comes_after(house: House) -> None:
    house.worker.hold()
    settling = asyncio.create_task(settle(house))
    await asyncio.sleep(0)
    granting = asyncio.create_task(house.granted(dev(1)))
    await asyncio.sleep(0)
    house.worker.resume()
    await asyncio.gather(settling, granting)

    assert there(house) == {named(1)}


async def test_a_directory_that_cannot_be_kept_is_said_and_hinders_nobody(house: House) -> None:
    await house.granted(dev(1))
    house.device_info.fail_next(DirectoryUnusable("read-only"))
    await settle(house)

    assert house.heard.facts("device information cannot be kept") == {"reason": "read-only"}
