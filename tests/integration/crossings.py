"""Every call of a port as a step, before it is made and when it has returned.

Nobody lists the calls: whatever method a port has is forwarded through here, and a test holds that each port of the
domain is either crossed so or among those that change nothing outside the process.
"""

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from typing import Any, Final

from app.container import Container
from domain import ports
from domain.ports.checkpoint import Checkpoint
from domain.ports.clock import Clock
from domain.ports.device_info import DeviceInfoFiles
from domain.ports.entropy import Entropy
from domain.ports.journal import Journal
from domain.ports.kubelet import DeviceLists, PodResources, Registrations
from domain.ports.measures import Measures
from domain.ports.reports import Reports
from domain.ports.runtime import ContainerRuntime
from domain.ports.sockets import SocketDirectories
from domain.ports.worker import Worker
from tests.integration.crash import Power

CROSSED: Final[dict[type, str]] = {
    Checkpoint: "checkpoint",
    ContainerRuntime: "runtime",
    DeviceInfoFiles: "device_info",
    DeviceLists: "lists",
    Journal: "journal",
    PodResources: "pod_resources",
    SocketDirectories: "sockets",
    Worker: "worker",
}
"""The ports that lead to something which outlives the process, with their providers in the container."""

_OF_THE_KUBELET: Final = frozenset({DeviceLists, PodResources})
"""The ports whose calls change something in the kubelet; what others change, they change by steps on the disk."""

HARMLESS: Final = frozenset({Clock, Entropy, Measures, Registrations, Reports})
"""The ports after whose calls the world is as it was before: an end there is an end at the last step before it."""

_NOT_OF_THE_DAEMON: Final = frozenset({"inbound", "traces"})
"""Modules with what is asked of the core, and with what is used to uninstall, when no daemon runs."""


def outbound() -> Iterator[type]:
    """Yield every port of the domain through which the daemon's core reaches the world."""
    for module in pkgutil.iter_modules(ports.__path__):
        if module.name in _NOT_OF_THE_DAEMON:
            continue
        for each in vars(import_module(f"{ports.__name__}.{module.name}")).values():
            if getattr(each, "_is_protocol", False) and each.__module__.endswith(f".{module.name}"):
                yield each


class _Crossed:
    """A port whose calls are steps; closing it is none, because a process that ends does not get to do it."""

    def __init__(self, port: object, noun: str, step: Callable[[str], None], changed: Callable[[], None]) -> None:
        self._port = port
        self._noun = noun
        self._step = step
        self._changed = changed

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name == "close" or not inspect.ismethod(found) or inspect.isasyncgenfunction(found):
            return found
        what = f"{self._noun}.{name}"
        return self._waiting(found, what) if inspect.iscoroutinefunction(found) else self._plain(found, what)

    def _plain(self, call: Callable[..., Any], what: str) -> Callable[..., Any]:
        @wraps(call)
        def crossed(*arguments: Any, **options: Any) -> Any:
            self._step(what)
            result = call(*arguments, **options)
            self._changed()
            self._step(f"{what} is done")
            return result

        return crossed

    def _waiting(self, call: Callable[..., Any], what: str) -> Callable[..., Any]:
        @wraps(call)
        async def crossed(*arguments: Any, **options: Any) -> Any:
            self._step(what)
            result = await call(*arguments, **options)
            self._changed()
            self._step(f"{what} is done")
            return result

        return crossed


def uncross(container: Container) -> None:
    """Have a container's ports be its own again."""
    for provider in CROSSED.values():
        getattr(container, provider).reset_override()


def cross(container: Container, power: Power, lives: Callable[[], bool]) -> None:
    """Have each call of a container's ports be a step of one process, of which another may be the successor."""
    for port, provider in CROSSED.items():
        ours = getattr(container, provider)
        changed = power.changed if port in _OF_THE_KUBELET else lambda: None
        ours.override(_Crossed(ours(), port.__name__, lambda what: power.cross(what, lives=lives()), changed))
