"""What containers claim, and how little follows from it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from domain.allocation import Allocation, Owner
from domain.answer import answer
from domain.claims import Fault, Judgement, judge
from domain.evidence import ObjectState, RuntimeObject
from domain.ledger import Ledger
from domain.pool import Pool, SecretDelivery
from domain.secret import Secret
from tests.unit.domain_values import NOW, a_pool, a_sandbox, an_allocation, an_object, numbered

SPELLINGS = {"/var/run/contiv/memif": frozenset({"/var/run/contiv/memif", "/run/contiv/memif"})}


def a_claimant(allocation: Allocation, *, pool: Pool | None = None, **changes: Any) -> RuntimeObject:
    """Return a running container with the mount and the annotations of an allocation."""
    carried = answer(pool or a_pool(), allocation).annotations
    return an_object(allocation, **({"claimed": carried} | changes))


def changed(allocation: Allocation, **annotations: str | None) -> Mapping[str, str]:
    """Return an allocation's annotations, some of them changed or (``None``) left out; keys without the prefix."""
    carried = dict(answer(a_pool(), allocation).annotations)
    for key, text in annotations.items():
        name = f"io.contivpp.memif.{key.replace('_', '.')}"
        carried.pop(name)
        if text is not None:
            carried[name] = text
    return carried


def verdict(*objects: RuntimeObject, ledger: Ledger | None = None, pools: tuple[Pool, ...] | None = None) -> Judgement:
    return judge(objects, ledger or Ledger(), pools or (a_pool(),), SPELLINGS, now=NOW)


def faults(*objects: RuntimeObject, ledger: Ledger | None = None) -> list[Fault]:
    found = verdict(*objects, ledger=ledger)
    assert not found.adoptions
    return [each.fault for each in found.rejections]


def test_a_running_container_that_everybody_forgot_is_adopted_with_path_and_secret() -> None:
    allocation = an_allocation()

    found = verdict(a_claimant(allocation))

    assert not found.rejections
    (adoption,) = found.adoptions
    assert adoption.allocation == replace(
        allocation,
        devices=(),
        owner=Owner(uid=adoption.allocation.owner.uid, container="dataplane", namespace="telco", name="cnf"),
    )
    assert not adoption.sealed


def test_the_resolved_spelling_of_the_base_directory_counts_too() -> None:
    allocation = an_allocation()
    resolved = "/run/contiv/memif/" + allocation.id
    claimant = a_claimant(
        allocation,
        mounts={"/run/vpp": resolved},
        claimed=changed(allocation, socket_host=f"{resolved}/memif.sock"),
    )

    (adoption,) = verdict(claimant).adoptions

    assert adoption.allocation.host_socket == f"/var/run/contiv/memif/{allocation.id}/memif.sock"


def test_a_secret_that_is_delivered_by_file_need_not_be_carried() -> None:
    pool = a_pool(secret_delivery=SecretDelivery.FILE)

    (adoption,) = verdict(a_claimant(an_allocation(pool=pool), pool=pool), pools=(pool,)).adoptions

    assert adoption.sealed


def test_a_claim_that_says_what_is_known_is_silent() -> None:
    allocation = an_allocation()
    ledger = Ledger().with_live([allocation], at=0)

    assert verdict(a_claimant(allocation), ledger=ledger) == Judgement(adoptions=(), rejections=())


@pytest.mark.parametrize("state", [ObjectState.CREATED, ObjectState.RUNNING])
def test_what_is_created_or_running_can_bring_back(state: ObjectState) -> None:
    assert len(verdict(a_claimant(an_allocation(), state=state)).adoptions) == 1


@pytest.mark.parametrize("state", sorted(set(ObjectState) - {ObjectState.CREATED, ObjectState.RUNNING}))
def test_nothing_else_can(state: ObjectState) -> None:
    assert faults(a_claimant(an_allocation(), state=state)) == [Fault.STOPPED]


def test_a_known_allocation_is_never_changed_by_a_foreign_secret() -> None:
    allocation = an_allocation()
    ledger = Ledger().with_live([allocation], at=0)
    forged = a_claimant(allocation, claimed=changed(allocation, secret="AnotherAnotherAnother"))

    assert faults(forged, ledger=ledger) == [Fault.DIFFERENT]


def test_pod_annotations_stand_on_the_sandbox_and_are_counted_only() -> None:
    allocation = an_allocation()
    sandbox = a_sandbox(claimed=answer(a_pool(), allocation).annotations)

    assert faults(sandbox) == [Fault.SANDBOX]


@pytest.mark.parametrize(
    "annotations",
    [
        {"secret": None},
        {"secret": ""},
        {"secret": "x" * 24},
        {"socket_host": None},
        {"socket_host": "/etc/shadow"},
        {"socket_host": "/var/run/contiv/memif/../../../../etc/bcdfghjklmnpqrstvwxz/memif.sock"},
        {"socket_host": "/var/run/contiv/memif/BCDFGHJKLMNPQRSTVWXZ/memif.sock"},
        {"socket_host": "/var/run/contiv/memif/bcdfghjklmnpqrstvwxz/other.sock"},
        {"socket_host": "/elsewhere/bcdfghjklmnpqrstvwxz/memif.sock"},
        {"socket_host": "/" * 1_000_000},
        {"socket_container": None},
        {"socket_container": "/run/vpp/other.sock"},
    ],
    ids=str,
)
def test_a_claim_that_is_incomplete_or_outside_is_malformed(annotations: dict[str, str | None]) -> None:
    allocation = an_allocation()

    assert faults(a_claimant(allocation, claimed=changed(allocation, **annotations))) == [Fault.MALFORMED]


@pytest.mark.parametrize(
    "mounts",
    [
        {},
        {"/run/vpp": "/var/run/contiv/memif/22222222222222222222"},
        {"/other": "/var/run/contiv/memif/bcdfghjklmnpqrstvwxz"},
    ],
    ids=["none", "another's", "elsewhere"],
)
def test_a_claim_without_its_mount_is_nothing(mounts: dict[str, str]) -> None:
    assert faults(a_claimant(an_allocation(), mounts=mounts)) == [Fault.NOT_MOUNTED]


def test_labels_of_an_image_without_the_mount_are_nothing() -> None:
    """Docker merges an image's labels into its containers; the container of a pod without memif mounts nothing."""
    hostile = an_object(claimed=answer(a_pool(), an_allocation()).annotations)

    assert faults(hostile) == [Fault.NOT_MOUNTED]


def test_another_container_directory_than_the_pools_is_not_its_mount() -> None:
    allocation = an_allocation(container_dir="/elsewhere")

    assert faults(a_claimant(allocation)) == [Fault.NOT_MOUNTED]


def test_a_container_without_uid_claims_nothing() -> None:
    assert faults(a_claimant(an_allocation(), uid=None)) == [Fault.NO_UID]


def test_two_pods_with_one_directory_claim_nothing() -> None:
    allocation = an_allocation()

    assert faults(a_claimant(allocation, id="one"), a_claimant(allocation, id="two", uid="other")) == [
        Fault.SHARED,
        Fault.SHARED,
    ]


def test_the_exited_and_the_running_container_of_one_pod_do_not_dispute() -> None:
    allocation = an_allocation()

    found = verdict(a_claimant(allocation, id="old", state=ObjectState.EXITED), a_claimant(allocation, id="new"))

    assert len(found.adoptions) == 1
    assert [(each.object_id, each.fault) for each in found.rejections] == [("old", Fault.STOPPED)]


def test_who_only_claims_a_directory_cannot_keep_its_owner_from_it() -> None:
    allocation = an_allocation()
    envious = a_claimant(allocation, id="envious", uid="other", mounts={})

    found = verdict(a_claimant(allocation), envious)

    assert len(found.adoptions) == 1
    assert [each.object_id for each in found.rejections] == ["envious"]


def test_what_is_shown_of_a_rejected_claim_is_escaped_and_short_and_holds_no_secret() -> None:
    allocation = an_allocation(secret=Secret("HushHushHushHushHush"))
    nasty = changed(allocation, socket_host="\x1b[31m\n" + "é" * 300)

    (rejection,) = verdict(a_claimant(allocation, claimed=nasty)).rejections

    assert rejection.socket.isascii()
    assert rejection.socket.isprintable()
    assert rejection.socket.startswith("\\x1b[31m\\n")
    assert len(rejection.socket) == 120
    assert "HushHush" not in repr(rejection)


def test_each_pool_judges_its_own_annotations() -> None:
    other = a_pool(annotation_prefix="com.example.fast", container_dir="/run/fast", host_dir="/run/fast")
    first, second = numbered(1), numbered(2, pool=other)
    both = an_object(
        mounts={"/run/vpp": first.directory.path, "/run/fast": second.directory.path},
        claimed={**answer(a_pool(), first).annotations, **answer(other, second).annotations},
    )

    found = verdict(both, pools=(a_pool(), other))

    assert {each.allocation.id for each in found.adoptions} == {first.id, second.id}


def test_what_carries_no_annotation_of_a_pool_is_no_claim() -> None:
    assert verdict(an_object(claimed={"io.contivpp.memifx": "y"})) == Judgement(adoptions=(), rejections=())
