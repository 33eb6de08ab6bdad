"""When the kubelet is asked to forget dead pods."""

import pytest

from domain.allocation import Owner
from domain.answer import Answer
from domain.evidence import CheckpointEntry, Evidence, ObjectKind, ObjectState, RuntimeObject
from domain.identity import PodUid
from domain.ledger import Ledger
from domain.resync import Ask, Effect, Policy, Wait
from tests.unit.domain_values import a_sandbox, an_entry, an_object, an_owner, numbered
from tests.unit.resync_scene import BLIND, GRACE, effects, evidence, ledger

DEAD, ALIVE = PodUid("uid-dead"), PodUid("uid-alive")
ONE, TWO = numbered(1, owner=an_owner(uid=DEAD)), numbered(2, owner=an_owner(uid=ALIVE))
KNOWN = ledger(ONE, TWO)
LIVING = a_sandbox(Owner(uid=ALIVE))
DEAD_POD = "the checkpoint names a pod of which nothing exists"


def asks(seen: Evidence, known: Ledger = KNOWN, *, may_ask: bool = True) -> list[Effect]:
    """Return what there is to ask, or why it is not asked yet."""
    found = effects(known, seen, policy=Policy(grace=GRACE, may_ask=may_ask))
    return [each for each in found if isinstance(each, Ask) or (isinstance(each, Wait) and each.id is None)]


class TestAsk:
    def test_a_recorded_pod_of_which_nothing_exists_is_a_reason(self) -> None:
        """The kubelet drops a dead pod only when it is listed, and writes its file only on a device list."""
        assert asks(evidence([LIVING], [an_entry(ONE), an_entry(TWO)])) == [Ask(reason=DEAD_POD)]

    def test_one_request_covers_all(self) -> None:
        assert asks(evidence([], [an_entry(ONE), an_entry(TWO)])) == [Ask(reason=DEAD_POD)]

    @pytest.mark.parametrize("state", ObjectState)
    @pytest.mark.parametrize("kind", ObjectKind)
    def test_anything_that_exists_of_the_pod_is_none(self, kind: ObjectKind, state: ObjectState) -> None:
        shown = an_object(uid=ALIVE, kind=kind, state=state, namespace=None, name=None)

        assert asks(evidence([shown], [an_entry(TWO)])) == []

    def test_what_has_no_uid_stands_for_no_pod(self) -> None:
        assert asks(evidence([an_object(TWO, uid=None)], [an_entry(TWO)])) == [Ask(reason=DEAD_POD)]

    def test_a_pod_that_is_not_recorded_is_none(self) -> None:
        """The kubelet has nothing to forget; the containers that are left go by themselves."""
        assert asks(evidence([an_object(ONE)], [])) == []

    def test_a_record_that_is_unknown_is_a_reason(self) -> None:
        """The kubelet writes a deleted file again, complete, at the next device list."""
        assert asks(evidence([LIVING], BLIND)) == [Ask(reason="the checkpoint is unknown: connection refused")]
        assert asks(evidence(BLIND, BLIND), Ledger()) == [Ask(reason="the checkpoint is unknown: connection refused")]

    def test_an_unknown_runtime_shows_nobody_dead(self) -> None:
        assert asks(evidence(BLIND, [an_entry(ONE)])) == []

    @pytest.mark.parametrize("doubted", [False, True])
    def test_an_empty_runtime_is_taken_as_it_reads(self, *, doubted: bool) -> None:
        assert asks(evidence([], [an_entry(ONE)], doubted=doubted)) == [Ask(reason=DEAD_POD)]

    def test_it_does_not_depend_on_the_ledger(self) -> None:
        assert asks(evidence([], [an_entry(ONE)]), Ledger()) == [Ask(reason=DEAD_POD)]

    @pytest.mark.parametrize("entry", [an_entry(ONE, resource="nvidia.com/gpu", answer=Answer())])
    def test_dead_pods_of_other_plugins_are_theirs_to_ask_for(self, entry: CheckpointEntry) -> None:
        assert asks(evidence([], [entry])) == []

    def test_a_dead_pod_of_a_renamed_pool_is_a_reason(self) -> None:
        assert asks(evidence([], [an_entry(ONE, resource="example.com/renamed")])) == [Ask(reason=DEAD_POD)]


class TestNotYet:
    """At most once an interval, never near an Allocate: a listing then feeds a race in the kubelet."""

    @pytest.mark.parametrize(
        "seen, reason",
        [
            (evidence([], [an_entry(ONE)]), DEAD_POD),
            (evidence([LIVING], BLIND), "the checkpoint is unknown: connection refused"),
        ],
    )
    def test_while_the_kubelet_may_not_be_listed_it_waits(self, seen: Evidence, reason: str) -> None:
        assert asks(seen, may_ask=False) == [Wait(id=None, reason=f"may not ask the kubelet yet: {reason}")]

    def test_without_a_reason_there_is_nothing_to_wait_for(self) -> None:
        assert asks(evidence([LIVING], [an_entry(TWO)]), may_ask=False) == []


def test_order_and_completeness_of_objects_do_not_matter() -> None:
    shown: list[RuntimeObject] = [an_object(uid=None), LIVING, a_sandbox(Owner(uid=DEAD))]

    assert asks(evidence(shown, [an_entry(ONE), an_entry(TWO)])) == []
    assert asks(evidence(shown[::-1], [an_entry(TWO), an_entry(ONE)])) == []
