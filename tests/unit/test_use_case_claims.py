"""Claims of containers in a reconcile: adopted when everything agrees, else counted, said once, and nothing more."""

from collections.abc import Mapping

import pytest

from domain.answer import Answer
from domain.claims import Fault
from domain.evidence import ObjectState
from domain.identity import AllocationId
from domain.ledger import Standing
from tests.unit.house import GRACE, HOST_DIR, STRANGE_ID, House, an_answer, dev

IGNORED = "a memif claim of a container is ignored; its author, or its image's, may be up to something"
FOREIGN_SECRET = "ForeignSecret0000001"


@pytest.fixture
async def house() -> House:
    return await House().recover()


def claiming(
    house: House, claim: Answer, *, uid: str = "forger", mounts: Mapping[str, str] | None = None, pod: str = "forger"
) -> str:
    """Let a container run with an answer's annotations, and with its mounts unless told otherwise."""
    sandbox = house.runtime.add_sandbox(uid=uid, namespace="telco", name=pod)
    given = {each.container_path: each.host_path for each in claim.mounts}
    return house.runtime.add_container(
        sandbox=sandbox,
        container="app",
        mounts=given if mounts is None else mounts,
        annotations=claim.annotations,
        state=ObjectState.RUNNING,
    )


def ignored(house: House) -> list[tuple[object, object]]:
    """Return which containers' claims were said to be ignored, and why."""
    return [(facts["container"], facts["fault"]) for event, facts in house.heard.warnings if event == IGNORED]


async def test_a_running_container_that_everybody_forgot_is_taken_over_with_path_and_secret(house: House) -> None:
    claiming(house, an_answer(STRANGE_ID))
    await house.reconcile()

    found = house.allocation(STRANGE_ID)
    assert found.host_socket == f"{HOST_DIR}/{STRANGE_ID}/memif.sock"
    assert found.secret.reveal() == "AdoptedSecret0000001"
    assert (found.owner.uid, found.owner.name) == ("forger", "forger")
    assert house.exists(STRANGE_ID)
    assert house.standing(STRANGE_ID) == (Standing.LIVE, Standing.LIVE)
    assert (house.measures.claims, ignored(house)) == ([], [])


async def test_a_claim_without_its_mount_is_counted_and_said_once_and_moves_nothing(house: House) -> None:
    forger = claiming(house, an_answer(STRANGE_ID), mounts={})
    for _ in range(3):
        await house.reconcile()

    assert STRANGE_ID not in house.state.ledger
    assert house.measures.claims == [Fault.NOT_MOUNTED]
    assert ignored(house) == [(forger, "not_mounted")]


async def test_a_foreign_secret_for_a_living_allocation_changes_nothing_and_is_not_shown(house: House) -> None:
    name = await house.granted(dev(1), uid="owner")
    house.runs(name, uid="owner", pod="owner")
    await house.reconcile()
    before = house.record(name)
    forger = claiming(house, an_answer(name, secret=FOREIGN_SECRET))
    await house.reconcile()

    assert house.record(name) == before
    assert ignored(house) == [(forger, "different")]
    assert FOREIGN_SECRET not in repr(house.heard.warnings)


async def test_two_pods_with_one_directory_are_both_told_of(house: House) -> None:
    forgers = [claiming(house, an_answer(STRANGE_ID), uid=uid) for uid in ("one", "two")]
    await house.reconcile()

    assert STRANGE_ID not in house.state.ledger
    assert ignored(house) == [(forger, "shared") for forger in forgers]


async def test_a_container_whose_claim_gets_another_fault_is_counted_again_and_not_said_again(house: House) -> None:
    forger = claiming(house, an_answer(STRANGE_ID), uid="one")
    other = claiming(house, an_answer(STRANGE_ID), uid="two")
    await house.reconcile()
    house.runtime.remove(other)
    house.runtime.set_state(forger, ObjectState.EXITED)
    await house.reconcile()

    assert house.measures.claims == [Fault.SHARED, Fault.SHARED, Fault.STOPPED]
    assert ignored(house) == [(forger, "shared"), (other, "shared")]


async def test_views_that_are_unknown_for_a_while_do_not_have_it_said_again(house: House) -> None:
    claiming(house, an_answer(STRANGE_ID), mounts={})
    await house.reconcile()
    house.runtime.cut()
    await house.reconcile()
    house.runtime.restore()
    house.checkpoint.lose()
    await house.reconcile()
    house.checkpoint.write()
    await house.reconcile()

    assert house.measures.claims == [Fault.NOT_MOUNTED]
    assert len(ignored(house)) == 1


async def test_a_container_that_is_gone_is_forgotten(house: House) -> None:
    """What is remembered must not grow with the pods of a node's life."""
    for _ in range(2):
        forger = claiming(house, an_answer(STRANGE_ID), mounts={})
        await house.reconcile()
        house.runtime.remove(forger)
        await house.reconcile()

    assert house.measures.claims == [Fault.NOT_MOUNTED] * 2


async def test_a_dry_run_tells_nothing(house: House) -> None:
    claiming(house, an_answer(STRANGE_ID), mounts={})
    await house.reconcile(dry_run=True)

    assert (house.measures.claims, ignored(house)) == ([], [])


async def test_a_claim_that_is_ignored_keeps_the_directory_that_it_names_and_no_longer_than_it_stands(
    house: House,
) -> None:
    """What a container carries keeps: it may be the only trace of what it mounts."""
    name: AllocationId = await house.granted(dev(1), uid="owner")
    house.forgotten("owner")
    house.another_pod_runs()
    forger = claiming(house, an_answer(name, secret=FOREIGN_SECRET), mounts={})
    house.clock.advance(GRACE + 1)
    await house.reconcile()
    assert house.exists(name)
    house.runtime.remove(forger)
    await house.reconcile()

    assert name not in house.state.ledger
