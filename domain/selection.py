"""Which of several container runtimes is the kubelet's.

A node may have more than one: dockerd brings a containerd of its own, which answers and knows no pods, and a CRI socket
shows the same containers again.  A wrong choice would look like an empty node, so a runtime is chosen by what it
holds, and where that does not tell, none is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from domain.identity import PodUid

CRI: Final = "cri"
"""The kind that never competes: behind its socket is one of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A runtime that answered.

    Attributes:
        kind: docker, containerd or cri.
        place: where it answered, in words that tell it from the others.
        uids: of the pods that it shows.
    """

    kind: str
    place: str
    uids: frozenset[PodUid]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The kubelet's runtime.

    Attributes:
        sight: the one that was chosen.
        rivals: places of others that hold pods too; worth a warning.
    """

    sight: Sight
    rivals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Undecided:
    """None can be chosen now, and why."""

    reason: str


def select(sights: Sequence[Sight], stored: frozenset[PodUid]) -> Selected | Undecided:
    """Choose among the runtimes that answered.

    Args:
        sights: in the order of preference.
        stored: uids that the kubelet's checkpoint names; they decide between two that both hold pods.
    """
    holding = [sight for sight in sights if sight.uids and sight.kind != CRI]
    candidates = holding or [sight for sight in sights if sight.uids]
    if not candidates:
        answered = ", ".join(sight.place for sight in sights)
        return Undecided(
            f"no runtime shows a pod of a kubelet yet ({f'answering: {answered}' if answered else 'none answers'})"
        )
    if len(candidates) == 1:
        return Selected(sight=candidates[0])
    kubelets = [sight for sight in candidates if sight.uids & stored]
    places = ", ".join(sight.place for sight in candidates)
    if len(kubelets) == 1:
        rivals = tuple(sight.place for sight in candidates if sight is not kubelets[0])
        return Selected(sight=kubelets[0], rivals=rivals)
    return Undecided(f"several runtimes hold pods ({places}); set runtime.kind and runtime.endpoint to the kubelet's")
