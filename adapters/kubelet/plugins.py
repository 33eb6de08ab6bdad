"""All pools together, as the kubelet meets them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final

from adapters.kubelet.directory import PluginDirectory
from adapters.kubelet.lists import KubeletLists
from adapters.kubelet.server import selinux_hint
from adapters.kubelet.session import KubeletSession, Times
from adapters.kubelet.watch import DirectoryWatch
from domain.ports.inbound import DevicePlugin
from domain.ports.kubelet import PodResources, Registration
from domain.ports.reports import Reports
from domain.resource import ResourceName

_LOOK: Final = 0.5
"""Seconds between two looks whether a foreign socket is still there."""


@dataclass(slots=True)
class _Running:
    """A session, and what its pool is told apart by in the names of its sockets.

    Attributes:
        task: that runs it, ``None`` before the first.
    """

    session: KubeletSession
    number: int
    task: "asyncio.Task[None] | None" = None


class KubeletPlugins:
    """Runs a session for each pool, as long as the pool is served.

    Sessions start when no other process serves under our names: a second plugin for one resource takes the devices
    from the first, and when either ends the kubelet cuts off both.  Which pools there are is asked when it runs, and
    again when it is told to follow.
    """

    def __init__(
        self,
        *,
        plugins: Callable[[], Sequence[DevicePlugin]],
        directory: PluginDirectory,
        watch: DirectoryWatch,
        pod_resources: PodResources,
        lists: KubeletLists,
        reports: Reports,
        registered: Callable[[], None],
        take_over: bool,
        times: Times | None = None,
    ) -> None:
        self._plugins = plugins
        self._pod_resources = pod_resources
        self._lists = lists
        self._registered = registered
        self._times = times or Times()
        self._sessions: dict[ResourceName, _Running] = {}
        self._follow = asyncio.Event()
        self._restarts = 0
        self._directory = directory
        self._watch = watch
        self._reports = reports
        self._take_over = take_over
        self._obstacle: str | None = None
        self._running = False
        self._watchers: list[Callable[[], None]] = []

    async def run(self) -> None:
        """Serve and register every pool until cancelled."""
        self._sessions = {}
        self._meet()
        self._running = True
        self._changed()
        if not self._sessions:
            self._reports.note("no pool is configured: there is nothing to serve")
        for name in self._directory.leftovers():
            self._clear(name)
        await self._alone()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch.run(), name="watch of the plugin directory")
            while True:
                self._follow.clear()
                await self._part()
                self._meet()
                for resource, each in self._sessions.items():
                    each.session.renew()
                    if each.task is None:
                        each.task = tasks.create_task(each.session.run(), name=f"session of {resource}")
                self._changed()
                await self._follow.wait()

    def follow(self) -> None:
        """Serve the pools that there are now: sessions begin and end with them, and all others go on as they are."""
        self._follow.set()

    async def flush(self) -> None:
        """Wait until the lists that were published last are written to the kubelet; the caller bounds the wait."""
        await self._lists.flush()

    @property
    def obstacle(self) -> str | None:
        """Why no session has started yet, ``None`` once they have."""
        return self._obstacle

    @property
    def begun(self) -> bool:
        """Whether every socket answers that can: the kubelet's directory, or a rival's end, may still be awaited."""
        sessions = [each.session for each in self._sessions.values()]
        return self._running and (self._obstacle is not None or all(session.begun for session in sessions))

    @contextmanager
    def watched(self, wake: Callable[[], None]) -> Iterator[None]:
        """Have ``wake`` called after every change of how things stand, for as long as the context lasts."""
        self._watchers.append(wake)
        try:
            yield
        finally:
            self._watchers.remove(wake)

    def registrations(self) -> dict[ResourceName, Registration]:
        """Return how each pool stands."""
        return {resource: each.session.status for resource, each in self._sessions.items()}

    @property
    def kubelet_restarts(self) -> int:
        """How often the kubelet started anew while we watched."""
        seen = (each.session.kubelets - 1 for each in self._sessions.values())
        self._restarts = max(self._restarts, *seen, 0)
        return self._restarts

    def _meet(self) -> None:
        """Make a session for each pool that has none; it does not run yet."""
        for plugin in self._plugins():
            if plugin.resource not in self._sessions:
                taken = {each.number for each in self._sessions.values()}
                number = next(number for number in count() if number not in taken)
                self._sessions[plugin.resource] = _Running(self._session(plugin, number), number)

    async def _part(self) -> None:
        """End the session of each pool that is not served any more."""
        served = {plugin.resource for plugin in self._plugins()}
        for resource in [each for each in self._sessions if each not in served]:
            task = self._sessions[resource].task
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))
            self._restarts = self.kubelet_restarts  # the one that goes may be the one that counted them all
            del self._sessions[resource]

    def _session(self, plugin: DevicePlugin, number: int) -> KubeletSession:
        return KubeletSession(
            plugin=plugin,
            number=number,
            directory=self._directory,
            watch=self._watch,
            pod_resources=self._pod_resources,
            lists=self._lists,
            reports=self._reports,
            registered=self._registered,
            changed=self._changed,
            times=self._times,
        )

    def _changed(self) -> None:
        for wake in tuple(self._watchers):
            wake()

    def _clear(self, name: str) -> None:
        try:
            self._directory.unlink(name)
        except OSError as error:
            self._reports.warn(
                "the socket of a dead process cannot be removed",
                socket=name,
                reason=error.strerror,
                cure=f"run as root{selinux_hint()}; until then it does no harm",
            )
        else:
            self._reports.note("the socket of a dead process was removed", socket=name)

    async def _alone(self) -> None:
        foreigners = self._directory.foreigners()
        if foreigners and self._take_over:
            self._reports.warn("other device plugins are overridden", sockets=list(foreigners))
            return
        told: tuple[str, ...] = ()
        while foreigners:
            self._obstacle = f"another device plugin serves {', '.join(foreigners)} in {self._directory.path}"
            if foreigners != told:
                told = foreigners
                self._changed()
                self._reports.warn(
                    "not registering",
                    reason=self._obstacle,
                    cure="stop it, or start this plugin with --take-over",
                )
            await asyncio.sleep(_LOOK)
            foreigners = self._directory.foreigners()
        self._obstacle = None
        self._changed()
