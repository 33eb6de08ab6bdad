"""The composition root: which adapter stands behind which port.

Providers and nothing else; building one opens nothing.  What must be opened, :mod:`app.daemon` opens.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from dependency_injector import containers, providers

from adapters.control.server import ControlServer
from adapters.control.service import Core
from adapters.control.sockets import Place
from adapters.filesystem.device_info import FileSystemDeviceInfo
from adapters.filesystem.sockets import FileSystemSockets
from adapters.http.server import HttpServer
from adapters.journal.journal import SqliteJournal
from adapters.kubelet.checkpoint import KubeletCheckpoint
from adapters.kubelet.directory import PluginDirectory
from adapters.kubelet.lists import KubeletLists
from adapters.kubelet.plugins import KubeletPlugins
from adapters.kubelet.pod_resources import KubeletPodResources
from adapters.kubelet.watch import DirectoryWatch
from adapters.memory.runtime import MemoryRuntime
from adapters.metrics.counts import Counts
from adapters.metrics.exposition import Exposition
from adapters.system.clock import SystemClock
from adapters.system.entropy import SystemEntropy
from adapters.system.lock import NodeLock
from adapters.system.worker import ThreadWorker
from adapters.systemd.notify import ServiceManager
from app.announcer import Announcer
from app.health import Health, Loops
from app.logs import StructlogReports
from app.pages import Pages
from app.reconciler import Reconciler
from app.reloader import Reloader
from app.runtimes import candidates
from app.settings import Effective, Settings
from app.use_cases.adopt import Adopt
from app.use_cases.allocate import Allocate
from app.use_cases.check_health import CheckHealth
from app.use_cases.device_info import KeepDeviceInfo
from app.use_cases.figures import TellFigures
from app.use_cases.gather import Gather
from app.use_cases.list_allocations import ListAllocations
from app.use_cases.look_up import LookUp
from app.use_cases.own import Own
from app.use_cases.plugin import pool_plugins
from app.use_cases.pre_start import PreStart
from app.use_cases.reconcile import Reconcile
from app.use_cases.recover import Recover
from app.use_cases.release import Release
from app.use_cases.release_pod import ReleasePod
from app.use_cases.runtimes import FoundRuntime
from app.use_cases.serve_pools import ServePools
from app.use_cases.state import State
from app.use_cases.status import Status
from app.use_cases.storage import Storage
from app.use_cases.unknown_views import TellUnknownViews
from app.use_cases.watch import Watch
from domain.ports.checkpoint import Checkpoint
from domain.ports.clock import Clock
from domain.ports.device_info import DeviceInfoFiles
from domain.ports.entropy import Entropy
from domain.ports.journal import Journal
from domain.ports.kubelet import DeviceLists, PodResources
from domain.ports.measures import Measures
from domain.ports.reports import Reports
from domain.ports.runtime import ContainerRuntime
from domain.ports.sockets import SocketDirectories


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What is particular to this run of the program.

    Attributes:
        instance: names the process to others.
        version: of the program.
        take_over: serve although another plugin serves under our names.
        inotify: watch the plugin directory with inotify, where it works.
        environment: what a service manager that started us left there.
        reread: reads the configuration again; ``None`` = it stays as it is.
    """

    instance: str
    version: str
    take_over: bool = False
    inotify: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    reread: Callable[[], Effective] | None = None


class Container(containers.DeclarativeContainer):
    """Everything that the daemon is made of."""

    settings = providers.Dependency(instance_of=Settings)
    process = providers.Dependency(instance_of=Process)

    # The machine.
    clock: providers.Provider[Clock] = providers.Singleton(SystemClock)
    entropy: providers.Provider[Entropy] = providers.Singleton(SystemEntropy)
    reports: providers.Provider[Reports] = providers.Singleton(StructlogReports)
    measures: providers.Provider[Measures] = providers.Singleton(Counts)
    worker: providers.Provider[ThreadWorker] = providers.Singleton(
        ThreadWorker, lost=reports.provided.lost, clock=clock
    )
    lock = providers.Singleton(
        NodeLock,
        path=settings.provided.lock,
        instance=process.provided.instance,
        version=process.provided.version,
        clock=clock,
    )
    lock_worker = providers.Singleton(ThreadWorker, lost=reports.provided.lost, clock=clock)
    """Apart from the other, so that a standby sees us live although storage hangs."""

    state = providers.Singleton(State, pools=settings.provided.domain_pools, clock=clock)

    # Storage.
    journal: providers.Provider[Journal] = providers.Singleton(SqliteJournal, path=settings.provided.state, clock=clock)
    sockets: providers.Provider[SocketDirectories] = providers.Singleton(FileSystemSockets)
    checkpoint: providers.Provider[Checkpoint] = providers.Singleton(
        KubeletCheckpoint, directory=settings.provided.kubelet.plugin_dir, clock=clock
    )

    device_info: providers.Provider[DeviceInfoFiles] = providers.Singleton(FileSystemDeviceInfo)

    # The runtime.
    found_runtime = providers.Singleton(
        FoundRuntime,
        candidates=providers.Callable(candidates, settings=settings, clock=clock),
        state=state,
        reports=reports,
    )
    named_runtime = providers.Singleton(
        FoundRuntime,
        candidates=providers.Callable(candidates, settings=settings, clock=clock),
        state=state,
        reports=reports,
        trusted=True,
    )
    runtime: providers.Selector[ContainerRuntime] = providers.Selector(
        settings.provided.runtime.kind,
        auto=found_runtime,
        docker=named_runtime,
        containerd=named_runtime,
        cri=named_runtime,
        memory=providers.Singleton(MemoryRuntime, clock=clock),
    )

    # The use cases.
    storage = providers.Singleton(
        Storage, journal=journal, sockets=sockets, checkpoint=checkpoint, device_info=device_info, reports=reports
    )
    pod_resources: providers.Provider[PodResources] = providers.Singleton(
        KubeletPodResources, path=settings.provided.kubelet.pod_resources
    )
    lists: providers.Provider[DeviceLists] = providers.Singleton(KubeletLists)
    adopt = providers.Singleton(
        Adopt, state=state, storage=storage, worker=worker, entropy=entropy, clock=clock, reports=reports
    )
    recover = providers.Singleton(
        Recover, state=state, storage=storage, worker=worker, adopt=adopt, clock=clock, reports=reports
    )
    allocate = providers.Singleton(
        Allocate,
        state=state,
        storage=storage,
        worker=worker,
        entropy=entropy,
        clock=clock,
        reports=reports,
        measures=measures,
    )
    pre_start = providers.Singleton(
        PreStart, state=state, storage=storage, worker=worker, adopt=adopt, lists=lists, clock=clock, reports=reports
    )
    own = providers.Singleton(Own, state=state, storage=storage, worker=worker, reports=reports)
    look_up = providers.Singleton(LookUp, state=state, adopt=adopt, own=own, pod_resources=pod_resources, clock=clock)
    release = providers.Singleton(
        Release, state=state, storage=storage, worker=worker, reports=reports, measures=measures
    )
    gather = providers.Singleton(
        Gather,
        state=state,
        storage=storage,
        worker=worker,
        runtime=runtime,
        pod_resources=pod_resources,
        clock=clock,
        interval=settings.provided.reconcile.interval,
    )
    reconcile = providers.Singleton(
        Reconcile,
        state=state,
        storage=storage,
        worker=worker,
        gather=gather,
        adopt=adopt,
        own=own,
        release=release,
        pod_resources=pod_resources,
        lists=lists,
        clock=clock,
        reports=reports,
        measures=measures,
        interval=settings.provided.reconcile.interval,
        grace=settings.provided.reconcile.grace,
    )
    keep_device_info = providers.Singleton(KeepDeviceInfo, state=state, storage=storage, worker=worker, reports=reports)
    check_health = providers.Singleton(
        CheckHealth, state=state, storage=storage, worker=worker, lists=lists, reports=reports
    )
    reconciler = providers.Singleton(
        Reconciler,
        reconcile=reconcile,
        runtime=runtime,
        reports=reports,
        interval=settings.provided.reconcile.interval,
    )

    release_pod = providers.Singleton(
        ReleasePod,
        state=state,
        gather=gather,
        adopt=adopt,
        own=own,
        release=release,
        turn=reconciler.provided.turn,
        clock=clock,
        grace=settings.provided.reconcile.grace,
    )
    list_allocations = providers.Singleton(
        ListAllocations, state=state, clock=clock, grace=settings.provided.reconcile.grace
    )
    watchers = providers.Singleton(Watch, state=state, clock=clock, instance=process.provided.instance)

    # The kubelet.
    directory = providers.Singleton(
        PluginDirectory,
        path=settings.provided.kubelet.plugin_dir,
        kubelet_socket=settings.provided.kubelet.socket,
        endpoint=settings.provided.kubelet.endpoint,
    )
    watch = providers.Singleton(DirectoryWatch, directory=directory, reports=reports, inotify=process.provided.inotify)
    pools = providers.Singleton(partial, pool_plugins, state=state, allocate=allocate, pre_start=pre_start)
    plugins = providers.Singleton(
        KubeletPlugins,
        plugins=pools,
        directory=directory,
        watch=watch,
        pod_resources=pod_resources,
        lists=lists,
        reports=reports,
        registered=reconciler.provided.trigger,
        take_over=process.provided.take_over,
    )

    # The control API.
    status = providers.Singleton(
        Status,
        state=state,
        registrations=plugins,
        plugins=pools,
        clock=clock,
        version=process.provided.version,
        instance=process.provided.instance,
    )
    control = providers.Singleton(
        ControlServer,
        core=providers.Factory(
            Core,
            look_up=look_up,
            list_allocations=list_allocations,
            watch=watchers,
            release_pod=release_pod,
            reconciler=reconciler,
            status=status,
        ),
        reports=reports,
        control=providers.Factory(
            Place,
            path=settings.provided.control.socket,
            mode=settings.provided.control.mode,
            group=settings.provided.control.group,
        ),
        agent_path=settings.provided.control.agent_socket,
        agent_group=settings.provided.control.agent_group,
    )

    # Metrics, health, and whoever started us.
    loops = providers.Singleton(Loops, clock=clock)
    health = providers.Singleton(
        Health, loops=loops, worker=worker, lock=lock, state=state, registrations=plugins, clock=clock
    )
    unknown_views = providers.Singleton(TellUnknownViews, state=state, reports=reports)
    figures = providers.Singleton(TellFigures, state=state, registrations=plugins, plugins=pools, clock=clock)
    pages = providers.Singleton(
        Pages,
        instance=process.provided.instance,
        health=health,
        figures=figures,
        exposition=providers.Singleton(Exposition, version=process.provided.version, counts=measures),
    )
    http = providers.Singleton(
        HttpServer, address=settings.provided.http.address, pages=pages.provided.by_path, reports=reports
    )
    service_manager = providers.Singleton(
        ServiceManager.from_environment, process.provided.environment, reports=reports
    )
    announcer = providers.Singleton(Announcer, manager=service_manager, health=health, plugins=plugins)

    # The configuration, when it changes.
    serve_pools = providers.Singleton(
        ServePools, state=state, storage=storage, worker=worker, lists=lists, reports=reports
    )
    settings_worker = providers.Singleton(ThreadWorker, lost=reports.provided.lost, clock=clock)
    reloader = providers.Singleton(
        Reloader,
        settings=settings,
        reread=process.provided.reread,
        state=state,
        serve_pools=serve_pools,
        plugins=plugins,
        announcer=announcer,
        health=health,
        worker=settings_worker,
        clock=clock,
        measures=measures,
        reports=reports,
    )


def build(settings: Settings, process: Process) -> Container:
    """Return the container of a process; nothing is opened yet."""
    container = Container(settings=settings, process=process)
    container.check_dependencies()
    return container
