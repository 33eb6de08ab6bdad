"""What keeps an allocation: everything that does, where the Release rule needs only the first."""

import pytest
from hypothesis import given

from domain.evidence import Evidence
from domain.ledger import Ledger, Standing
from domain.pool import Pool
from domain.resync import Hold, Policy, Release, holds
from tests.unit.domain_values import an_entry, an_object, numbered
from tests.unit.resync_scene import BLIND, GRACE, LATE, POOL, effects, evidence, ledger
from tests.unit.test_resync_plan import POOLS, evidences, ledgers

ONE, TWO = numbered(1), numbered(2)
NOBODY = evidence()


def hold(known: Ledger, seen: Evidence, *, now: float = LATE, pool: Pool = POOL) -> Hold:
    """Return what keeps the first allocation."""
    return holds(known, seen, (pool,), grace=GRACE, now=now)[ONE.id]


def test_every_record_is_told_of_whatever_its_standing() -> None:
    known = Ledger({**ledger(ONE).records, **ledger(TWO, standing=Standing.FORCED).records})

    assert set(holds(known, NOBODY, (POOL,), grace=GRACE, now=LATE)) == {ONE.id, TWO.id}


def test_nothing_keeps_what_nobody_names_after_the_grace() -> None:
    found = hold(ledger(ONE), NOBODY)

    assert found == Hold()
    assert found.free
    assert found.reasons() == ()


def test_everybody_who_names_it_is_told() -> None:
    """A container that is restarted stands beside the one that ended."""
    objects = (an_object(ONE, id="old"), an_object(ONE, id="new"), an_object(TWO, id="another's"))
    found = hold(ledger(ONE), evidence(objects, [an_entry(ONE)]))

    assert found.reasons() == ("container:old", "container:new", "checkpoint")
    assert not found.free


def test_a_container_that_mounts_and_claims_it_is_told_once() -> None:
    claiming = an_object(ONE, id="c", claimed={"io.contivpp.memif.socket.host": ONE.host_socket})

    assert hold(ledger(ONE), evidence([claiming])).holders == ("container:c",)


@pytest.mark.parametrize(
    "seen,reason",
    [
        (evidence(BLIND), "runtime view unknown: connection refused"),
        (evidence(checkpoint=BLIND), "checkpoint view unknown: connection refused"),
        (evidence(doubted=True), "the runtime shows no pod and the kubelet does not confirm it"),
    ],
)
def test_a_view_that_is_unknown_keeps_everything(seen: Evidence, reason: str) -> None:
    found = hold(ledger(ONE), seen)

    assert found.reasons() == (reason,)
    assert not found.free


def test_the_grace_is_told_in_whole_seconds_that_are_left() -> None:
    known = ledger(ONE, touched=100.0)
    found = hold(known, NOBODY, now=118.5)

    assert found.grace == 11.5
    assert found.reasons() == ("grace 12s",)


def test_a_reading_from_before_the_grace_was_over_keeps_it_until_the_next() -> None:
    known = ledger(ONE, touched=100.0)
    found = hold(known, evidence(runtime_began=129.0, checkpoint_began=140.0), now=140.0)

    assert found.reasons() == ("grace 0s",)
    assert not found.free


def test_the_grace_is_told_also_while_it_does_not_matter() -> None:
    known = ledger(ONE, touched=100.0)

    assert hold(known, evidence([an_object(ONE, id="c")]), now=101.0).reasons() == ("container:c", "grace 29s")
    assert hold(known, evidence(BLIND), now=101.0).reasons() == (
        "runtime view unknown: connection refused",
        "grace 29s",
    )
    assert hold(known, evidence(BLIND), now=200.0).grace is None


@given(ledgers, evidences)
def test_what_nothing_keeps_is_what_the_plan_releases(known: Ledger, seen: Evidence) -> None:
    """An interrupted release is another thing: only a holder stops it."""
    free = {name for name, each in holds(known, seen, POOLS, grace=GRACE, now=1e9).items() if each.free}
    released = {each.id for each in effects(known, seen, POOLS, Policy(grace=GRACE)) if isinstance(each, Release)}
    interrupted = {each.allocation.id for each in known if each.standing is Standing.RELEASING}

    assert released - interrupted == free - interrupted
