"""Whether our own loops turn, and whether we are of use."""

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from adapters.memory.clock import ManualClock
from adapters.system.lock import Holder, NodeLock
from adapters.system.worker import ThreadWorker
from app.health import PATIENCE, Health, Loops, Phase
from app.settings import PoolSettings
from app.use_cases.state import State
from domain.ports.kubelet import Registration
from domain.resource import ResourceName
from tests.unit.house import FAST

ONE, OTHER = ResourceName("contivpp.io/memif"), ResourceName("example.com/fast")
SERVED = Registration(registered=True, watched=True, endpoint="contiv-vpp.abcdefgh-0.sock", registrations=1)


class Standings:
    """How pools stand with the kubelet, as somebody put it here."""

    def __init__(self) -> None:
        self.obstacle: str | None = None
        self.kubelet_restarts = 0
        self.pools: dict[ResourceName, Registration] = {}

    def registrations(self) -> Mapping[ResourceName, Registration]:
        return self.pools


class Worker:
    """As much of the storage worker as is looked at."""

    def __init__(self) -> None:
        self.busy_since: float | None = None


class Lock:
    """As much of the lock as is looked at."""

    def __init__(self) -> None:
        self.found: Holder | None = None

    def holder(self) -> Holder | None:
        return self.found


class Scene:
    """A process that is served with everything that its health is made of."""

    def __init__(self, *pools: PoolSettings) -> None:
        self.clock, self.standings, self.worker, self.lock = ManualClock(), Standings(), Worker(), Lock()
        self.loops = Loops(clock=self.clock)
        self.health = Health(
            loops=self.loops,
            worker=cast("ThreadWorker", self.worker),
            lock=cast("NodeLock", self.lock),
            state=State(pools=[each.to_domain() for each in pools], clock=self.clock),
            registrations=self.standings,
            clock=self.clock,
        )


@pytest.fixture
def scene() -> Scene:
    return Scene(PoolSettings(), FAST)


class TestLoops:
    def test_one_that_turns_is_well(self, scene: Scene) -> None:
        with scene.loops.loop("a") as turn:
            for _ in range(10):
                scene.clock.advance(PATIENCE - 0.001)
                assert scene.health.troubles() == ()
                turn(PATIENCE)

    def test_one_that_does_not_turn_for_as_long_as_it_said_is_hung_until_it_does(self, scene: Scene) -> None:
        with scene.loops.loop("a") as turn, scene.loops.loop("b") as other:
            turn(60)
            scene.clock.advance(59.9)
            other(60)
            assert scene.loops.hung() == ()
            scene.clock.advance(0.1)
            assert scene.loops.hung() == ("a",)
            assert scene.health.troubles() == ("a does not turn any more",)
            turn(60)
            assert scene.loops.hung() == ()

    def test_one_that_never_turned_is_hung_in_the_usual_time(self, scene: Scene) -> None:
        with scene.loops.loop("a"):
            scene.clock.advance(PATIENCE)

            assert scene.loops.hung() == ("a",)

    def test_one_that_ended_by_itself_does_not_turn(self, scene: Scene) -> None:
        with scene.loops.loop("a"):
            pass

        assert scene.loops.hung() == ("a",)

    @pytest.mark.parametrize("end", [asyncio.CancelledError, RuntimeError])
    def test_one_that_was_told_to_end_or_failed_is_nobodys_concern(
        self, scene: Scene, end: type[BaseException]
    ) -> None:
        """A failure ends the daemon, and says more than this could."""
        with pytest.raises(end), scene.loops.loop("a"):
            raise end

        assert scene.loops.hung() == ()


class TestStorage:
    @pytest.mark.parametrize("seconds, well", [(0.0, True), (8.9, True), (9.0, False), (3600.0, False)])
    def test_a_job_that_runs_for_nine_seconds_hangs(self, scene: Scene, seconds: float, well: bool) -> None:  # noqa: FBT001 -- a table
        scene.worker.busy_since = scene.clock.monotonic()
        scene.clock.advance(seconds)

        assert (scene.health.troubles() == ()) is well

    def test_what_hangs_is_said(self, scene: Scene) -> None:
        scene.worker.busy_since = scene.clock.monotonic()
        scene.clock.advance(12.3)

        assert scene.health.troubles() == ("a storage job has been running for 12 s; a disk or mount does not answer",)


class TestReadiness:
    @pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RECOVERING, Phase.STOPPING])
    def test_nothing_is_ready_before_or_after_it_serves(self, scene: Scene, phase: Phase) -> None:
        scene.standings.pools = {ONE: SERVED, OTHER: SERVED}
        scene.health.enter(phase)
        found = scene.health.readiness()

        assert (found.ready, found.reasons) == (False, (phase.value,))

    def test_every_pool_registered_and_watched_is_ready(self, scene: Scene) -> None:
        scene.standings.pools = {ONE: SERVED, OTHER: SERVED}
        scene.health.enter(Phase.SERVING)
        found = scene.health.readiness()

        assert found.ready
        assert found.pools == ((ONE, SERVED), (OTHER, SERVED))
        assert found.summary == f"registered with the kubelet: {ONE}, {OTHER}"

    @pytest.mark.parametrize(
        "other, reason",
        [
            (None, "not started"),
            (Registration(reason="nobody listens"), "nobody listens"),
            (Registration(), "not registered yet"),
            (Registration(registered=True), "not watched by the kubelet yet"),
        ],
    )
    def test_one_pool_that_is_not_says_why(self, scene: Scene, other: Registration | None, reason: str) -> None:
        scene.standings.pools = {ONE: SERVED, **({} if other is None else {OTHER: other})}
        scene.health.enter(Phase.SERVING)
        found = scene.health.readiness()

        assert (found.ready, found.reasons) == (False, (f"{OTHER}: {reason}",))
        assert found.summary == f"{OTHER}: {reason}"

    def test_a_foreign_plugin_is_the_reason_for_all(self, scene: Scene) -> None:
        scene.standings.obstacle = "another device plugin serves contiv-vpp.sock"
        scene.health.enter(Phase.SERVING)
        found = scene.health.readiness()

        assert found.reasons == (found.obstacle,) == ("another device plugin serves contiv-vpp.sock",)

    def test_without_pools_there_is_nothing_to_wait_for(self) -> None:
        scene = Scene()
        scene.health.enter(Phase.SERVING)

        assert scene.health.readiness().ready
        assert scene.health.readiness().summary == "no pool is configured"

    @pytest.mark.parametrize("age, ready", [(0.0, True), (9.9, True), (10.0, False)])
    def test_a_standby_is_ready_behind_a_living_process(self, scene: Scene, age: float, ready: bool) -> None:  # noqa: FBT001 -- a table
        scene.lock.found = Holder(pid=7, instance="a1b2c3d4", version="1", age=age)
        scene.health.enter(Phase.STANDBY)
        found = scene.health.readiness()

        assert found.ready is ready
        assert found.holder == scene.lock.found
        expected = "standby behind process 7" if ready else "standby, and the last heartbeat of process 7 is 10 s old"
        assert found.summary == expected

    def test_a_standby_behind_nobody_who_speaks_is_not(self, scene: Scene) -> None:
        scene.health.enter(Phase.STANDBY)

        assert not scene.health.readiness().ready

    def test_whoever_stops_has_stopped(self, scene: Scene) -> None:
        """A process that gets the lock at the very moment at which it is told to stop becomes nothing more."""
        scene.health.enter(Phase.STOPPING)
        scene.health.enter(Phase.RECOVERING)

        assert scene.health.phase is Phase.STOPPING

    def test_watchers_are_told_of_each_phase_as_long_as_they_watch(self, scene: Scene) -> None:
        seen: list[Phase] = []
        with scene.health.watched(lambda: seen.append(scene.health.phase)):
            scene.health.enter(Phase.STANDBY)
            scene.health.enter(Phase.RECOVERING)
        scene.health.enter(Phase.SERVING)

        assert seen == [Phase.STANDBY, Phase.RECOVERING]
