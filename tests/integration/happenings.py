"""What can happen to a node in a history, a method for each word of it."""

import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from adapters.memory.node import Pod
from domain.errors import MemifError
from domain.lookup import Question
from tests.integration.crash import Killed, frozen, thaw
from tests.integration.disk_faults import disk_fault
from tests.integration.histories import CHANCES, CONFIGURATIONS, CURES, KEPT, SHAPES
from tests.integration.history import History, Step
from tests.integration.socketless import GRACE, RESOURCE, Stand, settings
from tests.integration.soundness import MODE, Given, forced, must, running

STRAY: Final = "zzzzzzzzzzzzzzzzzzz"
"""With a digit after it, a well-formed id that is never drawn."""

MOMENT: Final = 0.01
"""Seconds that pass between two steps, so that there is a before and an after."""

_GARBLED: Final = "{"


class Happenings:
    """Lets things happen on a stand.

    Attributes:
        given: what containers were given, as far as that must not change.
        pods: the last pod of each name.
        wiped: whether directories were taken away since that was last set back.
        mended: whether nothing happened to them since the daemon looked at them all.
        journal_lost: whether the journal was lost, or a part of it.
        disk_failed: whether a disk ever failed.
        forced: whether an operator ever removed something by force.
        strays: when directories that nobody knows were made, by name.
        configured: which configuration the next start has.
    """

    def __init__(self, stand: Stand, history: History) -> None:
        self.stand = stand
        self.given = Given()
        self.pods: dict[int, Pod] = {}
        self.wiped = False
        self.mended = True
        self.journal_lost = self.disk_failed = self.forced = False
        self.configured = 0
        self.strays: dict[str, float] = {}
        self._delivery = history.delivery
        self._file: str | None = None
        self._journals: list[dict[str, bytes]] = []
        self._files: list[str] = []
        if any(step.verb == "power-loss" for step in history.steps):
            stand.power.committing = self._committing

    async def do(self, step: Step) -> None:
        """Let one thing happen."""
        await _VERBS[step.verb](self, *step.arguments)

    def show(self) -> None:
        """End what the rules do not claim to bear: a runtime that hides everything and a kubelet without pods."""
        node = self.stand.node
        if node.running and not any(True for _ in node.kubelet.active):
            self.stand.runtime.hidden = False

    def _pod(self, slot: int) -> Pod | None:
        """Return a pod that the kubelet is to run."""
        found = self.pods.get(slot)
        return found if found in self.stand.node.pods else None

    async def admit(self, slot: int, shape: int, started: int) -> None:
        """A pod comes, unless there is one of its name; a node that does not offer the resource is given none.

        Its containers are started at once, or later, as if their images were being pulled.
        """
        node, spec = self.stand.node, SHAPES[shape](f"pod-{slot}")
        if self._pod(slot) is not None or not self._offers():
            return
        uid = spec.hash(node.name)
        if any(each.uid == uid for each in node.orphans):  # the real kubelet waits until the old one has ended
            return
        if node.running and not node.ready:
            return
        self.stand.clock.advance(MOMENT)
        self.pods[slot] = await node.admit(spec)
        if started:
            await self.start(slot)

    def _offers(self) -> bool:
        node = self.stand.node
        if node.running:
            return bool(node.kubelet.devices.knows(RESOURCE))
        return node.checkpoint_path.exists() and RESOURCE in node.checkpoint_path.read_text(encoding="utf-8")

    async def start(self, slot: int) -> None:
        """The kubelet starts what a pod lacks; it cannot without the runtime."""
        found = self._pod(slot)
        if found is not None and not found.terminal and self.stand.runtime.reachable:
            await self._starting(lambda: self.stand.node.attempt(found))

    async def _starting(self, starts: Callable[[], Awaitable[object]]) -> None:
        """Let containers start, and look at their directories if the daemon has had the chance to prepare them.

        It has if the kubelet calls it before each start, and even if not, if nothing happened to the directories
        since it last looked at them: it does so before it registers.
        """
        stand, house = self.stand, self.stand.house
        known = {each.id for one in (*stand.node.pods, *stand.node.orphans) for each in one.containers}
        asked = house is not None and house.registered
        await starts()
        if house is None or house is not stand.house or stand.power.dead or not (asked or self.mended):
            return
        for one, container, name in running(stand):
            if container.id not in known and name not in forced(stand):
                mode = stat.S_IMODE((stand.host_dir / name).stat().st_mode)
                must(mode == MODE, f"{one.name}/{container.name} was started on a directory ({name}) of mode {mode:o}")

    async def restart(self, slot: int) -> None:
        """A pod's containers end, one after the other, and are started again."""
        found = self._pod(slot)
        if found is not None and found.started:
            for each in found.containers:
                if each.running:
                    self.stand.node.exit_container(found, each.name)
                    await self.start(slot)

    async def delete(self, slot: int) -> None:
        found = self._pod(slot)
        if found is not None and self.stand.runtime.reachable:
            await self.stand.node.delete(found)

    async def force(self, slot: int) -> None:
        found = self._pod(slot)
        if found is not None:
            await self.stand.node.force_delete(found)

    async def finish(self) -> None:
        """What still runs of deleted pods ends."""
        for each in self.stand.node.orphans if self.stand.runtime.reachable else ():
            await self.stand.node.finish(each)

    async def complete(self, slot: int) -> None:
        """A pod's containers end well; its object stays, and so do its containers."""
        found = self._pod(slot)
        if found is not None and found.started and self.stand.runtime.reachable:
            await self.stand.node.complete(found)

    async def release(self, slot: int) -> None:
        """Somebody says that a pod is gone, rightly or not."""
        house = self.stand.house
        if house is not None:
            question = Question(namespace="telco", name=f"pod-{slot}")
            with suppress(MemifError, Killed):
                await house.container.release_pod()(question, reason="a history")

    async def force_out(self, slot: int) -> None:
        """An operator removes a pod's directories, whatever uses them."""
        house = self.stand.house
        if house is not None:
            self.wiped, self.mended, self.forced = True, False, True
            question = Question(namespace="telco", name=f"pod-{slot}")
            with suppress(MemifError, Killed):
                await house.container.release_pod().force(question, reason="a history")

    async def reconcile(self) -> None:
        """The resync rules are run, if there is somebody to run them; what the disk refuses is told and bears."""
        if self.stand.house is not None:
            with suppress(MemifError, Killed):
                await self.stand.house.reconcile()
                self.mended = self.mended or self.stand.power.fault is None

    async def time(self, seconds: int) -> None:
        """Time passes, and a reconcile comes."""
        self.stand.clock.advance(seconds)
        if self.stand.node.running:
            self.stand.node.resources()  # a plugin that has been away for too long is forgotten
        await self.reconcile()

    async def run(self) -> None:
        """The daemon is started, if it does not run; it may end while it starts."""
        if self.stand.house is None:
            await self._run()

    async def _run(self) -> None:
        try:
            await self.stand.run()
        except Killed:
            self.stand.bury()
        except MemifError:  # it says so and exits with code 3
            self.stand.kill()
        else:
            self.mended = self.mended or self.stand.power.fault is None

    async def kill(self) -> None:
        self.stand.kill()

    async def kill_before(self, moment: int) -> None:
        """The daemon will end so many moments from now; see :class:`tests.integration.crash.Power`."""
        self.stand.power.end_before(moment)

    async def meanwhile(self, turns: int, steps: int) -> None:
        """Without a step after it, nothing."""

    async def configure(self, number: int) -> None:
        """The daemon will be started with another configuration."""
        self.configured = number
        keys = CONFIGURATIONS[number]
        stand = self.stand
        pool = {"secret_delivery": self._delivery, **(keys or {})}
        stand.settings = settings(stand.root, **pool)
        if keys is None:
            stand.settings = stand.settings.model_copy(update={"pools": ()})

    async def kubelet_garbles(self) -> None:
        """The kubelet's file cannot be understood until the kubelet writes it anew, which it does before it ends."""
        if self.stand.node.ready and self._file is None:
            self._file = self.stand.node.checkpoint_path.read_text(encoding="utf-8")
            self.stand.node.checkpoint_path.write_text(_GARBLED, encoding="utf-8")

    def _write(self) -> None:
        """Write what was garbled, unless the kubelet has done so."""
        path = self.stand.node.checkpoint_path
        if self._file is not None and path.read_text(encoding="utf-8") == _GARBLED:
            path.write_text(self._file, encoding="utf-8")
        self._file = None

    async def kubelet_stop(self) -> None:
        self._write()
        await self.stand.node.stop_kubelet()

    async def kubelet_start(self) -> None:
        """A kubelet starts, or what was withheld of it comes; the daemon's list comes first, if it runs."""
        node, house = self.stand.node, self.stand.house
        if not node.running:
            await node.start_kubelet()
        if house is not None and not house.registered:
            house.register()
        await self._starting(node.deliver)
        await self.reconcile()

    async def kubelet_comes_first(self) -> None:
        """A kubelet starts anew and admits its pods, and the daemon does not get to register yet."""
        await self.kubelet_stop()
        await self.stand.node.start_kubelet()
        await self._starting(self.stand.node.deliver)

    async def kubelet_stays_alone(self) -> None:
        """A kubelet starts anew, and its sources deliver nothing yet, as while the API server is away."""
        await self.kubelet_stop()
        await self.stand.node.start_kubelet()
        if self.stand.house is not None:
            self.stand.house.register()
            await self.reconcile()

    async def kubelet_dies(self) -> None:
        """The kubelet will die between an answer and its record."""
        self._write()
        if self.stand.node.ready:
            self.stand.node.die_after_next_answer()

    async def runtime_down(self) -> None:
        self.stand.runtime.cut()

    async def runtime_hides(self) -> None:
        """The runtime answers and shows nothing, as one that just started, or another than the kubelet's."""
        self.stand.runtime.hidden = True
        self.show()

    async def runtime_up(self) -> None:
        self.stand.runtime.restore()

    async def disk_fails(self, where: int, how: int, often: int) -> None:
        """Every so many steps of storage fail, at one place or both, until the disk works again."""
        self.disk_failed = True
        self.stand.power.fault = disk_fault(where, how, often)

    async def disk_works(self) -> None:
        self.stand.power.fault = None

    async def empty(self) -> None:
        """Somebody empties ``/var/run`` under the running node."""
        self.wiped = True
        self.mended = False
        self.stand.empty()

    async def stray(self, number: int) -> None:
        """A directory comes that nobody knows, as one of a container whose record was lost would be."""
        path = self.stand.host_dir / f"{STRAY}{number}"
        if self.stand.host_dir.exists() and not path.exists():
            path.mkdir()
            self.strays[path.name] = self.stand.clock.monotonic()

    def check_strays(self) -> None:
        """Fail if a directory that nobody knows is gone before the grace is over."""
        gone = self.strays.keys() - self.stand.directories().keys()
        age = {name: self.stand.clock.monotonic() - self.strays.pop(name) for name in gone}
        young = {name: age for name, age in age.items() if age < GRACE}
        must(self.wiped or not young, f"nobody knew these for less than the grace, and they are gone: {young}")

    async def reboot(self, late: int, keep: int) -> None:
        """The machine restarts; ``/var/run`` is usually in memory."""
        self.wiped = True
        self.mended = False
        await self._booted(None if keep else self.stand.empty, late=bool(late))

    async def power_loss(self, commits: int, file: int, keep: int) -> None:
        """As a reboot, and what was not on the disk yet is lost: commits of the journal, a write of the kubelet's."""
        self.wiped = True
        self.mended = False
        self.given.forget()

        def lost() -> None:
            if not keep:
                self.stand.empty()
            if commits and self._journals:
                self.journal_lost = True
                thaw(self.stand.state_dir, self._journals[-min(commits, len(self._journals))])
            if file and self._files:
                self.stand.node.checkpoint_path.write_text(self._files[-1], encoding="utf-8")

        await self._booted(lost, late=False)

    async def _booted(self, meanwhile: Callable[[], None] | None, *, late: bool) -> None:
        self.stand.runtime.restore()
        self._write()
        try:
            await self.stand.reboot(meanwhile or (lambda: None), late=late)
        except Killed:
            self.stand.bury()
        except MemifError:
            self.stand.kill()
        if self.stand.node.running and not self.stand.node.ready:
            await self.stand.node.deliver()

    async def lose_journal(self) -> None:
        """Somebody deletes the state directory of a daemon that is down.

        With it and the directories a secret that is delivered by file is lost for good, so not then.
        """
        if self._delivery != "file":
            self.stand.kill()
            self.journal_lost = True
            thaw(self.stand.state_dir, {})
            self._journals.clear()

    def _committing(self, durable: bool) -> None:  # noqa: FBT001 -- a callback with one argument
        """Keep what a loss of power may bring back: the last states of the journal, and of the kubelet's file."""
        self._journals = [] if durable else [*self._journals, frozen(self.stand.state_dir)][-KEPT:]
        path = self.stand.node.checkpoint_path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if text and (not self._files or self._files[-1] != text):
            self._files = [*self._files, text][-2:]


_VERBS: Final[dict[str, Callable[..., Awaitable[Any]]]] = {
    verb: getattr(Happenings, verb.replace("-", "_")) for verb in (*CHANCES, *CURES.values())
}
