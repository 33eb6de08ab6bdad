"""The daemon: from the lock to the last closed socket.

One process of a node is active; another waits as standby, with everything loaded, until the lock is free.  The active
one recovers what was, then serves; what it opened is closed in reverse order, whatever ended it.
"""

import asyncio
import secrets
import signal
from contextlib import AsyncExitStack
from importlib import metadata
from typing import Final

from adapters.system.lock import LockLost, LockUnusable, NodeLock
from app.container import Container, Process, build
from app.logs import configure
from app.settings import Settings
from domain.carry_over import DeviceIdsChanged
from domain.errors import MemifError
from domain.ports.journal import JournalUnusable
from domain.ports.reports import Reports
from domain.ports.sockets import DirectoryUnusable, NoRoom

BEAT: Final = 1.0
"""Seconds between two heartbeats of the active process."""

_LAST_JOBS: Final = 2.0
"""Seconds that storage jobs are given when the daemon stops."""


class EnvironmentUnusable(MemifError):
    """The node does not offer what the daemon needs; the message says what and how to mend it."""


class ConfigurationUnsuitable(MemifError):
    """The configuration is right in itself and does not suit what lives on the node."""


def version() -> str:
    """Return the program's version, ``unknown`` when it runs from a source tree that was never installed."""
    try:
        return metadata.version("memif-device-plugin")
    except metadata.PackageNotFoundError:
        return "unknown"


def new_process(*, take_over: bool = False, inotify: bool = True) -> Process:
    """Describe this run of the program."""
    return Process(instance=secrets.token_hex(4), version=version(), take_over=take_over, inotify=inotify)


def run(settings: Settings, process: Process) -> None:
    """Run the daemon in the foreground until SIGTERM or SIGINT.

    Raises:
        EnvironmentUnusable: it cannot start, or not go on, on this node.
        ConfigurationUnsuitable: it cannot start with this configuration while certain allocations live.
    """
    configure(level=settings.log.level, form=settings.log.format)
    asyncio.run(_until_signalled(build(settings, process)))


async def _until_signalled(container: Container) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    await serve(container, stop)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Have SIGTERM and SIGINT set an event of the running loop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


async def serve(container: Container, stop: asyncio.Event) -> None:
    """Be standby, then active, until told to stop.

    Raises:
        EnvironmentUnusable, ConfigurationUnsuitable: see :func:`run`.
    """
    reports, process, lock = container.reports(), container.process(), container.lock()
    reports.note("starting", version=process.version, instance=process.instance)
    stopped = asyncio.create_task(stop.wait(), name="stop")
    try:
        async with AsyncExitStack() as stack:
            stack.callback(stopped.cancel)
            stack.callback(lock.release)
            if await _active(container, stopped):
                await _first_of(stopped, asyncio.create_task(_be_active(container), name="active"))
    except* DeviceIdsChanged as errors:
        raise ConfigurationUnsuitable("; ".join(map(str, _leaves(errors)))) from errors
    except* (LockLost, LockUnusable, JournalUnusable, DirectoryUnusable, NoRoom) as errors:
        raise EnvironmentUnusable("; ".join(map(str, _leaves(errors)))) from errors
    reports.note("stopped", instance=process.instance)


async def _active(container: Container, stopped: "asyncio.Task[object]") -> bool:
    """Wait for the lock; tell whether it was got before the stop."""
    lock, reports = container.lock(), container.reports()
    if lock.try_acquire():
        return True
    holder = lock.holder()
    reports.note(
        "standby: another process serves this node",
        active_pid=holder.pid if holder else None,
        active_instance=holder.instance if holder else None,
    )
    container.plugins()  # loaded and built, so that taking over is a matter of milliseconds
    await _first_of(stopped, asyncio.create_task(lock.wait(), name="lock"))
    return not stopped.done()


async def _be_active(container: Container) -> None:
    """Recover, serve, and close everything in reverse order."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_close_storage, container)
        stack.push_async_callback(container.runtime().aclose)
        container.reports().note("active", instance=container.process().instance)
        await container.recover()()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(container.plugins().run(), name="plugins")
            tasks.create_task(container.reconciler().run(), name="reconciler")
            tasks.create_task(container.reconciler().follow(), name="hints of the runtime")
            tasks.create_task(_beat(container.lock(), container.reports()), name="heartbeat")


async def _close_storage(container: Container) -> None:
    worker, storage = container.worker(), container.storage()
    if not await worker.aclose(_LAST_JOBS):
        container.reports().warn("storage hangs; it is left as it is")
        return
    storage.sockets.close()
    storage.journal.close()


async def _beat(lock: NodeLock, reports: Reports) -> None:
    """Show a standby that we live; a disk on which that cannot be written is no reason to stop serving."""
    while True:
        try:
            lock.beat()
        except LockUnusable as error:
            reports.warn("the heartbeat for a standby cannot be written", reason=str(error))
        await asyncio.sleep(BEAT)


async def _first_of(stopped: "asyncio.Task[object]", task: "asyncio.Task[None]") -> None:
    """Wait until told to stop or a task ends; then the task is over, and what it raised is raised."""
    try:
        await asyncio.wait((stopped, task), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
    if not task.cancelled():
        task.result()


def _leaves(errors: BaseExceptionGroup[MemifError]) -> list[MemifError]:
    found: list[MemifError] = []
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            found.extend(_leaves(error))
        else:
            found.append(error)
    return found
