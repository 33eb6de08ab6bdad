"""Adoption: taking over what the kubelet will mount."""

import asyncio

import pytest

from app.settings import PoolSettings
from domain.evidence import Unknown
from domain.ledger import Standing
from domain.pool import SecretDelivery
from domain.ports.sockets import DirectoryUnusable
from tests.unit.house import FAST, NOTHING, OTHER, STRANGE_ID, House, a_directory, an_answer, dev

FILE = PoolSettings(secret_delivery=SecretDelivery.FILE)


@pytest.fixture
async def house() -> House:
    return await House().recover()


async def test_an_entry_is_taken_over_with_its_id_path_secret_ids_uid_and_container(house: House) -> None:
    house.store(an_answer(STRANGE_ID), dev(63), dev(7), uid="uid-9", container="main")
    await house.container.adopt().from_checkpoint()

    taken = house.allocation(STRANGE_ID)
    assert taken.host_socket == f"/var/run/contiv/memif/{STRANGE_ID}/memif.sock"
    assert taken.secret.reveal() == "AdoptedSecret0000001"
    assert taken.devices == (dev(7), dev(63))
    assert house.journal.contents[STRANGE_ID] == (taken, Standing.LIVE)
    assert house.record(STRANGE_ID).touched == house.clock.monotonic()
    assert house.heard.facts("adopted") == {
        "reason": "the kubelet's checkpoint names it",
        "allocation": STRANGE_ID,
        "resource": "contivpp.io/memif",
        "devices": [dev(7), dev(63)],
        "uid": "uid-9",
        "container": "main",
    }


async def test_a_missing_directory_is_made_and_one_that_exists_is_mended(house: House) -> None:
    inode = house.sockets.replace(a_directory(STRANGE_ID))
    house.store(an_answer(STRANGE_ID), dev(1))
    await house.container.adopt().from_checkpoint()

    assert house.record(STRANGE_ID).inode == inode
    assert house.sockets.mode(a_directory(STRANGE_ID)) == 0o2770


async def test_a_second_reading_adopts_nothing_again(house: House) -> None:
    house.store(an_answer(STRANGE_ID), dev(1))
    await house.container.adopt().from_checkpoint()
    before = house.record(STRANGE_ID)
    house.clock.advance(5)
    await house.container.adopt().from_checkpoint()

    assert house.record(STRANGE_ID) == before
    assert house.heard.noted.count("adopted") == 1


async def test_two_readings_at_once_adopt_once() -> None:
    """A look-up and a starting container meet; with a secret to be read from its file both wait in between."""
    house = await House(FILE).recover()
    house.store(an_answer(STRANGE_ID, secret=None), dev(1))
    adopt = house.container.adopt()
    await asyncio.gather(adopt.from_checkpoint(), adopt.from_checkpoint())

    assert house.traces.ledger == house.traces.journal == {STRANGE_ID}
    assert house.heard.noted.count("adopted") == 1


@pytest.mark.parametrize("standing", [Standing.RELEASING, Standing.FORCED])
async def test_a_record_on_its_way_out_is_not_brought_back(house: House, standing: Standing) -> None:
    """Force removes an allocation although the kubelet still names it; only a starting container revives it."""
    name = await house.granted(dev(1))
    house.stand(name, standing)
    await house.container.adopt().from_checkpoint()

    assert house.standing(name) == (standing, standing)


async def test_the_secret_comes_from_the_directory_where_it_is_delivered_so() -> None:
    house = await House(FILE).recover()
    house.sockets.make(a_directory(STRANGE_ID))
    house.sockets.put(a_directory(STRANGE_ID), "secret", "FromTheFile000000001")
    house.store(an_answer(STRANGE_ID, secret=None), dev(1))
    await house.container.adopt().from_checkpoint()

    assert house.allocation(STRANGE_ID).secret.reveal() == "FromTheFile000000001"
    assert house.journal.durable == {STRANGE_ID}  # the file is in memory, and the kubelet does not have it
    assert "FromTheFile" not in repr((house.heard.notes, house.heard.warnings))


@pytest.mark.parametrize("content", [None, "", "two words", "x" * 24])
async def test_a_secret_file_that_is_gone_or_nonsense_is_replaced_and_reported(content: str | None) -> None:
    house = await House(FILE).recover()
    house.sockets.make(a_directory(STRANGE_ID))
    if content is not None:
        house.sockets.put(a_directory(STRANGE_ID), "secret", content)
    house.store(an_answer(STRANGE_ID, secret=None), dev(1))
    await house.container.adopt().from_checkpoint()

    secret = house.allocation(STRANGE_ID).secret.reveal()
    assert len(secret) == 20
    assert house.sockets.read(a_directory(STRANGE_ID), "secret") == secret
    assert house.heard.warned[0].startswith("the secret file of an adopted allocation is gone; a new secret was made")
    assert secret not in repr(house.heard.warnings)


async def test_a_secret_that_cannot_be_read_now_postpones_the_adoption_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new secret would cut off what lives with the old one."""

    def dead(_: object, name: str) -> str | None:
        raise DirectoryUnusable(f"{name}: its mount does not answer")

    house = await House(FILE).recover()
    house.sockets.make(a_directory(STRANGE_ID))
    house.sockets.put(a_directory(STRANGE_ID), "secret", "FromTheFile000000001")
    house.store(an_answer(STRANGE_ID, secret=None), dev(1))
    with monkeypatch.context() as patch:
        patch.setattr(house.sockets, "read", dead)
        await house.container.adopt().from_checkpoint()
    assert STRANGE_ID not in house.traces.ledger | house.traces.journal
    assert house.heard.warned == ["an allocation is not adopted yet"]
    await house.container.adopt().from_checkpoint()

    assert house.allocation(STRANGE_ID).secret.reveal() == "FromTheFile000000001"


async def test_a_directory_that_cannot_be_had_is_reported_and_the_allocation_is_ours_all_the_same(
    house: House,
) -> None:
    house.store(an_answer(STRANGE_ID), dev(1))
    house.sockets.fail_next(DirectoryUnusable("a stranger's"))
    await house.container.adopt().from_checkpoint()

    assert house.record(STRANGE_ID).inode is None
    assert house.heard.facts("the directory of an adopted allocation cannot be had") == {
        "allocation": STRANGE_ID,
        "reason": "a stranger's",
    }


async def test_entries_of_others_and_contradictory_ones_are_left_alone(house: House) -> None:
    house.store(an_answer(STRANGE_ID), dev(1), resource=OTHER)
    house.store(an_answer(STRANGE_ID, secret=None), dev(2), uid="uid-2")
    house.store(an_answer(STRANGE_ID, host_dir="/etc"), dev(3), uid="uid-3")
    await house.container.adopt().from_checkpoint()

    assert house.traces == NOTHING


async def test_an_unknown_checkpoint_is_remembered_as_unknown_and_adopts_nothing(house: House) -> None:
    house.checkpoint.lose("it is gone")
    view = await house.container.adopt().from_checkpoint()

    assert view == house.state.checkpoint == Unknown("it is gone")
    assert house.traces == NOTHING


async def test_an_answer_of_a_pool_as_it_was_before_is_recognised() -> None:
    """The operator moved the pool; the kubelet still replays answers with the old place."""
    before = await House(PoolSettings(host_dir="/var/run/old"), FAST).recover()
    after = await House(PoolSettings(), FAST, after=before).recover()
    after.store(an_answer(STRANGE_ID, host_dir="/var/run/old"), dev(1))
    await after.container.adopt().from_checkpoint()

    assert after.allocation(STRANGE_ID).host_dir == "/var/run/old"
    assert after.sockets.exists(a_directory(STRANGE_ID, "/var/run/old"))
