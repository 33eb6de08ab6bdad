"""The rule for a pod that somebody says is gone."""

from types import MappingProxyType
from typing import Any

import pytest

from domain import dismissal
from domain.allocation import Owner
from domain.dismissal import InUse, NotToldNow, SeveralUids, TooYoung
from domain.evidence import CheckpointView, RuntimeView, Unknown
from domain.identity import AllocationId, PodUid
from domain.ledger import Ledger, Record, Standing
from domain.lookup import NoMemif, NoPod, Question
from domain.resync import Hold
from tests.unit.domain_values import a_checkpoint, a_runtime, a_sandbox, an_id, an_owner, numbered

BLIND = Unknown("connection refused")
NOTHING_RUNS, NOTHING_STORED = a_runtime(), a_checkpoint()


def asked(uid: str | None = None, name: str = "cnf", namespace: str = "telco") -> Question:
    return Question(namespace=namespace, name=name, uid=None if uid is None else PodUid(uid))


def owned(number: int, uid: str | None, name: str | None = "cnf", **changes: Any) -> Record:
    """Return a record of a pod of that uid and name."""
    namespace = None if name is None else "telco"
    owner = Owner(uid=None if uid is None else PodUid(uid), container="app", namespace=namespace, name=name)
    return Record(allocation=numbered(number, owner=owner), touched=0.0, **changes)


def ledger(*records: Record) -> Ledger:
    return Ledger(MappingProxyType({record.allocation.id: record for record in records}))


def found(
    question: Question,
    *records: Record,
    runtime: RuntimeView | Unknown = NOTHING_RUNS,
    checkpoint: CheckpointView | Unknown = NOTHING_STORED,
) -> list[AllocationId]:
    """Return whose allocations are meant."""
    return [each.allocation.id for each in dismissal.find(question, ledger(*records), runtime, checkpoint)]


class TestWhoIsMeant:
    def test_everything_of_the_name(self) -> None:
        mine = (owned(1, "a"), owned(2, "a"))
        others = (owned(3, "b", "probe"), owned(4, "c", None), owned(5, None, None))

        assert found(asked(), *mine, *others) == [an_id(1), an_id(2)]

    def test_the_same_name_in_another_namespace_is_another_pod(self) -> None:
        with pytest.raises(NoPod):
            found(asked(namespace="lab"), owned(1, "a"))

    def test_with_a_uid_that_one_alone(self) -> None:
        assert found(asked("a"), owned(1, "a"), owned(2, "b")) == [an_id(1)]

    def test_with_a_uid_also_what_never_got_a_name(self) -> None:
        """A pod that ended before the runtime had its sandbox never gets one."""
        assert found(asked("a"), owned(1, "a", None)) == [an_id(1)]

    def test_a_uid_of_another_name_is_refused(self) -> None:
        with pytest.raises(NoPod, match=r"telco/cnf with uid a"):
            found(asked("a"), owned(1, "a", "probe"))

    def test_a_name_with_several_uids_is_refused_and_they_are_listed(self) -> None:
        with pytest.raises(SeveralUids) as refused:
            found(asked(), owned(1, "a"), owned(2, "b"), owned(3, "a"))

        assert refused.value.uids == ("a", "b")
        assert str(refused.value) == "pod telco/cnf has several uids, say which one is meant: a, b"

    def test_of_very_many_uids_the_first_are_listed(self) -> None:
        """The message travels in a status, which has no room for all."""
        with pytest.raises(SeveralUids, match=r"u0, u1, .*, u9, and 20 more$"):
            found(asked(), *(owned(number, f"u{number}") for number in range(30)))

    @pytest.mark.parametrize("standing", [Standing.RELEASING, Standing.FORCED])
    def test_what_is_on_its_way_out_is_not_meant(self, standing: Standing) -> None:
        with pytest.raises(NoPod):
            found(asked(), owned(1, "a", standing=standing))


class TestNobody:
    def test_a_pod_that_runs_and_holds_nothing_holds_no_memif(self) -> None:
        running = a_runtime(a_sandbox(an_owner(uid=PodUid("a"))))

        with pytest.raises(NoMemif):
            found(asked(), runtime=running)
        with pytest.raises(NoMemif):
            found(asked("a"), runtime=running)
        with pytest.raises(NoPod):
            found(asked("b"), runtime=running)
        with pytest.raises(NoPod):
            found(asked(name="probe"), runtime=running)

    @pytest.mark.parametrize("uid", [None, "a"])
    def test_while_a_view_is_unknown_an_owner_that_is_not_known_may_be_the_pod(self, uid: str | None) -> None:
        nobodys = owned(1, None, None)

        with pytest.raises(NotToldNow, match="not released now: runtime view unknown: connection refused"):
            found(asked(uid), nobodys, runtime=BLIND)
        with pytest.raises(NotToldNow, match="checkpoint view unknown"):
            found(asked(uid), nobodys, checkpoint=BLIND)

    def test_an_owner_whose_uid_is_known_is_no_other_uid(self) -> None:
        with pytest.raises(NoPod):
            found(asked("b"), owned(1, "a", None), runtime=BLIND)

    def test_while_everything_is_known_it_is_not_the_pod(self) -> None:
        """A CNI plugin reports every pod of the node, and an allocation may be on its way to its owner at any time."""
        with pytest.raises(NoPod):
            found(asked(), owned(1, None, None))

    def test_an_unknown_view_is_no_trouble_where_every_owner_is_known(self) -> None:
        with pytest.raises(NoPod):
            found(asked(name="probe"), owned(1, "a"), runtime=BLIND, checkpoint=BLIND)


class TestTheVerdict:
    ONE, TWO, THREE = owned(1, "a"), owned(2, "a"), owned(3, "a")

    def judged(self, one: Hold, two: Hold | None = None, three: Hold | None = None) -> dismissal.Verdict:
        holds = {an_id(number): hold or Hold() for number, hold in ((1, one), (2, two), (3, three))}
        return dismissal.judge(asked(), (self.ONE, self.TWO, self.THREE), holds)

    def test_all_go_if_nothing_keeps_any(self) -> None:
        verdict = self.judged(Hold())

        assert verdict == dismissal.Verdict(free=(self.ONE, self.TWO, self.THREE), refusal=None)

    def test_what_something_names_stays_and_the_rest_goes(self) -> None:
        verdict = self.judged(Hold(), Hold(holders=("container:c", "checkpoint"), grace=3.0))

        assert verdict.free == (self.ONE, self.THREE)
        assert isinstance(verdict.refusal, InUse)
        assert verdict.refusal.holders == {an_id(2): ("container:c", "checkpoint")}
        assert str(verdict.refusal) == f"pod telco/cnf is still in use: {an_id(2)} by container:c, checkpoint"

    def test_that_something_names_it_is_said_before_everything_else(self) -> None:
        verdict = self.judged(Hold(grace=3.0), Hold(blind="no view"), Hold(holders=("checkpoint",), blind="no view"))

        assert isinstance(verdict.refusal, InUse)
        assert list(verdict.refusal.holders) == [an_id(3)]

    def test_that_it_cannot_be_told_is_said_before_the_age(self) -> None:
        verdict = self.judged(Hold(grace=3.0, blind="no view"), Hold(grace=3.0))

        assert isinstance(verdict.refusal, NotToldNow)
        assert verdict.free == (self.THREE,)
        assert str(verdict.refusal) == "pod telco/cnf is not released now: no view"

    def test_what_is_young_is_said_to_be_as_young_as_its_youngest(self) -> None:
        verdict = self.judged(Hold(grace=3.0), Hold(grace=11.2))

        assert isinstance(verdict.refusal, TooYoung)
        assert verdict.refusal.left == 11.2
        assert str(verdict.refusal) == "pod telco/cnf is not released yet: its grace period ends in 12 s"

    def test_the_uid_that_was_asked_for_is_in_the_words(self) -> None:
        verdict = dismissal.judge(asked("a"), (self.ONE,), {an_id(1): Hold(grace=1.0)})

        assert "telco/cnf with uid a is" in str(verdict.refusal)
