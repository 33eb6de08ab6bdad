"""Claims in the resync rules: last of all, and only where both views are known."""

from dataclasses import replace

from domain.allocation import Owner
from domain.answer import answer
from domain.claims import Fault
from domain.evidence import CheckpointView, Evidence, ObjectState, RuntimeObject, RuntimeView, Unknown
from domain.ledger import Ledger, Standing
from domain.resync import Adopt, Effect, Policy, Release, plan, rejections
from tests.unit.domain_values import (
    NOW,
    a_base,
    a_checkpoint,
    a_pool,
    a_runtime,
    an_allocation,
    an_entry,
    an_object,
)

ONE = an_allocation()
CLAIMANT = an_object(ONE, claimed=answer(a_pool(), ONE).annotations)


def planned(
    *objects: RuntimeObject,
    ledger: Ledger | None = None,
    checkpoint: CheckpointView | Unknown | None = None,
    runtime: RuntimeView | Unknown | None = None,
    first_seen: float | None = None,
) -> tuple[Effect, ...]:
    evidence = Evidence(
        runtime=runtime or a_runtime(*objects, began=100),
        checkpoint=checkpoint or a_checkpoint(began=100),
        directories=(a_base(ONE),),
        first_seen={} if first_seen is None else {ONE.directory.path: first_seen},
    )
    return plan(ledger or Ledger(), evidence, (a_pool(),), Policy(grace=30), now=NOW)


def adopted(*effects: Effect) -> list[Adopt]:
    return [effect for effect in effects if isinstance(effect, Adopt)]


def test_a_container_that_runs_brings_back_what_even_the_kubelet_forgot() -> None:
    (adopt,) = adopted(*planned(CLAIMANT))

    assert adopt.id == ONE.id
    assert adopt.adoption.allocation.secret == ONE.secret
    assert adopt.adoption.allocation.host_socket == ONE.host_socket
    assert adopt.adoption.allocation.owner == Owner(
        uid=CLAIMANT.uid, container="dataplane", namespace="telco", name="cnf"
    )


def test_with_half_of_the_evidence_nothing_is_brought_back_or_told() -> None:
    assert not adopted(*planned(CLAIMANT, checkpoint=Unknown("not there")))
    assert not adopted(*planned(runtime=Unknown("not there")))
    evidence = Evidence(runtime=a_runtime(replace(CLAIMANT, mounts={})), checkpoint=Unknown("not there"))
    assert rejections(Ledger(), evidence, (a_pool(),), now=NOW) == ()


def test_what_the_checkpoint_names_is_adopted_from_there_once_with_its_devices() -> None:
    (adopt,) = adopted(*planned(CLAIMANT, checkpoint=a_checkpoint(an_entry(ONE), began=100)))

    assert adopt.adoption.allocation.devices == ONE.devices


def test_an_entry_that_cannot_be_adopted_keeps_a_claim_from_it_too() -> None:
    """What the kubelet has is only compared; an answer of it that makes no sense is nothing to overrule by a claim."""
    entry = an_entry(ONE)
    broken = replace(entry, answer=replace(entry.answer, annotations={}))

    assert not adopted(*planned(CLAIMANT, checkpoint=a_checkpoint(broken, began=100)))


def test_a_claim_brings_nothing_back_that_an_operator_forced_out() -> None:
    ledger = Ledger().with_live([ONE], at=0).standing(ONE.id, Standing.FORCED)

    assert not adopted(*planned(CLAIMANT, ledger=ledger))


def test_a_false_claim_never_releases_or_changes_what_lives() -> None:
    ledger = Ledger().with_live([ONE], at=0).made({ONE.id: 1})
    forged = replace(CLAIMANT, claimed={**CLAIMANT.claimed, "io.contivpp.memif.secret": "AnotherAnotherAnother"})
    evidence = Evidence(runtime=a_runtime(forged, began=100), checkpoint=a_checkpoint(began=100))

    effects = planned(forged, ledger=ledger)

    assert not any(isinstance(effect, Adopt | Release) for effect in effects)
    (told,) = rejections(ledger, evidence, (a_pool(),), now=NOW)
    assert told.fault is Fault.DIFFERENT


def test_after_it_was_adopted_the_claim_is_silent_and_nothing_more_follows() -> None:
    (adopt,) = adopted(*planned(CLAIMANT))
    ledger = Ledger().with_live([adopt.adoption.allocation], at=100).made({ONE.id: 1})
    evidence = Evidence(runtime=a_runtime(CLAIMANT, began=100), checkpoint=a_checkpoint(began=100))

    again = planned(CLAIMANT, ledger=ledger)

    assert {type(effect).__name__ for effect in again} == {"Wait"}
    assert rejections(ledger, evidence, (a_pool(),), now=NOW) == ()


def test_a_container_that_looks_ended_and_was_only_created_keeps_its_directory_until_it_runs_and_is_believed() -> None:
    """On containerd nothing tells the two apart, except to who listened when the container was made."""
    made = replace(CLAIMANT, state=ObjectState.EXITED)

    assert planned(made, first_seen=0.0) == ()
    assert adopted(*planned(CLAIMANT))[0].id == ONE.id
