"""The rule for a pod that somebody says is gone: whose allocations are meant, and why they may have to stay.

Who says so (a CNI plugin, an operator) is believed in nothing: what may be released is found out by the same rule as
always, and this only says in the asker's words what stands in the way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from domain.allocation import Owner
from domain.errors import MemifError
from domain.evidence import CheckpointView, RuntimeView, Unknown
from domain.identity import AllocationId, PodUid
from domain.ledger import Ledger, Record, Standing
from domain.lookup import NoMemif, NoPod, Question
from domain.resync import Hold

_SHOWN: Final = 10
"""Of many things, how many a message names."""


class InUse(MemifError):
    """Something still names an allocation of the pod."""

    reason = "IN_USE"

    def __init__(self, pod: str, holders: Mapping[AllocationId, Sequence[str]]) -> None:
        super().__init__(
            f"pod {pod} is still in use: {_some([f'{name} by {_some(by)}' for name, by in holders.items()], '; ')}"
        )
        self.holders = holders


class TooYoung(MemifError):
    """Nothing names the pod's allocations, and that has not been so for long enough."""

    reason = "TOO_YOUNG"

    def __init__(self, pod: str, left: float) -> None:
        super().__init__(f"pod {pod} is not released yet: its grace period ends in {ceil(left)} s")
        self.left = left


class SeveralUids(MemifError):
    """The name alone does not say which pod is meant."""

    reason = "SEVERAL_UIDS"

    def __init__(self, pod: str, uids: Sequence[PodUid]) -> None:
        super().__init__(f"pod {pod} has several uids, say which one is meant: {_some(uids)}")
        self.uids = tuple(uids)


class NotToldNow(MemifError):
    """Whether the pod may be released cannot be told, or its release could not be finished, at the moment."""

    reason = "UNKNOWN_NOW"

    def __init__(self, pod: str, why: str) -> None:
        super().__init__(f"pod {pod} is not released now: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What may be released at once, and what is to be answered for the rest."""

    free: tuple[Record, ...]
    refusal: MemifError | None


def find(
    question: Question, ledger: Ledger, runtime: RuntimeView | Unknown, checkpoint: CheckpointView | Unknown
) -> tuple[Record, ...]:
    """Return the living records of the pod that is meant.

    The ledger must know of owners what both views tell.  With a uid, an allocation counts that belongs to it also if
    its pod's name never became known.

    Raises:
        NoPod, NoMemif: the pod holds nothing.
        SeveralUids: no uid was given, and the name has several.
        NotToldNow: nothing is known by that name or uid, and a view that would tell is unknown.
    """
    live = [record for record in ledger if record.standing is Standing.LIVE]
    meant = tuple(record for record in live if _meant(question, record.allocation.owner))
    uids = dict.fromkeys(uid for record in meant if (uid := record.allocation.owner.uid) is not None)
    if len(uids) > 1:
        raise SeveralUids(_shown(question), tuple(uids))
    if meant:
        return meant
    for label, view in (("runtime", runtime), ("checkpoint", checkpoint)):
        if isinstance(view, Unknown) and any(_perhaps(question, record.allocation.owner) for record in live):
            raise NotToldNow(_shown(question), f"{label} view unknown: {view.reason}")
    if isinstance(runtime, RuntimeView) and any(
        (each.namespace, each.name) == (question.namespace, question.name) and question.uid in {None, each.uid}
        for each in runtime.objects
    ):
        raise NoMemif(question.namespace, question.name)
    raise NoPod(question.namespace, question.name, question.uid)


def judge(question: Question, records: Sequence[Record], holds: Mapping[AllocationId, Hold]) -> Verdict:
    """Return which of a pod's records the Release rule lets go, and the most certain reason why others stay."""
    kept = {
        record.allocation.id: holds[record.allocation.id] for record in records if not holds[record.allocation.id].free
    }
    free = tuple(record for record in records if record.allocation.id not in kept)
    return Verdict(free=free, refusal=_refusal(_shown(question), kept) if kept else None)


def _refusal(pod: str, kept: Mapping[AllocationId, Hold]) -> MemifError:
    held = {name: hold.holders for name, hold in kept.items() if hold.holders}
    if held:
        return InUse(pod, held)
    blind = next((hold.blind for hold in kept.values() if hold.blind is not None), None)
    if blind is not None:
        return NotToldNow(pod, blind)
    return TooYoung(pod, max(hold.grace or 0.0 for hold in kept.values()))


def _meant(question: Question, owner: Owner) -> bool:
    name = (owner.namespace, owner.name)
    if question.uid is None:
        return name == (question.namespace, question.name)
    return owner.uid == question.uid and name in {(question.namespace, question.name), (None, None)}


def _perhaps(question: Question, owner: Owner) -> bool:
    """Whether an owner may turn out to be the pod once more is known of it."""
    return (owner.name if question.uid is None else owner.uid) is None


def _some(texts: Sequence[str], separator: str = ", ") -> str:
    """Join texts, the first few of many."""
    more = () if len(texts) <= _SHOWN else (f"and {len(texts) - _SHOWN} more",)
    return separator.join((*texts[:_SHOWN], *more))


def _shown(question: Question) -> str:
    uid = f" with uid {question.uid}" if question.uid is not None else ""
    return f"{question.namespace}/{question.name}{uid}"
