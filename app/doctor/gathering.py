"""Gathering the facts that the doctor judges."""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from adapters.control.client import ControlClient, Failed
from adapters.kubelet.directory import PluginDirectory, reply
from adapters.system.clock import SystemClock
from adapters.system.lock import Holder, LockUnusable, NodeLock
from adapters.system.worker import ThreadWorker
from app.runtimes import candidates
from app.settings import RuntimeKind, RuntimeSettings, Settings
from app.use_cases.runtimes import Candidate
from domain.diagnosis.instance import Answering, InstanceFacts, LockState
from domain.diagnosis.runtime import Tried
from domain.evidence import RuntimeView
from domain.ports.runtime import AnswerTooLarge, RuntimeUnavailable
from domain.reply import Reply

PATIENCE: Final = 2.5
"""Seconds that each part of the node is given to answer; all are asked at the same time."""

_STALE: Final = 10.0
"""Seconds after which a heartbeat is worth a word."""

T = TypeVar("T")

Tries: TypeAlias = tuple[tuple[Tried, ...], tuple[Tried, ...]]
"""What came of asking at the places of the configuration, and at all others that are usual."""


async def in_time(what: str, job: Callable[[], T]) -> T:
    """Run a blocking job in a thread of its own and return its result.

    Raises:
        OverBudget: it hangs; its thread ends with the process.
    """
    worker = ThreadWorker(lambda _, __: None, SystemClock())
    try:
        return await worker.run(what, job, budget=PATIENCE)
    finally:
        worker.close(0)


def plugin_directory(settings: Settings) -> PluginDirectory:
    """Return the configured plugin directory."""
    kubelet = settings.kubelet
    return PluginDirectory(path=kubelet.plugin_dir, kubelet_socket=kubelet.socket, endpoint=kubelet.endpoint)


async def instances(settings: Settings) -> InstanceFacts:
    """Return what is seen of the daemon and of other plugins.

    Raises:
        OverBudget: the disk hangs.
    """
    directory = plugin_directory(settings)
    answer, (state, holder), (living, dead) = await asyncio.gather(
        _asked(settings.control.socket),
        in_time("looking at the lock", lambda: _lock(settings.lock)),
        in_time("looking at the plugin directory", lambda: _sockets(directory, settings.kubelet.endpoint)),
    )
    return InstanceFacts(
        lock=settings.lock,
        state=state,
        holder=None if holder is None else holder.instance,
        holder_words=_words(holder),
        control=settings.control.socket,
        answering=answer if isinstance(answer, Answering) else None,
        silence=answer if isinstance(answer, str) else "",
        denied=reply(settings.control.socket) is Reply.DENIED,
        living=living,
        dead=dead,
        endpoint=settings.kubelet.endpoint,
        plugin_dir=settings.kubelet.plugin_dir,
    )


async def runtimes(settings: Settings) -> Tries:
    """Ask wherever a container runtime may answer."""
    clock = SystemClock()
    asked = candidates(settings, clock)
    places = {each.place for each in asked}
    anything = [RuntimeSettings(kind=RuntimeKind.AUTO)]
    if settings.runtime.endpoint is not None:
        anything.append(RuntimeSettings(kind=RuntimeKind.AUTO, endpoint=settings.runtime.endpoint))
    others = {
        each.place: each
        for runtime in anything
        for each in candidates(settings.model_copy(update={"runtime": runtime}), clock)
        if each.place not in places
    }
    tried, besides = await asyncio.gather(_tried(asked), _tried(others.values()))
    return tried, besides


async def _tried(places: Iterable[Candidate]) -> tuple[Tried, ...]:
    return tuple(await asyncio.gather(*map(_try, places)))


async def _try(candidate: Candidate) -> Tried:
    path = candidate.place.rpartition(" at ")[2]
    tried = Tried(kind=str(candidate.kind), place=candidate.place, path=path, there=_exists(path))
    try:
        if not tried.there:
            return tried
        async with asyncio.timeout(PATIENCE):
            return replace(tried, view=await _read(candidate))
    except RuntimeUnavailable as error:
        return replace(tried, silence=str(error))
    except TimeoutError:
        return replace(tried, silence=f"{candidate.place} has not answered within {PATIENCE:g} s; see its log")
    finally:
        await candidate.runtime.aclose()
        if candidate.substitute is not None:
            await candidate.substitute.aclose()


async def _read(candidate: Candidate) -> RuntimeView:
    try:
        return await candidate.runtime.snapshot()
    except AnswerTooLarge:
        if candidate.substitute is None:
            raise
        return await candidate.substitute.snapshot()


def _exists(path: str) -> bool:
    return os.path.lexists(path)


async def _asked(socket: str) -> Answering | str:
    """Return the daemon that answers on a control socket, or why none does."""
    try:
        return _answering(await ControlClient(socket, deadline=PATIENCE).status())
    except Failed as error:
        return str(error)
    except (ValueError, TypeError, LookupError) as error:
        return f"what answers at {socket} cannot be understood ({type(error).__name__})"


def _answering(status: dict[str, Any]) -> Answering:
    pools: Sequence[dict[str, Any]] = status["pools"]
    return Answering(
        instance=status["instance"],
        words=f"daemon {status['version']} (instance {status['instance']})",
        endpoints=frozenset(each["endpoint"] for each in pools if each["endpoint"] is not None),
        waiting=tuple(
            (each["resource"], each["reason"] or "the kubelet does not watch it yet")
            for each in pools
            if not (each["registered"] and each["watched"])
        ),
    )


def _lock(path: str) -> tuple[LockState, Holder | None]:
    lock = NodeLock(path, instance="", version="", clock=SystemClock())
    try:
        if lock.is_free():
            return LockState.FREE, None
    except LockUnusable:
        return LockState.HIDDEN, None
    return LockState.HELD, lock.holder()


def _words(holder: Holder | None) -> str:
    if holder is None:
        return "an unknown process"
    silent = f", silent for {holder.age:.0f} s" if holder.age > _STALE else ""
    return f"process {holder.pid} (instance {holder.instance}, version {holder.version}{silent})"


def _sockets(directory: PluginDirectory, contivs: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of living and of dead sockets under our names."""
    left = (contivs,) if directory.contivs() is Reply.REFUSES else ()
    return directory.foreigners(), (*left, *directory.leftovers())
