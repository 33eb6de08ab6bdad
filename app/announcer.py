"""What the service manager is told of us, and when."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from adapters.kubelet.plugins import KubeletPlugins
from adapters.systemd.notify import ServiceManager
from app.health import Health, Phase


class Announcer:
    """Says READY, how we are whenever that changes, and that we live.

    READY means that journal and directories are as they must be and that the plugin's sockets answer: units that are
    ordered after us, the kubelet's for one, may start.  So it waits neither for the kubelet nor for what only a kubelet
    makes, its directory.  A standby is ready at once.

    The sign of life comes from the event loop, and only while everything else of ours turns too.
    """

    def __init__(self, *, manager: ServiceManager, health: Health, plugins: KubeletPlugins) -> None:
        self._manager = manager
        self._health = health
        self._plugins = plugins
        self._wake = asyncio.Event()
        self._said: str | None = None

    async def run(self) -> None:
        """Tell until cancelled; end at once if nobody wants to know."""
        if not self._manager.wanted:
            return
        loop, watchdog = asyncio.get_running_loop(), self._manager.watchdog
        due = loop.time()
        with self._health.watched(self._wake.set), self._plugins.watched(self._wake.set):
            while True:
                self._wake.clear()
                self._tell()
                if watchdog is not None and loop.time() >= due:
                    due = loop.time() + self._live(watchdog)
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if watchdog is None else due - loop.time()):
                        await self._wake.wait()

    def leave(self) -> None:
        """Say that we are about to end; only once."""
        if self._health.phase is not Phase.STOPPING:
            self._health.enter(Phase.STOPPING)
            self._manager.stopping()

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Say that a changed configuration is being taken over, and READY again afterwards, however that went.

        Who has not heard READY yet hears of neither: it would take the second one for the first.
        """
        if self._said is None:
            yield
            return
        self._manager.reloading()
        try:
            yield
        finally:
            if self._health.phase is not Phase.STOPPING:
                self._said = self._health.readiness().summary
                self._manager.ready(self._said)

    def _tell(self) -> None:
        begun = self._health.phase is Phase.STANDBY or (self._health.phase is Phase.SERVING and self._plugins.begun)
        if self._said is None and not begun:
            return
        if self._health.phase is Phase.STOPPING:
            return
        text = self._health.readiness().summary
        if self._said is None:
            self._manager.ready(text)
        elif text != self._said:
            self._manager.status(text)
        self._said = text

    def _live(self, watchdog: float) -> float:
        """Give a sign of life if we live; return the seconds until the next."""
        if self._health.troubles():
            return watchdog / 8
        self._manager.alive()
        return watchdog / 2
