"""Finding the node's container runtime."""

from dataclasses import replace

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.runtime import MemoryRuntime
from app.use_cases.runtimes import Candidate, FoundRuntime, Substitute
from app.use_cases.state import State
from domain.evidence import ObjectKind, ObjectState, RuntimeObject, Unknown
from domain.ports.runtime import AnswerTooLarge, RuntimeUnavailable
from tests.unit.domain_values import a_checkpoint, a_pool, an_allocation, an_entry


class Said:
    """Keeps what was reported."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def note(self, event: str, **facts: object) -> None:
        self.events.append(f"{event} {facts}")

    warn = note


class Scene:
    """Three places at which a runtime may answer; the first one can be read by two APIs."""

    def __init__(self, *, trusted: bool = False) -> None:
        clock = ManualClock()
        self.containerd, self.substitute, self.docker, self.cri = (MemoryRuntime(clock) for _ in range(4))
        self.state = State(pools=(a_pool(),), clock=clock)
        self.said = Said()
        self.runtime = FoundRuntime(
            candidates=(
                Candidate(
                    kind="containerd",
                    place="containerd at /a",
                    runtime=self.containerd,
                    substitute=Substitute(main=self.containerd, other=lambda: self.substitute),
                ),
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


class TestAnAnswerThatIsTooLarge:
    """A tenant's container is larger than a message of containerd's; the CRI shows the same containers, smaller."""

    @pytest.fixture
    def scene(self) -> Scene:
        scene = Scene()
        a_pod(scene.substitute, "uid-1")
        (shown,) = scene.substitute.objects
        scene.containerd.put(replace(shown, state=ObjectState.EXITED))
        return scene

    async def test_it_is_read_by_the_substitute_which_is_said_once(self, scene: Scene) -> None:
        await scene.runtime.snapshot()
        for _ in range(2):
            scene.containerd.fail_next(AnswerTooLarge("larger than max"))
            assert (await scene.runtime.snapshot()).objects == scene.substitute.objects

        assert scene.said.events[1:] == [
            (
                "the container runtime's answer is too large; it is read with the help of the CRI until it is not "
                "{'runtime': 'containerd at /a', 'reason': 'larger than max'}"
            )
        ]

    async def test_what_is_no_pods_is_read_by_its_own_api_all_the_same(self, scene: Scene) -> None:
        """Somebody looks into a socket with a container that was made by hand, which the CRI does not show."""
        by_hand = RuntimeObject(id="by-hand", kind=ObjectKind.CONTAINER, state=ObjectState.RUNNING)
        await scene.runtime.snapshot()
        scene.containerd.put(by_hand)
        scene.containerd.fail_next(AnswerTooLarge("larger than max"))

        assert (await scene.runtime.snapshot()).objects == (*scene.substitute.objects, by_hand)

    async def test_its_own_api_is_tried_anew_each_time(self, scene: Scene) -> None:
        scene.containerd.fail_next(AnswerTooLarge("larger than max"))
        await scene.runtime.snapshot()

        assert (await scene.runtime.snapshot()).objects == scene.containerd.objects
        assert scene.said.events[-1].startswith("the container runtime is read by its own API again")

    async def test_it_is_found_all_the_same_when_the_daemon_starts(self, scene: Scene) -> None:
        scene.containerd.fail_next(AnswerTooLarge("larger than max"))
        await scene.runtime.snapshot()

        assert "containerd at /a" in scene.said.events[-1]
        assert (await scene.runtime.identity()).kind == "memory"

    async def test_any_other_failure_is_unknown(self, scene: Scene) -> None:
        """What hangs or is down must not be read past: the two could see different moments of one outage."""
        await scene.runtime.snapshot()
        scene.containerd.fail_next(RuntimeUnavailable("gone"))

        with pytest.raises(RuntimeUnavailable, match="gone"):
            await scene.runtime.snapshot()
        assert scene.substitute.asked == []

    async def test_what_the_substitute_saw_began_when_it_was_asked(self, scene: Scene) -> None:
        """The earlier of the two readings counts."""
        await scene.runtime.snapshot()
        scene.containerd.fail_next(AnswerTooLarge("larger than max"))

        view = await scene.runtime.snapshot()

        assert view.began == scene.substitute.asked[-1].began

    async def test_if_the_substitute_fails_too_both_are_told(self, scene: Scene) -> None:
        await scene.runtime.snapshot()
        scene.containerd.fail_next(AnswerTooLarge("larger than max"))
        scene.substitute.cut("no CRI")

        with pytest.raises(
            RuntimeUnavailable, match=r"larger than max; nor can it be read with the help of the CRI: no CRI"
        ):
            await scene.runtime.snapshot()

    async def test_without_a_substitute_it_is_unknown(self, scene: Scene) -> None:
        a_pod(scene.docker, "uid-2")
        scene.containerd.cut("no socket")
        await scene.runtime.snapshot()
        scene.docker.fail_next(AnswerTooLarge("larger than max"))

        with pytest.raises(AnswerTooLarge):
            await scene.runtime.snapshot()

    async def test_the_substitute_is_closed_as_well(self, scene: Scene) -> None:
        hints = scene.substitute.changes()
        await anext(hints)
        scene.containerd.fail_next(AnswerTooLarge("larger than max"))
        await scene.runtime.snapshot()
        await scene.runtime.aclose()

        with pytest.raises(RuntimeUnavailable):
            await anext(hints)
