"""A daemon that is killed before one change of one thing that it does, and what must be so after it."""

import asyncio
import shutil
import signal
import stat
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from grpc import aio

from adapters._pb.memif.v1 import memif_pb2
from adapters.kubelet.checkpoint import parse
from adapters.memory.node import ContainerSpec, Pod
from domain.ledger import Standing
from tests.e2e import cutting
from tests.e2e.daemon import RESOURCE, Daemon, Stand, a_stand, soon
from tests.e2e.node_cri import read_by_cri
from tests.integration.control import client
from tests.integration.nodes import app, init, pod, slow_readmission

_MOUNTED_AT: Final = "/run/vpp"
_MODE: Final = 0o2770

CNF: Final = (init("setup", 1, RESOURCE), app("a", 2, RESOURCE))


class Scene:
    """A node, the pods that its kubelet is to run, and at most one daemon on it."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.pods: list[Pod] = []
        self.daemon: Daemon | None = None

    async def begin(self, *containers: ContainerSpec) -> None:
        """Let a daemon come, and a pod whose containers run; then the daemon is killed."""
        daemon = await self.stand.registered()
        self.pods.append(await self.stand.node.start(pod("cnf", *(containers or CNF))))
        await daemon.kill()

    async def started(self, change: int, when: str) -> Daemon:
        """Start a daemon that will be killed before a change, counted from a moment on."""
        cut = (sys.executable, "-m", "tests.e2e.cutting", str(change), when)
        self.daemon = await self.stand.run(through=cut)
        return self.daemon

    async def armed(self, change: int) -> None:
        """Start one that serves, has done what follows that, and counts from now on."""
        daemon = await self.started(change, cutting.SIGNAL)
        await daemon.registered()
        await self.stand.node.wait_registered(RESOURCE)
        await reconciled(self.stand)
        daemon.process.send_signal(signal.SIGUSR1)
        await daemon.until(lambda: cutting.COUNTING in daemon.stderr)

    async def end(self) -> None:
        """Kill the daemon, if it did not come to the change, and read all that it said."""
        if self.daemon is not None:
            await self.daemon.kill()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so, or the daemon was killed."""
        await soon(lambda: condition() or self.killed)

    @property
    def killed(self) -> bool:
        """Whether the daemon came to the change."""
        return self.daemon is not None and cutting.ENDING in self.daemon.stderr

    @property
    def mounted(self) -> set[str]:
        """The names of the directories that containers mount."""
        return {each.mounts[_MOUNTED_AT].rpartition("/")[2] for one in self.pods for each in one.containers}

    @property
    def given(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Path and secret that each container was made with; one that was only admitted is not made yet."""
        return {
            (one.uid, each.name): (each.mounts[_MOUNTED_AT], each.env["MEMIF_SECRET"])
            for one in self.pods
            for each in one.containers
            if each.mounts
        }

    async def check(self) -> None:
        """Let another daemon come, and find nothing lost and nothing left."""
        given, stand = self.given, self.stand
        daemon = await stand.registered()
        for one in self.pods:
            await stand.node.run(one)
            await stand.node.restart_container(one, "a")
        assert self.given.items() >= given.items()
        await soon(lambda: stand.directories == self.mounted)
        await reconciled(stand)
        assert all(stat.S_IMODE((stand.host_dir / name).stat().st_mode) == _MODE for name in self.mounted)
        assert await daemon.stop() == 0
        recorded = dict(stand.journal().allocations)
        assert {each.id for each in recorded} == self.mounted == self._stored
        assert set(recorded.values()) <= {Standing.LIVE}

    @property
    def _stored(self) -> set[str]:
        entries = parse(self.stand.node.checkpoint_path.read_bytes())
        return {str(name) for each in entries for name in each.named()}


async def reconciled(stand: Stand) -> None:
    """Have the daemon reconcile; what it was doing before is finished then."""
    async with client(stand.root / "control.sock") as asked:
        await asked.Reconcile(memif_pb2.ReconcileRequest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """Something that the daemon does.

    Attributes:
        before: what happens while no daemon runs.
        act: what lets it do it, and waits until it has or was killed; ``None`` for its start.
    """

    before: Callable[[Scene], Awaitable[None]]
    act: Callable[[Scene], Awaitable[None]] | None = None


async def survived(thing: Thing, changes: Iterable[int]) -> list[bool]:
    """Have daemons killed before changes of a thing, on a node each, and look at what is left of the nodes.

    Returns:
        For each change whether the daemon was not killed, because there are fewer of them.
    """
    async with asyncio.TaskGroup() as group:
        lives = [group.create_task(_life(thing, change)) for change in changes]
    return [each.result() for each in lives]


async def _life(thing: Thing, change: int) -> bool:
    async with a_stand(timing=slow_readmission(0.0)) as stand, read_by_cri(stand):
        scene = Scene(stand)
        await thing.before(scene)
        await _done(thing, scene, change)
        await scene.end()
        await scene.check()
    return not scene.killed


async def _done(thing: Thing, scene: Scene, change: int) -> None:
    if thing.act is None:
        daemon = await scene.started(change, cutting.START)
        await scene.until(lambda: daemon.said("registered with the kubelet"))
        return
    await scene.armed(change)
    await thing.act(scene)


# -- what happens before ---------------------------------------------------------------------------------------


async def nothing(scene: Scene) -> None:
    """Nobody was ever here."""
    assert scene.stand.directories == set()


async def a_pod_runs(scene: Scene) -> None:
    await scene.begin()


async def a_pod_of_one_container_runs(scene: Scene) -> None:
    """What is forced out comes back when its container starts again, which an init container does not."""
    await scene.begin(app("a", 2, RESOURCE))


async def the_journal_is_lost(scene: Scene) -> None:
    await scene.begin()
    shutil.rmtree(scene.stand.state_dir)


async def the_directories_are_lost(scene: Scene) -> None:
    await scene.begin()
    shutil.rmtree(scene.stand.host_dir)


# -- what is done ----------------------------------------------------------------------------------------------


async def grant(scene: Scene) -> None:
    """A pod that is not admitted is made again by its owner, under another uid: it is of no interest any more."""
    one = await scene.stand.node.admit(pod("two", *CNF))
    scene.pods += [one] if one.admitted else []


async def start_of_a_container(scene: Scene) -> None:
    (one,) = scene.pods
    shutil.rmtree(scene.stand.host_dir, ignore_errors=True)
    scene.stand.node.exit_container(one, "a")
    scene.stand.node.begin(one)
    await scene.until(lambda: one.container("a").running)


async def repair(scene: Scene) -> None:
    shutil.rmtree(scene.stand.host_dir, ignore_errors=True)
    await scene.until(lambda: scene.mounted <= scene.stand.directories)


async def release(scene: Scene) -> None:
    await scene.stand.node.delete(scene.pods.pop())
    await scene.until(lambda: scene.stand.directories == set())


async def force(scene: Scene) -> None:
    pod_named = memif_pb2.ReleasePodRequest(namespace="telco", name="cnf", force=True)
    async with client(scene.stand.root / "control.sock") as asked:
        with suppress(aio.AioRpcError):  # as for whoever asks a daemon that is killed
            await asked.ReleasePod(pod_named)


THINGS: Final[dict[str, Thing]] = {
    "the first start": Thing(before=nothing),
    "a start": Thing(before=a_pod_runs),
    "adoption": Thing(before=the_journal_is_lost),
    "repair at the start": Thing(before=the_directories_are_lost),
    "grant": Thing(before=a_pod_runs, act=grant),
    "the start of a container": Thing(before=a_pod_runs, act=start_of_a_container),
    "repair": Thing(before=a_pod_runs, act=repair),
    "release": Thing(before=a_pod_runs, act=release),
    "force": Thing(before=a_pod_of_one_container_runs, act=force),
}
