"""Whether a container runtime shows the kubelet's pods."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from domain.diagnosis.findings import Finding, doubtful, fine, wrong
from domain.evidence import RuntimeView, uids_seen
from domain.identity import PodUid
from domain.selection import Selected, Sight, select

RUNTIME: Final = "container runtime"

_CHOOSE: Final = "set runtime.kind and runtime.endpoint to the kubelet's runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One place at which a runtime may answer, and what came of asking there.

    Attributes:
        kind: docker, containerd or cri.
        place: kind and path, for people.
        path: of the socket.
        there: something lies at the path.
        view: what it shows, ``None`` if it does not answer.
        silence: why it does not; empty if it does.
    """

    kind: str
    place: str
    path: str
    there: bool
    view: RuntimeView | None = None
    silence: str = ""

    @property
    def uids(self) -> frozenset[PodUid]:
        """The pods that it shows."""
        return frozenset() if self.view is None else uids_seen(self.view)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What was found of the runtime.

    Attributes:
        finding: the same for people.
        view: what the kubelet's runtime shows, ``None`` if it was not found.
    """

    finding: Finding
    view: RuntimeView | None


def judge(tried: Sequence[Tried], others: Sequence[Tried], stored: frozenset[PodUid]) -> Chosen:
    """Return which runtime the daemon would go by, or why it has none.

    Args:
        tried: the places of the configuration.
        others: places that the configuration does not name.
        stored: the pods that the kubelet's checkpoint names.
    """
    answering = [each for each in tried if each.view is not None]
    verdict = select([Sight(kind=each.kind, place=each.place, uids=each.uids) for each in answering], stored)
    if isinstance(verdict, Selected):
        (chosen,) = [each for each in answering if each.place == verdict.sight.place]
        return Chosen(finding=_found(chosen, verdict.rivals), view=chosen.view)
    holding = [each for each in others if each.uids]
    if holding:
        return Chosen(finding=_of_another_kind(tried, answering, holding), view=None)
    if any(each.uids for each in answering):
        return Chosen(finding=wrong(RUNTIME, verdict.reason, _CHOOSE), view=None)
    if not answering:
        return Chosen(finding=_silent(tried, others), view=None)
    only = answering[0].view if len(answering) == 1 else None
    return Chosen(finding=_empty(answering, stored), view=only)


def imaginary() -> Finding:
    """Return what is to be said of the runtime of demonstrations."""
    return doubtful(
        RUNTIME, "runtime.kind is memory, which shows no container of this node", "set runtime.kind to auto on a node"
    )


def _found(chosen: Tried, rivals: tuple[str, ...]) -> Finding:
    what = f"{chosen.place} shows {_pods(chosen)}"
    if rivals:
        return doubtful(RUNTIME, f"{what}; {', '.join(rivals)} shows pods, too", _CHOOSE)
    return fine(RUNTIME, what)


def _of_another_kind(tried: Sequence[Tried], answering: Sequence[Tried], holding: Sequence[Tried]) -> Finding:
    where = _places(answering or tried)
    state = "shows no pod" if answering else "does not answer"
    better = holding[0]
    return wrong(
        RUNTIME,
        f"{where} {state}, but {better.place} shows {_pods(better)}",
        f"set runtime.kind to {better.kind}, or to auto, and runtime.endpoint to its socket or to null",
    )


def _silent(tried: Sequence[Tried], others: Sequence[Tried]) -> Finding:
    there = [each for each in tried if each.there]
    if there:
        what = "; ".join(each.silence for each in there)
        return wrong(RUNTIME, what, f"mend that runtime, or {_CHOOSE}")
    what = f"there is no container runtime's socket at {', '.join(dict.fromkeys(each.path for each in tried))}"
    answering = [each.place for each in others if each.view is not None]
    if answering:
        return wrong(RUNTIME, f"{what}; what answers is {', '.join(answering)}", _CHOOSE)
    return wrong(RUNTIME, what, f"start the runtime, or {_CHOOSE}; in a container, mount the directory of its socket")


def _empty(answering: Sequence[Tried], stored: frozenset[PodUid]) -> Finding:
    what = f"{_places(answering)} shows no pod of a kubelet"
    if stored:
        return wrong(RUNTIME, f"{what}, while the kubelet's checkpoint names {len(stored)}", _CHOOSE)
    return doubtful(RUNTIME, what, f"none is needed while the node has no pods; if it has some, {_CHOOSE}")


def _pods(tried: Tried) -> str:
    number = len(tried.uids)
    return f"{number} pod{'' if number == 1 else 's'}"


def _places(tried: Sequence[Tried]) -> str:
    return ", ".join(each.place for each in tried)
