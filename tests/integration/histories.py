"""Histories made by chance, each from its seed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from adapters.memory.node import PodSpec
from tests.integration.history import History, Step
from tests.integration.nodes import app, init, pod, sidecar
from tests.integration.socketless import GRACE, RESOURCE

SLOTS: Final = 4
"""Names that pods can have; one name is one pod at a time, as in a StatefulSet."""

KEPT: Final = 4
"""Earlier states of the journal that a loss of power may bring back."""

# -- making ----------------------------------------------------------------------------------------------------

SHAPES: Final[tuple[Callable[[str], PodSpec], ...]] = (
    lambda name: pod(name, app("a", 1, RESOURCE)),
    lambda name: pod(name, init("setup", 1, RESOURCE), sidecar("side", 1, RESOURCE), app("a", 1, RESOURCE)),
    lambda name: pod(name, init("setup", 1, RESOURCE), app("a", 2, RESOURCE)),
    lambda name: pod(name, app("a", 1, RESOURCE), app("b", 2, RESOURCE)),
    lambda name: pod(name, app("a", 1, RESOURCE), static=True),
    lambda name: replace(pod(name, app("a", 1, RESOURCE)), oversized=True),
    lambda name: pod(name, app("a", 0, RESOURCE)),
)

CONFIGURATIONS: Final[tuple[dict[str, Any] | None, ...]] = ({}, {"capacity": 2}, None)
"""What the pool's configuration may be: as at first, with fewer devices, or gone."""

_TIMES: Final = (1, int(GRACE) // 2, int(GRACE) + 1, 60, 400)
"""Seconds: soon, within the grace, beyond it, beyond an interval, beyond the kubelet's patience with a plugin."""

CHANCES: Final[dict[str, float]] = {
    "admit": 9,
    "start": 5,
    "restart": 4,
    "delete": 5,
    "force": 3,
    "finish": 2,
    "complete": 1,
    "release": 2,
    "force-out": 1,
    "reconcile": 3,
    "time": 12,
    "kill": 2,
    "kill-before": 5,
    "meanwhile": 4,
    "kubelet-stop": 2,
    "kubelet-stays-alone": 1,
    "kubelet-comes-first": 1,
    "kubelet-dies": 1,
    "kubelet-garbles": 1,
    "runtime-down": 2,
    "runtime-hides": 1,
    "disk-fails": 3,
    "empty": 1,
    "stray": 1,
    "reboot": 1.5,
    "power-loss": 0.7,
    "lose-journal": 0.4,
    "configure": 1,
}
"""How likely each step is."""

CURES: Final = {
    "kill": "run",
    "kill-before": "run",
    "lose-journal": "run",
    "kubelet-stop": "kubelet-start",
    "kubelet-stays-alone": "kubelet-start",
    "kubelet-comes-first": "kubelet-start",
    "kubelet-dies": "kubelet-start",
    "runtime-down": "runtime-up",
    "runtime-hides": "runtime-up",
    "disk-fails": "disk-works",
}
"""What makes good again what a step does."""

_LASTING: Final = 0.3
"""How likely it is that something is made good again rather than that something else happens."""


_ARGUMENTS: Final[dict[str, tuple[Sequence[int], ...]]] = {
    "time": (_TIMES,),
    "kill-before": (range(1, 30),),
    "meanwhile": (range(12), range(1, 4)),
    "disk-fails": (range(3), range(3), (1, 1, 2, 5)),
    "configure": (range(len(CONFIGURATIONS)),),
    "stray": (range(3),),
    "reboot": (range(2), range(2)),
    "power-loss": (range(KEPT), range(2), range(2)),
}
"""What a step's arguments are chosen from; what they mean is with the step."""

_STARTED: Final = 0.8
"""How likely it is that a pod's containers start as soon as it is admitted."""

_SCENES: Final = 0.35
"""How likely it is that steps come that make a point together, which they would seldom do by chance."""

_PLOTS: Final[tuple[tuple[str, ...], ...]] = (
    ("admit", "force", "admit", "time", "time"),
    ("admit", "force", "admit", "runtime-down", "time", "time", "runtime-up"),
    ("admit", "force", "admit", "runtime-hides", "time", "time", "runtime-up"),
    ("admit", "delete", "time", "time", "admit"),
    ("admit", "delete", "admit", "time", "kill-before", "time", "run"),
    ("admit", "empty", "restart"),
    ("admit", "time", "force-out", "time", "restart"),
    ("admit", "lose-journal", "run", "restart", "time"),
    ("admit", "lose-journal", "disk-fails", "run", "disk-works", "time"),
    ("admit", "power-loss", "restart"),
    ("kill-before", "admit", "run"),
    ("kill-before", "restart", "run"),
    ("kill", "kill-before", "run", "run"),
    ("meanwhile", "admit", "force", "admit"),
    ("meanwhile", "delete", "admit", "start"),
    ("kubelet-stop", "time", "kill", "empty", "run", "kubelet-comes-first", "restart", "kubelet-start"),
    ("admit", "kubelet-stop", "lose-journal", "empty", "run", "kubelet-comes-first", "restart", "kubelet-start"),
    ("kubelet-stays-alone", "time", "time", "kubelet-start"),
    ("disk-fails", "admit", "delete", "time", "disk-works"),
    ("kubelet-garbles", "kill", "run", "restart", "time"),
    ("configure", "kill", "run", "restart", "time"),
)


def made(seed: int, *, longest: int = 24) -> History:
    """Return the history of a seed."""
    chance = Random(seed)
    delivery = chance.choice(("env", "env", "both", "file"))
    steps: list[Step] = []
    ills: list[str] = []
    pods: list[int] = []
    length = chance.randrange(6, longest + 1)
    while len(steps) < length:
        if ills and chance.random() < _LASTING:
            verbs: Sequence[str] = (CURES[ills.pop(chance.randrange(len(ills)))],)
        elif chance.random() < _SCENES:
            verbs = chance.choice(_PLOTS)
        else:
            verbs = chance.choices(tuple(CHANCES), tuple(CHANCES.values()))
            ills += [verb for verb in verbs if verb in CURES]
        here: list[int] = []
        for verb in verbs:
            steps.append(Step(verb, _drawn(verb, here[:1] or pods, chance)))
            here += [steps[-1].arguments[0]] if verb == "admit" else []
        pods += here
    return History(seed=seed, delivery=delivery, steps=tuple(steps))


def _drawn(verb: str, pods: Sequence[int], chance: Random) -> tuple[int, ...]:
    """Draw a step's arguments; a pod is one that was admitted before, if there is any."""
    slot = chance.choice(pods) if pods and verb != "admit" else chance.randrange(SLOTS)
    if verb in {"start", "restart", "delete", "force", "complete", "release", "force-out"}:
        return (slot,)
    if verb == "admit":
        return (slot, chance.randrange(len(SHAPES)), int(chance.random() < _STARTED))
    return tuple(chance.choice(choices) for choices in _ARGUMENTS.get(verb, ()))
