"""The composition root: which adapter stands behind which port.

Providers and nothing else; building one opens nothing.  What must be opened, :mod:`app.daemon` opens.
"""

from dataclasses import dataclass

from dependency_injector import containers, providers

from adapters.filesystem.sockets import FileSystemSockets
from adapters.journal.journal import SqliteJournal
from adapters.kubelet.checkpoint import KubeletCheckpoint
from adapters.kubelet.directory import PluginDirectory
from adapters.kubelet.lists import KubeletLists
from adapters.kubelet.plugins import KubeletPlugins
from adapters.kubelet.pod_resources import KubeletPodResources
from adapters.kubelet.watch import DirectoryWatch
from adapters.memory.runtime import MemoryRuntime
from adapters.system.clock import SystemClock
from adapters.system.entropy import SystemEntropy
from adapters.system.lock import NodeLock
from adapters.system.worker import ThreadWorker
from app.logs import StructlogReports
from app.reconciler import Reconciler
from app.runtimes import candidates
from app.settings import Settings
from app.use_cases.adopt import Adopt
from app.use_cases.allocate import Allocate
from app.use_cases.gather import Gather
from app.use_cases.look_up import LookUp
from app.use_cases.own import Own
from app.use_cases.plugin import pool_plugins
from app.use_cases.pre_start import PreStart
from app.use_cases.reconcile import Reconcile
from app.use_cases.recover import Recover
from app.use_cases.release import Release
from app.use_cases.runtimes import FoundRuntime
from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain.ports.checkpoint import Checkpoint
from domain.ports.clock import Clock
from domain.ports.entropy import Entropy
from domain.ports.journal import Journal
from domain.ports.kubelet import DeviceLists, PodResources
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
    """

    instance: str
    version: str
    take_over: bool = False
    inotify: bool = True


class Container(containers.DeclarativeContainer):
    """Everything that the daemon is made of."""

    settings = providers.Dependency(instance_of=Settings)
    process = providers.Dependency(instance_of=Process)

    # The machine.
    clock: providers.Provider[Clock] = providers.Singleton(SystemClock)
    entropy: providers.Provider[Entropy] = providers.Singleton(SystemEntropy)
    reports: providers.Provider[Reports] = providers.Singleton(StructlogReports)
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

    state = providers.Singleton(State, pools=settings.provided.domain_pools, clock=clock)

    # Storage.
    journal: providers.Provider[Journal] = providers.Singleton(SqliteJournal, path=settings.provided.state, clock=clock)
    sockets: providers.Provider[SocketDirectories] = providers.Singleton(FileSystemSockets)
    checkpoint: providers.Provider[Checkpoint] = providers.Singleton(
        KubeletCheckpoint, directory=settings.provided.kubelet.plugin_dir, clock=clock
    )

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
    storage = providers.Singleton(Storage, journal=journal, sockets=sockets, checkpoint=checkpoint, reports=reports)
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
        Allocate, state=state, storage=storage, worker=worker, entropy=entropy, clock=clock, reports=reports
    )
    pre_start = providers.Singleton(
        PreStart, state=state, storage=storage, worker=worker, adopt=adopt, lists=lists, clock=clock, reports=reports
    )
    own = providers.Singleton(Own, state=state, storage=storage, worker=worker, reports=reports)
    look_up = providers.Singleton(LookUp, state=state, adopt=adopt, own=own, pod_resources=pod_resources, clock=clock)
    release = providers.Singleton(Release, state=state, storage=storage, worker=worker, reports=reports)
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
        interval=settings.provided.reconcile.interval,
        grace=settings.provided.reconcile.grace,
    )
    reconciler = providers.Singleton(
        Reconciler,
        reconcile=reconcile,
        runtime=runtime,
        reports=reports,
        interval=settings.provided.reconcile.interval,
    )

    # The kubelet.
    directory = providers.Singleton(
        PluginDirectory,
        path=settings.provided.kubelet.plugin_dir,
        kubelet_socket=settings.provided.kubelet.socket,
        endpoint=settings.provided.kubelet.endpoint,
    )
    watch = providers.Singleton(DirectoryWatch, directory=directory, reports=reports, inotify=process.provided.inotify)
    plugins = providers.Singleton(
        KubeletPlugins,
        plugins=providers.Callable(pool_plugins, state=state, allocate=allocate, pre_start=pre_start).provider,
        directory=directory,
        watch=watch,
        pod_resources=pod_resources,
        lists=lists,
        reports=reports,
        registered=reconciler.provided.trigger,
        take_over=process.provided.take_over,
    )


def build(settings: Settings, process: Process) -> Container:
    """Return the container of a process; nothing is opened yet."""
    container = Container(settings=settings, process=process)
    container.check_dependencies()
    return container
