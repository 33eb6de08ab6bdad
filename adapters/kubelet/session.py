"""How a pool gets registered with the kubelet, and stays so.

A session serves, registers, is watched, and lasts until something ends it; then the next one begins, for ever.  A
restart of the kubelet is the ordinary end of a session and no special case.  The old server always ends before the
new one begins: the kubelet keeps one client a resource name, and the end of any older stream tears down the newest.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Never

from adapters.kubelet.directory import KubeletSocket, PluginDirectory
from adapters.kubelet.feed import DeviceFeed
from adapters.kubelet.lists import KubeletLists
from adapters.kubelet.registration import Refusal, register
from adapters.kubelet.server import NoSocket, PluginServer, selinux_hint, serving
from adapters.kubelet.watch import DirectoryWatch
from domain.errors import MemifError
from domain.pool import Health
from domain.ports.inbound import DevicePlugin
from domain.ports.kubelet import KubeletUnavailable, PodResources, Registration
from domain.ports.reports import Reports
from domain.reply import Reply

_FIRST_RETRY: Final = 0.001
"""Seconds after which a socket that refused is tried again: the kubelet binds a moment before it listens."""

_FREE_ENDINGS: Final = 2
"""Ordinary endings in a row without a pause: a starting kubelet closes the stream, then wipes the next socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds that a session allows.

    Attributes:
        register: for the registration call; the kubelet dials back inside it for up to ten.
        stream: from the kubelet's consent until it opens its stream.
        first_check: from then until it is asked whether it knows our devices.
        check_interval: between later questions of that kind.
        settled: a session that lasted so long makes the back-off start anew.
        shortest_pause: first pause of the back-off, which doubles.
        longest_pause: its limit.
    """

    register: float = 15.0
    stream: float = 5.0
    first_check: float = 1.0
    check_interval: float = 60.0
    settled: float = 10.0
    shortest_pause: float = 0.1
    longest_pause: float = 60.0


_CHECKS: Final = 3
"""Answers without our devices until the kubelet is believed not to know them: it applies a list in its own time."""


class _Ended(MemifError):
    """A session is over.

    Attributes:
        fault: something is wrong that an immediate next attempt would only meet again.
    """

    def __init__(self, reason: str, *, fault: bool = False) -> None:
        super().__init__(reason)
        self.fault = fault


class KubeletSession:
    """Keeps one pool registered.

    ``registered`` is called each time that the kubelet watches a new session: it may have started containers from
    its own record meanwhile, without asking us first.  ``changed`` is called after every change of ``status``.
    """

    def __init__(
        self,
        *,
        plugin: DevicePlugin,
        number: int,
        directory: PluginDirectory,
        watch: DirectoryWatch,
        pod_resources: PodResources,
        lists: KubeletLists,
        reports: Reports,
        registered: Callable[[], None],
        changed: Callable[[], None],
        times: Times,
    ) -> None:
        self._plugin = plugin
        self._number = number
        self._directory = directory
        self._watch = watch
        self._pod_resources = pod_resources
        self._lists = lists
        self._reports = reports
        self._registered = registered
        self._changed = changed
        self._times = times
        self._wake = asyncio.Event()
        self._registered_with: KubeletSocket | None = None
        self._met: KubeletSocket | None = None
        self._endings = 0
        self._told: str | None = None
        self._status = Registration(reason="not started")
        self._feed: DeviceFeed | None = None
        self.begun = False
        """Whether a first socket was opened, or turned out to be impossible for now."""
        self.kubelets = 0
        """Incarnations of the kubelet that accepted us."""

    @property
    def status(self) -> Registration:
        """How the pool stands now."""
        return self._status if self._feed is None else replace(self._status, streams=self._feed.streams)

    @status.setter
    def status(self, status: Registration) -> None:
        self._status = replace(status, streams=0)  # counted when somebody asks
        self._changed()

    def renew(self) -> None:
        """Take over what may have changed of the pool beside its list, and keep the stream."""
        if self._feed is not None:
            self._feed.renew(self._plugin.list_interval)

    async def run(self) -> None:
        """Keep the pool registered until cancelled."""
        unsubscribe = self._watch.subscribe(self._wake.set)
        try:
            while True:
                await self._pause(await self._one())
        finally:
            unsubscribe()
            self.status = replace(self.status, registered=False, watched=False, endpoint=None, reason="stopped")

    async def _one(self) -> _Ended:
        """Live one session and return what ended it."""
        path = self._directory.new_socket(self._number)
        self._met = self._directory.kubelet()
        try:
            async with serving(
                path=path,
                plugin=self._plugin,
                reports=self._reports,
                changed=self._wake.set,
                interval=self._plugin.list_interval,
            ) as server:
                with self._lists.served(self._plugin.resource, server.feed.publish, server.feed.flush):
                    self._feed, self.begun = server.feed, True
                    await self._live(server)
        except _Ended as ending:
            return ending
        except NoSocket as error:
            # The directory may not be there before the kubelet's first start; nothing is wrong with that.
            self.begun = True
            return _Ended(str(error), fault=True)
        finally:
            self._feed = None

    async def _live(self, server: PluginServer) -> Never:
        self._met = kubelet = await self._accepting(server)
        if kubelet != self._registered_with:
            self._endings = 0
        await self._register(server, kubelet)
        await self._be_watched(server, kubelet)
        await self._last(server, kubelet)

    async def _accepting(self, server: PluginServer) -> KubeletSocket:
        """Wait until the kubelet's socket accepts connections."""
        self.status = replace(self.status, registered=False, watched=False, endpoint=server.endpoint)
        seen, delay = None, _FIRST_RETRY
        loop = asyncio.get_running_loop()
        worth_telling = loop.time() + self._times.shortest_pause
        while True:
            self._wake.clear()
            kubelet = self._directory.kubelet()
            if kubelet != seen:
                seen, delay = kubelet, _FIRST_RETRY
            reply = self._directory.kubelet_reply()
            if server.lost:
                raise _Ended("the plugin's socket was removed")
            if reply is Reply.ANSWERS and kubelet is not None and kubelet == self._directory.kubelet():
                return kubelet
            # A kubelet that starts wipes its socket, binds it anew and listens: each moment of that is nothing to tell.
            early = worth_telling - loop.time()
            if early <= 0:
                self._tell(_waiting(reply, self._directory.kubelet_path))
            await self._woken(delay if kubelet is not None else early if early > 0 else None)
            delay = min(delay * 2, 1.0)

    async def _register(self, server: PluginServer, kubelet: KubeletSocket) -> None:
        call = asyncio.create_task(
            register(
                socket=self._directory.kubelet_path,
                endpoint=server.endpoint,
                resource=self._plugin.resource,
                deadline=self._times.register,
            )
        )
        call.add_done_callback(lambda _: self._wake.set())
        try:
            while not call.done():
                self._wake.clear()
                self._check(server, kubelet)
                await self._woken(None)
            call.result()
        except Refusal as refusal:
            self.status = replace(self.status, failures=self.status.failures + 1)
            raise _Ended(str(refusal), fault=True) from refusal
        finally:
            call.cancel()
            await asyncio.wait((call,))
        if kubelet != self._registered_with:
            self.kubelets += 1
        self._registered_with = kubelet
        self.status = replace(self.status, registered=True, registrations=self.status.registrations + 1)

    async def _be_watched(self, server: PluginServer, kubelet: KubeletSocket) -> None:
        try:
            async with asyncio.timeout(self._times.stream):
                while not server.feed.streams:
                    self._wake.clear()
                    self._check(server, kubelet)
                    await self._woken(None)
        except TimeoutError as error:
            raise _Ended("the kubelet took the registration and does not watch the devices", fault=True) from error
        self._told = None
        self.status = replace(self.status, watched=True, reason=None)
        self._reports.note("registered with the kubelet", resource=self._plugin.resource, endpoint=server.endpoint)
        self._registered()

    async def _last(self, server: PluginServer, kubelet: KubeletSocket) -> Never:
        """Watch over a session until it ends."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        known = asyncio.create_task(self._known_to_the_kubelet())
        known.add_done_callback(lambda _: self._wake.set())
        try:
            while True:
                self._wake.clear()
                self._check(server, kubelet)
                if not server.feed.streams:
                    raise _Ended("the kubelet closed its stream of devices")
                if known.done():
                    known.result()
                await self._woken(None)
        finally:
            if loop.time() - begun >= self._times.settled:
                self._endings = 0
            known.cancel()
            await asyncio.wait((known,))

    async def _known_to_the_kubelet(self) -> Never:
        """Ask from time to time whether our devices are the ones that the kubelet has.

        Two plugins may serve one name; the kubelet listens to both streams and asks the one that registered last.
        """
        misses, pause = 0, self._times.first_check
        while True:
            await asyncio.sleep(pause)
            healthy = frozenset(each.id for each in self._plugin.devices() if each.health is Health.HEALTHY)
            pause = self._times.check_interval
            try:
                known = await self._pod_resources.allocatable(self._plugin.resource)
            except KubeletUnavailable:
                continue  # says nothing about us; the open stream still does
            if not healthy or not known.isdisjoint(healthy):
                misses = 0
                continue
            misses, pause = misses + 1, self._times.first_check
            if misses >= _CHECKS:
                raise _Ended(
                    "the kubelet does not list the plugin's devices; another plugin may serve them", fault=True
                )

    def _check(self, server: PluginServer, kubelet: KubeletSocket) -> None:
        """End the session if its ground is gone.

        A kubelet socket that is merely missing ends nothing: the kubelet lives as long as its stream does, and would
        not make the socket again before its next start.
        """
        if server.lost:
            raise _Ended("the plugin's socket was removed")
        now = self._directory.kubelet()
        if now is not None and now != kubelet:
            raise _Ended("the kubelet started anew")

    async def _pause(self, ending: _Ended) -> None:
        """Wait before the next session, as long as the kubelet is the one of the session that ended.

        It may have gone while that session was ending, and the new one must not wait for what the old one earned.
        """
        self.status = replace(self.status, registered=False, watched=False, endpoint=None, reason=str(ending))
        self._endings += 1
        if ending.fault:
            self._tell(str(ending))
        else:
            self._reports.note("a session with the kubelet ended", resource=self._plugin.resource, reason=str(ending))
            if self._endings <= _FREE_ENDINGS:
                return
        loop = asyncio.get_running_loop()
        until = loop.time() + self._back_off()
        while (left := until - loop.time()) > 0:
            self._wake.clear()
            if self._directory.kubelet() != self._met:
                return
            await self._woken(left)

    def _back_off(self) -> float:
        doubled = self._times.shortest_pause * 2.0 ** min(self._endings - 1, 30)
        return min(doubled, self._times.longest_pause) * random.uniform(0.5, 1.0)  # noqa: S311 -- spreads load

    def _tell(self, reason: str) -> None:
        """Say why the pool is not registered, once a reason."""
        self.status = replace(self.status, reason=reason)
        if reason != self._told:
            self._told = reason
            self._reports.warn("not registered with the kubelet", resource=self._plugin.resource, reason=reason)

    async def _woken(self, limit: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self._wake.wait()


def _waiting(reply: Reply, path: str) -> str:
    match reply:
        case Reply.DENIED:
            return f"no permission to connect to {path}; run as root{selinux_hint()}"
        case Reply.REFUSES:
            return f"nobody listens on {path}; waiting for the kubelet to start"
        case Reply.ABSENT | Reply.ANSWERS:
            return f"there is no {path} yet; waiting for the kubelet to start"
