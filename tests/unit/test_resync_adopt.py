"""Adoption from the kubelet's record, and what becomes known of owners."""

from dataclasses import replace
from datetime import timedelta

import pytest

from domain.allocation import Allocation, Owner
from domain.answer import Answer
from domain.evidence import CheckpointEntry, RuntimeObject
from domain.identity import PodUid
from domain.ledger import Ledger, Standing
from domain.pool import DirectoryRules, Pool, SecretDelivery
from domain.resource import ResourceName
from domain.resync import Adopt, Own, owners, plan
from tests.unit.domain_values import (
    NOW,
    a_base,
    a_checkpoint,
    a_pool,
    a_runtime,
    a_sandbox,
    a_secret,
    an_entry,
    an_object,
    an_owner,
    device_ids,
    numbered,
)
from tests.unit.resync_scene import BLIND, POLICY, POOL, deeds, effects, evidence, ledger

UID = PodUid("uid-1")
ONE = numbered(1)
FOUND = replace(ONE, granted=NOW, owner=Owner(uid=UID, container="app"))
"""As it is adopted: whose it is comes from the record, when it was granted nobody knows."""

ENTRY = an_entry(ONE, UID, "app")


def adopted(
    *entries: CheckpointEntry, known: Ledger | None = None, pools: tuple[Pool, ...] = (POOL,)
) -> list[Allocation]:
    """Return what is adopted of a record while nothing else is known."""
    found = effects(known or Ledger(), evidence(BLIND, entries), pools)
    return [effect.adoption.allocation for effect in found if isinstance(effect, Adopt)]


class TestAdopt:
    def test_what_the_ledger_does_not_know_is_taken_over_as_it_was(self) -> None:
        """With id, path, secret, ids, uid and container."""
        (effect,) = effects(Ledger(), evidence(BLIND, [ENTRY]))

        assert isinstance(effect, Adopt)
        assert effect.adoption.allocation == FOUND
        assert effect.adoption.allocation.secret.reveal() == a_secret(1).reveal()
        assert (effect.id, effect.adoption.pool, effect.adoption.sealed) == (ONE.id, POOL, False)
        assert effect.reason == "the kubelet's checkpoint names it"

    def test_the_time_is_that_of_the_adoption(self) -> None:
        later = NOW + timedelta(days=1)
        (effect,) = plan(Ledger(), evidence(BLIND, [ENTRY]), (POOL,), POLICY, now=later)

        assert isinstance(effect, Adopt)
        assert effect.adoption.allocation.granted == later

    def test_devices_are_in_index_order_whatever_the_order_in_the_record(self) -> None:
        """The k-th device by index is memif interface k."""
        scattered = replace(ENTRY, devices=device_ids(63, 7, 95, 10))

        assert [each.devices for each in adopted(scattered)] == [device_ids(7, 10, 63, 95)]

    def test_the_name_is_known_at_once_if_the_runtime_shows_the_uid(self) -> None:
        (effect,) = deeds(Ledger(), evidence([a_sandbox(Owner(uid=UID, namespace="telco", name="cnf"))], [ENTRY]))

        assert isinstance(effect, Adopt)
        assert effect.adoption.allocation.owner == Owner(uid=UID, container="app", namespace="telco", name="cnf")

    def test_everything_is_adopted_plain_init_containers_included(self) -> None:
        shared = numbered(2, devices=ONE.devices)

        found = adopted(ENTRY, an_entry(shared, UID, "init"), an_entry(numbered(3), "uid-2", "app"))

        assert [(each.id, each.owner.container) for each in found] == [
            (ONE.id, "app"),
            (shared.id, "init"),
            (numbered(3).id, "app"),
        ]

    def test_one_that_stands_twice_in_the_record_is_adopted_once(self) -> None:
        assert adopted(ENTRY, replace(ENTRY, uid=PodUid("uid-2"))) == [FOUND]

    def test_it_needs_no_known_runtime(self) -> None:
        assert adopted(ENTRY) == [FOUND]

    def test_nothing_is_adopted_while_the_record_is_unknown(self) -> None:
        found = deeds(Ledger(), evidence([an_object(ONE)], BLIND))

        assert [type(each).__name__ for each in found] == ["Ask"]

    @pytest.mark.parametrize("standing", Standing)
    def test_what_the_ledger_knows_is_not_adopted_again(self, standing: Standing) -> None:
        """A forced record is kept for this, or adoption would bring it back."""
        known = replace(ONE, secret=a_secret(9), owner=an_owner())

        assert adopted(ENTRY, known=ledger(known, standing=standing)) == []

    def test_a_directory_whose_allocation_is_adopted_is_not_swept(self) -> None:
        path = FOUND.directory.path
        seen = evidence([a_sandbox()], [ENTRY], directories=[a_base(ONE)], first_seen={path: 0.0})

        assert [type(each).__name__ for each in deeds(Ledger(), seen)] == ["Adopt", "Ask"]


class TestWhoseAnswer:
    """Only an answer of ours, complete and in itself right, is adopted."""

    def test_the_answer_of_another_plugin_is_not(self) -> None:
        assert adopted(replace(ENTRY, resource=ResourceName("nvidia.com/gpu"))) == []

    def test_the_answer_of_a_pool_as_it_was_before_is(self) -> None:
        """The journal remembers how a pool was last used; the allocation keeps the places of then."""
        before = a_pool(host_dir="/var/run/earlier", container_dir="/run/earlier", directory=DirectoryRules(mode=0o750))
        then = numbered(1, pool=before)

        (found,) = adopted(an_entry(then, UID, "app", before), pools=(POOL, before))

        assert (found.host_dir, found.container_dir, found.rules.mode) == ("/var/run/earlier", "/run/earlier", 0o750)

    def test_the_answer_of_a_base_directory_that_no_pool_has_is_not(self) -> None:
        elsewhere = a_pool(host_dir="/var/run/elsewhere")

        assert adopted(an_entry(numbered(1, pool=elsewhere), UID, "app", elsewhere)) == []

    @pytest.mark.parametrize("missing", ["socket.host", "socket.container", "secret"])
    def test_an_incomplete_answer_is_not(self, missing: str) -> None:
        annotations = {key: value for key, value in ENTRY.answer.annotations.items() if not key.endswith(missing)}

        assert adopted(replace(ENTRY, answer=replace(ENTRY.answer, annotations=annotations))) == []

    @pytest.mark.parametrize(
        "key, value",
        [
            ("socket.host", f"{POOL.host_dir}/{numbered(2).id}/memif.sock"),
            ("socket.host", f"{POOL.host_dir}/../../etc/memif.sock"),
            ("socket.host", f"{FOUND.directory.path}/other.sock"),
            ("socket.host", ""),
            ("socket.container", "/run/elsewhere/memif.sock"),
            ("socket.container", "/run/vpp/"),
            ("secret", ""),
            ("secret", "longer than memif can carry"),
        ],
    )
    def test_an_answer_that_contradicts_itself_is_not(self, key: str, value: str) -> None:
        annotations = {**ENTRY.answer.annotations, f"{POOL.annotation_prefix}.{key}": value}

        assert adopted(replace(ENTRY, answer=replace(ENTRY.answer, annotations=annotations))) == []

    @pytest.mark.parametrize("answer", [Answer(), replace(ENTRY.answer, mounts=())])
    def test_an_answer_that_mounts_nothing_is_not(self, answer: Answer) -> None:
        assert adopted(replace(ENTRY, answer=answer)) == []

    def test_what_is_not_adopted_keeps_its_directory_all_the_same(self) -> None:
        """The kubelet will mount it, whatever we think of the rest of the answer."""
        entry = replace(ENTRY, answer=replace(ENTRY.answer, annotations={}))
        seen = evidence(
            [a_sandbox(Owner(uid=UID))], [entry], directories=[a_base(ONE)], first_seen={ONE.directory.path: 0.0}
        )

        assert deeds(Ledger(), seen) == []

    def test_a_secret_that_stands_in_a_file_is_left_to_be_read(self) -> None:
        by_file = a_pool(secret_delivery=SecretDelivery.FILE)
        granted = numbered(1, pool=by_file)

        (effect,) = effects(Ledger(), evidence(BLIND, [an_entry(granted, UID, "app", by_file)]), (by_file,))

        assert isinstance(effect, Adopt)
        assert effect.adoption.sealed
        assert effect.adoption.with_secret(a_secret(1)) == replace(
            granted, granted=NOW, owner=Owner(uid=UID, container="app")
        )


class TestOwn:
    """Uid and container come from the record, namespace and name from the runtime's objects of that uid."""

    @staticmethod
    def owned(owner: Owner, entries: list[CheckpointEntry], objects: list[RuntimeObject]) -> list[Owner]:
        found = effects(ledger(replace(ONE, owner=owner)), evidence(objects, entries))
        return [each.owner for each in found if isinstance(each, Own)]

    def test_the_record_tells_uid_and_container(self) -> None:
        assert self.owned(Owner(), [ENTRY], []) == [Owner(uid=UID, container="app")]

    def test_the_runtime_tells_the_name_of_a_uid(self) -> None:
        known, sandbox = Owner(uid=UID, container="app"), a_sandbox(Owner(uid=UID, namespace="lab", name="probe"))
        complete = Owner(uid=UID, container="app", namespace="lab", name="probe")

        assert self.owned(known, [], [sandbox]) == [complete]
        assert self.owned(Owner(), [ENTRY], [sandbox]) == [complete]

    def test_a_container_tells_it_as_well(self) -> None:
        assert self.owned(Owner(uid=UID, container="app"), [], [an_object(uid=UID, namespace="lab", name="probe")]) == [
            Owner(uid=UID, container="app", namespace="lab", name="probe")
        ]

    @pytest.mark.parametrize(
        "known",
        [
            Owner(uid=PodUid("uid-9"), container="app"),
            Owner(uid=UID, container="other"),
            Owner(uid=UID, container="app", namespace="lab", name="probe"),
        ],
    )
    def test_what_is_known_never_changes(self, known: Owner) -> None:
        sandbox = a_sandbox(Owner(uid=UID, namespace="telco", name="cnf"))
        found = self.owned(known, [ENTRY], [sandbox])

        assert all(each.completed_by(known) == each == known.completed_by(each) for each in found)
        assert found == ([known.completed_by(an_owner(uid=UID))] if known.uid == UID and not known.complete else [])

    @pytest.mark.parametrize(
        "shown",
        [
            an_object(ONE, uid=None),
            an_object(uid=UID, name=None),
            an_object(uid=UID, namespace=None),
            an_object(uid=PodUid("uid-2")),
        ],
    )
    def test_an_object_that_shows_only_a_part_or_another_uid_tells_nothing(self, shown: RuntimeObject) -> None:
        known = Owner(uid=UID, container="app")

        assert self.owned(known, [], [shown]) == []
        assert self.owned(known, [], [a_sandbox(Owner(uid=UID)), shown]) == [an_owner(uid=UID, container="app")]
        assert self.owned(known, [], [shown, a_sandbox(Owner(uid=UID))]) == [an_owner(uid=UID, container="app")]

    def test_a_container_that_mounts_the_directory_owns_nothing(self) -> None:
        """What a container carries keeps an allocation and binds it to nobody."""
        claimed = {f"{POOL.annotation_prefix}.socket.host": ONE.host_socket}

        assert self.owned(Owner(), [], [an_object(ONE, uid=UID, claimed=claimed)]) == []

    @pytest.mark.parametrize("standing", [Standing.RELEASING, Standing.FORCED])
    def test_only_what_lives_is_bound(self, standing: Standing) -> None:
        found = effects(ledger(ONE, standing=standing), evidence([a_sandbox()], [ENTRY]))

        assert not [each for each in found if isinstance(each, Own)]

    def test_nothing_new_is_no_effect(self) -> None:
        assert self.owned(an_owner(), [an_entry(ONE, an_owner().uid)], [a_sandbox()]) == []
        assert self.owned(Owner(), [], []) == []

    def test_views_by_themselves_tell_of_owners_too(self) -> None:
        """A look-up asks for this part only."""
        known = ledger(ONE, numbered(2))
        complete = an_owner(uid=UID, container="app")

        assert owners(known, a_runtime(a_sandbox(complete)), a_checkpoint(ENTRY), (POOL,)) == (
            Own(id=ONE.id, owner=complete),
        )
        assert owners(known, BLIND, a_checkpoint(ENTRY), (POOL,)) == (
            Own(id=ONE.id, owner=Owner(uid=UID, container="app")),
        )
        assert owners(known, BLIND, BLIND, (POOL,)) == ()
