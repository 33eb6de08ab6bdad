"""Uninstalling the plugin from a node, or seeing what that would do.

What the daemon uses is taken from its own container; what only this needs is put together here, so that a starting
daemon does not load it.
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from adapters.control import sockets as control_sockets
from adapters.filesystem.bases import FileSystemBases
from adapters.journal import place
from adapters.journal.reading import read
from adapters.system.lock import LockUnusable
from adapters.system.traces import FileTraces, existing
from app.container import Container, Process, build
from app.logs import configure
from app.settings import LogLevel, Settings
from app.use_cases.cleanup import Cleaned, Cleanup, Survey
from domain.errors import MemifError
from domain.ports.journal import JournalUnusable, Recovered

PATIENCE: Final = 2.5
"""Seconds that the container runtime and the kubelet are given to say who uses what."""


_SHOWN: Final = 20
"""Of many users, how many one line names; without --yes the command names them all."""


class NotNow(MemifError):
    """It cannot be done, or it cannot be told whether it may be; the message says why and what to do."""


class StillUsed(MemifError):
    """Something uses what would be removed."""

    def __init__(self, users: tuple[str, ...]) -> None:
        more = len(users) - _SHOWN
        some = "; ".join((*users[:_SHOWN], *((f"and {more} more",) if more > 0 else ())))
        super().__init__(f"nothing was removed, because it is in use: {some}; delete these pods first")
        self.users = users


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What there is, and what should be known about that.

    Attributes:
        notes: sentences for people.
    """

    survey: Survey
    notes: tuple[str, ...]


async def look(settings: Settings) -> Found:
    """Return what a cleanup would remove, and change nothing.

    Raises:
        NotNow: it cannot be told.
    """
    container = _container(settings)
    try:
        return await _look(container, _cleanup(container, locks=(_lock_file(settings),)))
    finally:
        container.sockets().close()


async def clean(settings: Settings) -> Cleaned:
    """Remove everything of ours, if no daemon runs and no container uses it.

    The lock is held meanwhile, so that no daemon starts.

    Raises:
        NotNow: it cannot be done, or it cannot be told whether it may be; nothing was removed.
        StillUsed: something is in use; nothing was removed.
    """
    container = _container(settings)
    lock, new = container.lock(), not existing(settings.lock)
    cleanup = _cleanup(container, locks=() if new else (_lock_file(settings),))
    try:
        if not lock.try_acquire():
            raise NotNow(_held(container))
    except LockUnusable as error:
        raise NotNow(str(error)) from error
    try:
        _no_rivals(container)
        found = await _look(container, cleanup)
        if found.survey.users:
            raise StillUsed(found.survey.users)
        if found.survey.doubts:
            raise NotNow("; ".join(found.survey.doubts))
        cleaned = cleanup.remove(found.survey)
        return Cleaned(removed=cleaned.removed, left=(*cleaned.left, *found.notes), obstacles=cleaned.obstacles)
    finally:
        container.sockets().close()
        if new:
            _lock_file(settings).remove()
        lock.release()


def _container(settings: Settings) -> Container:
    """Return the daemon's container; what its parts say on the way is for its log, and only trouble is told here."""
    configure(level=LogLevel.WARNING, form=settings.log.format)
    return build(settings, Process(instance="cleanup", version=""))


def _cleanup(container: Container, *, locks: tuple[FileTraces, ...]) -> Cleanup:
    settings: Settings = container.settings()
    control = [each for each in (settings.control.socket, settings.control.agent_socket) if each is not None]
    return Cleanup(
        sockets=container.sockets(),
        bases=FileSystemBases(),
        device_info=container.device_info(),
        traces=(
            FileTraces(container.directory().leftover_paths, in_place_of_others=True),
            FileTraces(lambda: control_sockets.left_behind(control)),
            FileTraces(lambda: place.left_behind(settings.state)),
            *locks,
        ),
        runtime=container.runtime(),
        checkpoint=container.checkpoint(),
        pod_resources=container.pod_resources(),
    )


def _lock_file(settings: Settings) -> FileTraces:
    return FileTraces(lambda: existing(settings.lock))


async def _look(container: Container, cleanup: Cleanup) -> Found:
    settings: Settings = container.settings()
    recorded, notes = _recorded(settings.state)
    try:
        async with asyncio.timeout(PATIENCE):
            return Found(survey=await cleanup.survey(settings.domain_pools, recorded), notes=notes)
    except TimeoutError as error:
        raise NotNow(
            f"who uses what is unknown: the container runtime or the kubelet has not answered within {PATIENCE:g} s; "
            "see their logs"
        ) from error
    finally:
        await container.runtime().aclose()


def _recorded(path: str) -> tuple[Recovered, tuple[str, ...]]:
    """Return what the journal holds; without it, only the configured pools are known."""
    if not os.path.lexists(path):
        return Recovered(), ()
    try:
        return read(path), ()
    except JournalUnusable as error:
        return Recovered(), (f"directories of earlier pools, which only the journal names: {error}",)


def _held(container: Container) -> str:
    holder = container.lock().holder()
    who = "another process" if holder is None else f"process {holder.pid}"
    return f"the daemon runs ({who} holds {container.settings().lock}); stop it first"


def _no_rivals(container: Container) -> None:
    """Make sure that no plugin with another lock works in the same places.

    Raises:
        NotNow: one does.
    """
    settings: Settings = container.settings()
    control = [each for each in (settings.control.socket, settings.control.agent_socket) if each is not None]
    directory = settings.kubelet.plugin_dir
    answering = (
        *(str(Path(directory, name)) for name in container.directory().foreigners()),
        *control_sockets.living(control),
    )
    if answering:
        raise NotNow(f"another plugin is at work: {', '.join(answering)} answers; stop it first")
