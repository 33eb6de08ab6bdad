"""PreStartContainer: which directories a starting container may be about to mount."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from domain import start
from domain.errors import MemifError
from domain.evidence import CheckpointView, Unknown
from domain.identity import AllocationId
from domain.ledger import Ledger, Standing
from domain.resource import ResourceName
from domain.start import NothingKnown, NotServing
from tests.unit.domain_values import RESOURCE, a_checkpoint, a_pool, an_entry, an_id, device_ids, numbered

UNKNOWN = Unknown("no such file")

INIT = numbered(1, devices=device_ids(19))
SIDECAR = numbered(2, devices=device_ids(19))
TWO = numbered(3, devices=device_ids(63, 95))
ONE = numbered(4, devices=device_ids(34))
POD = Ledger().with_live([INIT, SIDECAR, TWO, ONE], at=1.0)
"""A pod as a kubelet had it: the sidecar was given the init container's device."""


def planned(devices: Sequence[str], ledger: Ledger, checkpoint: CheckpointView | Unknown) -> start.Start:
    """Plan for ids of the resource that all of these have."""
    return start.plan(RESOURCE, devices, ledger, checkpoint)


def ids_of(plan: start.Start) -> list[AllocationId]:
    return [record.allocation.id for record in plan.candidates]


def stored(*numbers: int) -> CheckpointView:
    """Return a checkpoint that names some of the pod's allocations."""
    return a_checkpoint(*(an_entry(each) for each in (INIT, SIDECAR, TWO, ONE) if each.id in map(an_id, numbers)))


class TestCandidates:
    """Everything that holds one of the ids must have its directory."""

    def test_every_holder_of_an_id_is_made_sure_of(self) -> None:
        """The call names ids, not containers."""
        plan = planned(device_ids(19), POD, stored(1, 2, 3, 4))

        assert ids_of(plan) == [INIT.id, SIDECAR.id]

    @pytest.mark.parametrize("devices", [device_ids(95, 63), device_ids(95, 63, 95)], ids=["turned", "repeated"])
    def test_the_order_of_ids_does_not_matter(self, devices: tuple[str, ...]) -> None:
        assert planned(devices, POD, UNKNOWN) == planned(device_ids(63, 95), POD, UNKNOWN)

    def test_a_holder_of_one_of_several_ids_is_made_sure_of_too(self) -> None:
        more = POD.with_live([numbered(5, devices=device_ids(95, 96))], at=1.0)

        assert ids_of(planned(device_ids(63, 95), more, UNKNOWN)) == [TWO.id, an_id(5)]

    @pytest.mark.parametrize("standing", [Standing.RELEASING, Standing.FORCED])
    def test_what_was_on_its_way_out_is_made_sure_of_as_well(self, standing: Standing) -> None:
        """The kubelet is about to mount it: it comes back to life."""
        plan = planned(device_ids(34), POD.standing(ONE.id, standing), stored(4))

        assert [record.standing for record in plan.candidates] == [standing]
        assert plan.meant == {ONE.id}


class TestTwoPoolsWithIdsSpeltAlike:
    """The kubelet asks at a resource's own socket; what another resource's ids hold is not about to start."""

    SLIM = a_pool(device_id="memif-{index}")
    OTHER = a_pool(device_id="memif-{index}", resource=ResourceName("example.com/fast"))
    MINE = numbered(1, pool=SLIM, devices=("memif-0",))
    THEIRS = numbered(2, pool=OTHER, devices=("memif-0",))
    BOTH = Ledger().with_live([MINE, THEIRS], at=1.0)

    def test_only_the_resources_own_are_made_sure_of(self) -> None:
        found = start.plan(self.OTHER.resource, ("memif-0",), self.BOTH, UNKNOWN)

        assert ids_of(found) == [self.THEIRS.id]
        assert found.meant == {self.THEIRS.id}

    def test_only_the_resources_own_entries_say_what_is_meant(self) -> None:
        """An entry that names what the other resource's ledger has cannot speak for this one."""
        older = numbered(3, pool=self.SLIM, devices=("memif-0",))
        ledger = Ledger().with_live([older, self.MINE], at=1.0)
        strange = replace(an_entry(older, pool=self.SLIM), resource=self.OTHER.resource)

        assert start.plan(RESOURCE, ("memif-0",), ledger, a_checkpoint(strange)).meant == {self.MINE.id}

    def test_an_id_that_only_the_other_resource_holds_is_unknown(self) -> None:
        ledger = Ledger().with_live([self.MINE], at=1.0)

        with pytest.raises(NothingKnown):
            start.plan(self.OTHER.resource, ("memif-0",), ledger, UNKNOWN)


class TestMeant:
    """Only trouble with what is surely meant stops the start."""

    def test_the_kubelet_s_record_of_exactly_these_ids_says_what_is_meant(self) -> None:
        assert planned(device_ids(34), POD, stored(1, 2, 3, 4)).meant == {ONE.id}

    def test_all_that_it_names_for_them_are_meant(self) -> None:
        assert planned(device_ids(19), POD, stored(1, 2)).meant == {INIT.id, SIDECAR.id}

    def test_an_older_grant_is_meant_if_it_alone_is_in_the_record(self) -> None:
        assert planned(device_ids(19), POD, stored(1)).meant == {INIT.id}

    @pytest.mark.parametrize("checkpoint", [UNKNOWN, stored(), stored(3, 4)], ids=["unknown", "empty", "others"])
    def test_without_a_record_the_newest_grant_of_exactly_these_ids_is_meant(
        self, checkpoint: CheckpointView | Unknown
    ) -> None:
        assert planned(device_ids(19), POD, checkpoint).meant == {SIDECAR.id}

    def test_a_record_that_only_shares_an_id_is_not_meant(self) -> None:
        more = POD.with_live([numbered(5, devices=device_ids(95, 96))], at=1.0)
        checkpoint = a_checkpoint(an_entry(TWO), an_entry(numbered(5, devices=device_ids(95, 96))))

        assert planned(device_ids(63, 95), more, checkpoint).meant == {TWO.id}

    def test_nothing_is_surely_meant_if_nobody_has_exactly_these_ids(self) -> None:
        """Each id has a holder, so the container may start; but which directory it mounts cannot be told."""
        plan = planned(device_ids(34, 63), POD, UNKNOWN)

        assert ids_of(plan) == [TWO.id, ONE.id]
        assert plan.meant == frozenset()

    def test_a_name_in_the_record_that_the_ledger_does_not_have_is_not_meant(self) -> None:
        """An answer that could not be adopted: nothing can be done about its directory."""
        strange = an_entry(numbered(9, devices=device_ids(34)))

        assert planned(device_ids(34), POD, a_checkpoint(strange)).meant == {ONE.id}

    def test_a_name_in_the_record_that_holds_other_ids_is_not_meant(self) -> None:
        confused = replace(an_entry(TWO), devices=ONE.devices)

        assert planned(device_ids(34), POD, a_checkpoint(confused)).meant == {ONE.id}


class TestNothingKnown:
    """An id that nobody holds: the kubelet tries again, and the operator is told what to do."""

    @pytest.mark.parametrize("checkpoint", [UNKNOWN, stored(1, 2, 3, 4)], ids=["unknown", "known"])
    def test_an_id_that_nobody_holds_is_refused(self, checkpoint: CheckpointView | Unknown) -> None:
        with pytest.raises(NothingKnown) as refusal:
            planned(device_ids(7), POD, checkpoint)

        assert refusal.value.devices == device_ids(7)
        assert isinstance(refusal.value, MemifError)
        assert str(refusal.value).startswith("no memif allocation is known for contivpp.io/memif/7: ")
        assert "delete the pod" in str(refusal.value)

    def test_only_the_ids_without_a_holder_are_named(self) -> None:
        with pytest.raises(NothingKnown) as refusal:
            planned(device_ids(9, 34, 7), POD, UNKNOWN)

        assert refusal.value.devices == device_ids(7, 9)
        assert "contivpp.io/memif/7, contivpp.io/memif/9" in str(refusal.value)

    def test_nothing_is_known_to_an_empty_ledger(self) -> None:
        with pytest.raises(NothingKnown):
            planned(device_ids(0), Ledger(), UNKNOWN)


def test_a_plugin_that_stops_says_that_it_will_be_back() -> None:
    assert "stopping" in str(NotServing())
    assert "again" in str(NotServing())
    assert isinstance(NotServing(), MemifError)
