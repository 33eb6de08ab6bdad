"""The daemon: from the lock to the last closed socket.

One process of a node is active; another waits as standby, with everything loaded, until the lock is free.  The active
one recovers what was, then serves; what it opened is closed in reverse order, whatever ended it.
"""

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import metadata
from typing import Final

from adapters.control.sockets import ControlSocketUnusable
from adapters.kubelet.plugins import KubeletPlugins
from adapters.system.lock import LockLost, LockUnusable, NodeLock
from adapters.system.worker import ThreadWorker
from app.container import Container, Process, build
from app.health import PATIENCE, Loops, Phase, Turn
from app.logs import configure
from app.settings import Effective, Settings
from app.use_cases.check_health import CheckHealth
from app.use_cases.serve_pools import ServePools
from domain.carry_over import DeviceIdsChanged
from domain.errors import MemifError
from domain.ports.journal import JournalUnusable
from domain.ports.reports import Reports
from domain.ports.sockets import DirectoryUnusable, NoRoom
from domain.ports.worker import OverBudget, Worker

SERVICE_MANAGER: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""The variables by which a service manager says what it wants to know."""

BEAT: Final = 1.0
"""Seconds between two heartbeats of the active process."""

LOOK: Final = 5.0
"""Seconds between two looks at the health of what we serve from."""

_SLOW_BEAT: Final = 5.0
"""Seconds after which a heartbeat that is not done is reported; a standby gives it ten."""

# What a stop may take, whatever hangs; with the farewells of the servers, which end at once, less than five seconds.

_LAST_LISTS: Final = 1.0
"""Seconds that the kubelet is given to take the last device lists."""

_LAST_JOBS: Final = 2.0
"""Seconds that storage jobs are given when the daemon stops."""

_LAST_BEAT: Final = 0.5
"""Seconds that the lock is given to be let go of."""

_LAST_MOMENT: Final = 0.1
"""Seconds that a thread without anything to do is given to end."""


_UNUSABLE: Final = (LockLost, LockUnusable, JournalUnusable, DirectoryUnusable, NoRoom, ControlSocketUnusable)
"""What says that the node does not offer what the daemon needs."""


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


def new_process(
    *, take_over: bool = False, inotify: bool = True, reread: Callable[[], Effective] | None = None
) -> Process:
    """Describe this run of the program."""
    return Process(
        instance=secrets.token_hex(4), version=version(), take_over=take_over, inotify=inotify, reread=reread
    )


def run(settings: Settings, process: Process) -> None:
    """Run the daemon in the foreground until SIGTERM or SIGINT; SIGHUP has it read its configuration again.

    Raises:
        EnvironmentUnusable: it cannot start, or not go on, on this node.
        ConfigurationUnsuitable: it cannot start with this configuration while certain allocations live.
    """
    configure(level=settings.log.level, form=settings.log.format)
    environment = {name: os.environ[name] for name in SERVICE_MANAGER if name in os.environ}
    asyncio.run(_until_signalled(build(settings, replace(process, environment=environment))))


async def _until_signalled(container: Container) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, container.reloader().trigger)
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
    announcer = container.announcer()
    stopped = asyncio.create_task(stop.wait(), name="stop")
    stopped.add_done_callback(lambda _: announcer.leave())
    try:
        async with AsyncExitStack() as stack:
            stack.callback(stopped.cancel)
            stack.push_async_callback(_let_go, lock, container.lock_worker())
            stack.push_async_callback(container.settings_worker().aclose, _LAST_MOMENT)
            await stack.enter_async_context(
                _beside(container.http().run(), announcer.run(), container.reloader().run())
            )
            stack.callback(announcer.leave)
            if await _active(container, stopped):
                active = asyncio.create_task(_be_active(container), name="active")
                await _first_of(stopped, active, farewell=lambda: _drain(container))
    except BaseExceptionGroup as errors:
        # Not `except*`: Python before 3.11.4 wraps what is raised there in a group, which nobody expects.
        explained = _explained(errors)
        if explained is None:
            raise
        raise explained from errors
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
    container.health().enter(Phase.STANDBY)
    container.plugins()  # loaded and built, so that taking over is a matter of milliseconds
    await _first_of(stopped, asyncio.create_task(lock.wait(), name="lock"))
    return not stopped.done()


async def _be_active(container: Container) -> None:
    """Recover, serve, and close everything in reverse order."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_close_storage, container)
        stack.push_async_callback(container.runtime().aclose)
        container.reports().note("active", instance=container.process().instance)
        async with container.reloader().turn:
            container.health().enter(Phase.RECOVERING)
            await container.recover()()
            await container.keep_device_info()()
            container.health().enter(Phase.SERVING)
        loops = container.loops()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(container.plugins().run(), name="plugins")
            tasks.create_task(container.control().run(), name="control API")
            tasks.create_task(_turning(loops, "the reconciler", container.reconciler().run), name="reconciler")
            tasks.create_task(container.reconciler().follow(), name="hints of the runtime")
            tasks.create_task(_keep_device_info(container), name="device information")
            drop = partial(_drop_drained, container.serve_pools(), container.plugins())
            look = partial(_look, container.check_health(), container.unknown_views(), drop)
            tasks.create_task(_turning(loops, "the look at the node's health", look), name="health")
            beat = partial(_beat, container.lock(), container.lock_worker(), container.reports())
            tasks.create_task(_turning(loops, "the heartbeat", beat), name="heartbeat")


async def _keep_device_info(container: Container) -> None:
    """Have device information follow what is granted and released, and repaired as often as everything else."""
    keep, wake = container.keep_device_info(), asyncio.Event()
    with container.state().watched(wake.set):
        while True:
            wake.clear()
            await keep()
            with suppress(TimeoutError):
                async with asyncio.timeout(container.settings().reconcile.interval):
                    await wake.wait()


async def _drain(container: Container) -> None:
    """Withdraw every device before leaving, if that is wanted; whoever has one keeps it."""
    if not container.reloader().settings.drain_on_exit:
        return
    container.state().draining = True
    container.lists().publish()
    try:
        async with asyncio.timeout(_LAST_LISTS):
            await container.plugins().flush()
    except TimeoutError:
        container.reports().warn("leaving although the kubelet has not taken every last device list")
    else:
        container.reports().note("drained: the kubelet was told that every device is unhealthy")


async def _close_storage(container: Container) -> None:
    """Close everything as the last storage job, because to close a file can hang like any other use of it."""
    worker = container.worker()
    try:
        await worker.run("closing journal and directories", container.storage().close, budget=_LAST_JOBS)
    except OverBudget:
        container.reports().warn("storage hangs; it is left as it is")
    await worker.aclose(_LAST_MOMENT)


@asynccontextmanager
async def _beside(*runs: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Run what is there for standby and active process alike."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run) for run in runs]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def _turning(loops: Loops, name: str, run: Callable[[Turn], Awaitable[None]]) -> None:
    """Run a loop that is watched over."""
    with loops.loop(name) as turn:
        await run(turn)


def _drop_drained(pools: ServePools, plugins: KubeletPlugins) -> None:
    """End the sessions of drained pools that are empty."""
    if pools.drop_drained():
        plugins.follow()


async def _look(check: CheckHealth, unknown_views: Callable[[], None], drop: Callable[[], None], turn: Turn) -> None:
    """Look after the health of what we serve; that this goes wrong ends the daemon, and with it what it offers."""
    while True:
        turn(PATIENCE)
        await asyncio.sleep(LOOK)
        turn(PATIENCE)
        await check()
        unknown_views()
        drop()


async def _beat(lock: NodeLock, worker: Worker, reports: Reports, turn: Turn) -> None:
    """Show a standby that we live; a disk on which that cannot be written is no reason to stop serving."""
    while True:
        turn(PATIENCE)
        try:
            await worker.run("the heartbeat", lock.beat, budget=_SLOW_BEAT)
        except (LockUnusable, OverBudget) as error:
            reports.warn("the heartbeat for a standby cannot be written", reason=str(error))
        await asyncio.sleep(BEAT)


async def _let_go(lock: NodeLock, worker: ThreadWorker) -> None:
    """Release the lock if that can be done; if not, the end of the process does."""
    if lock.held:
        with suppress(OverBudget):
            await worker.run("releasing the lock", lock.release, budget=_LAST_BEAT)
    await worker.aclose(_LAST_MOMENT)


async def _first_of(
    stopped: "asyncio.Task[object]",
    task: "asyncio.Task[None]",
    *,
    farewell: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Wait until told to stop or a task ends; then the task is over, and what it raised is raised.

    What is to be done before a task is stopped is done first.
    """
    try:
        await asyncio.wait((stopped, task), return_when=asyncio.FIRST_COMPLETED)
        if farewell is not None and not task.done():
            await farewell()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
    if not task.cancelled():
        task.result()


def _explained(errors: BaseExceptionGroup[BaseException]) -> MemifError | None:
    """Return what errors mean to an operator, ``None`` if one of them is none that was foreseen."""
    foreseen, others = errors.split((DeviceIdsChanged, *_UNUSABLE))
    if foreseen is None or others is not None:
        return None
    leaves = _leaves(foreseen)
    text = "; ".join(map(str, leaves))
    if all(isinstance(each, DeviceIdsChanged) for each in leaves):
        return ConfigurationUnsuitable(text)
    return EnvironmentUnusable(text)


def _leaves(errors: BaseExceptionGroup[MemifError]) -> list[MemifError]:
    found: list[MemifError] = []
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            found.extend(_leaves(error))
        else:
            found.append(error)
    return found
