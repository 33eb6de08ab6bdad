"""Finding the node's container runtime."""

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.runtime import MemoryRuntime
from app.use_cases.runtimes import Candidate, FoundRuntime
from app.use_cases.state import State
from domain.evidence import Unknown
from domain.ports.runtime import RuntimeUnavailable
from tests.unit.domain_values import a_checkpoint, a_pool, an_allocation, an_entry


class Said:
    """Keeps what was reported."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def note(self, event: str, **facts: object) -> None:
        self.events.append(f"{event} {facts}")

    warn = note


class Scene:
    """Three places at which a runtime may answer."""

    def __init__(self, *, trusted: bool = False) -> None:
        clock = ManualClock()
        self.containerd, self.docker, self.cri = (MemoryRuntime(clock) for _ in range(3))
        self.state = State(pools=(a_pool(),), clock=clock)
        self.said = Said()
        self.runtime = FoundRuntime(
            candidates=(
                Candidate(kind="containerd", place="containerd at /a", runtime=self.containerd),
                Candidate(kind="docker", place="docker at /b", runtime=self.docker),
                Candidate(kind="cri", place="cri at /a", runtime=self.cri),
            ),
            state=self.state,
            reports=self.said,
            trusted=trusted,
        )


def a_pod(runtime: MemoryRuntime, uid: str) -> None:
    runtime.add_sandbox(uid=uid, namespace="telco", name=uid)


async def test_the_runtime_that_holds_pods_is_chosen_and_kept() -> None:
    scene = Scene()
    a_pod(scene.docker, "uid-1")

    view = await scene.runtime.snapshot()
    a_pod(scene.containerd, "uid-2")

    assert view.objects == scene.docker.objects
    assert (await scene.runtime.snapshot()).objects == scene.docker.objects
    assert "docker at /b" in scene.said.events[0]


async def test_until_one_holds_pods_the_view_is_unknown_and_each_snapshot_looks_again() -> None:
    scene = Scene()

    with pytest.raises(RuntimeUnavailable, match="no runtime shows a pod"):
        await scene.runtime.snapshot()
    a_pod(scene.containerd, "uid-1")

    assert (await scene.runtime.snapshot()).objects == scene.containerd.objects


async def test_one_that_does_not_answer_does_not_keep_the_others_from_being_found() -> None:
    scene = Scene()
    scene.containerd.cut("no socket")
    a_pod(scene.docker, "uid-1")

    assert (await scene.runtime.snapshot()).objects == scene.docker.objects


async def test_why_none_answers_is_told() -> None:
    scene = Scene()
    for each in (scene.containerd, scene.docker, scene.cri):
        each.cut("permission denied on /a")

    with pytest.raises(RuntimeUnavailable, match="permission denied on /a"):
        await scene.runtime.snapshot()


async def test_two_that_hold_pods_are_told_apart_by_the_checkpoint_with_a_warning() -> None:
    scene = Scene()
    a_pod(scene.containerd, "uid-1")
    a_pod(scene.docker, "uid-2")
    scene.state.checkpoint = a_checkpoint(an_entry(an_allocation(), uid="uid-2"))

    view = await scene.runtime.snapshot()

    assert view.objects == scene.docker.objects
    assert "several container runtimes" in scene.said.events[0]
    assert "containerd at /a" in scene.said.events[0]


async def test_without_a_checkpoint_two_are_left_to_the_operator() -> None:
    scene = Scene()
    a_pod(scene.containerd, "uid-1")
    a_pod(scene.docker, "uid-2")
    scene.state.checkpoint = Unknown("not there")

    with pytest.raises(RuntimeUnavailable, match=r"set runtime\.kind"):
        await scene.runtime.snapshot()


async def test_a_runtime_that_was_chosen_and_fails_is_unknown_and_not_replaced() -> None:
    scene = Scene()
    a_pod(scene.docker, "uid-1")
    await scene.runtime.snapshot()
    a_pod(scene.containerd, "uid-2")
    scene.docker.cut("gone")

    with pytest.raises(RuntimeUnavailable, match="gone"):
        await scene.runtime.snapshot()


async def test_where_the_operator_named_the_kind_the_only_one_that_answers_may_be_empty() -> None:
    scene = Scene(trusted=True)
    scene.docker.cut("no socket")
    scene.cri.cut("no socket")

    assert (await scene.runtime.snapshot()).objects == ()


async def test_nothing_is_known_of_a_runtime_that_was_not_found() -> None:
    scene = Scene()

    with pytest.raises(RuntimeUnavailable, match="not been found"):
        await scene.runtime.identity()
    with pytest.raises(RuntimeUnavailable, match="not been found"):
        await anext(scene.runtime.changes())


async def test_identity_and_hints_are_those_of_the_chosen_one_and_all_are_closed() -> None:
    scene = Scene()
    a_pod(scene.docker, "uid-1")
    await scene.runtime.snapshot()
    hints = scene.runtime.changes()
    await anext(hints)

    assert (await scene.runtime.identity()).kind == "memory"
    await scene.runtime.aclose()
