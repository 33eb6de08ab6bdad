"""The examination of a node."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain
from typing import Final

from adapters.filesystem import rights as capabilities
from adapters.filesystem.survey import survey as survey_base
from adapters.kubelet.checkpoint import KubeletCheckpoint
from adapters.kubelet.survey import survey as survey_kubelet
from adapters.system import groups
from adapters.system.clock import SystemClock
from app.doctor import gathering
from app.doctor.gathering import Tries, in_time
from app.settings import PoolSettings, RuntimeKind, Settings
from domain.diagnosis import containers, instance, kubelet, places, rights, runtime
from domain.diagnosis.containers import ContainerFacts
from domain.diagnosis.findings import Finding, wrong
from domain.diagnosis.places import BaseFacts
from domain.diagnosis.rights import RightsFacts
from domain.diagnosis.runtime import Chosen
from domain.evidence import CheckpointView, DirectoryView, Unknown
from domain.ports.worker import OverBudget

STORAGE: Final = "storage"

_CURE: Final = "look for a dead disk or network mount with dmesg and findmnt"


async def examine(settings: Settings) -> tuple[Finding, ...]:
    """Return what is found on the node, in the order in which it is best mended."""
    parts = await asyncio.gather(
        _part(lambda: _rights(settings)),
        _part(lambda: _kubelet(settings)),
        _part(lambda: _instances(settings)),
        _pods(settings),
    )
    # Pools on one file system have some findings in common.
    return tuple(dict.fromkeys(finding for part in parts for finding in part))


async def _part(check: Callable[[], Awaitable[Iterable[Finding]]]) -> tuple[Finding, ...]:
    """Return the findings of a part of the node, the only one of which may be that it cannot be looked at."""
    try:
        return tuple(await check())
    except (OverBudget, OSError) as error:
        return (_unseen(error),)


def _unseen(error: OverBudget | OSError) -> Finding:
    """Return what is to be said where the disk does not let us look."""
    return wrong(STORAGE, str(error), _CURE)


async def _rights(settings: Settings) -> Iterable[Finding]:
    control = settings.control
    names = (control.group, control.agent_group, *(pool.directory_group for pool in settings.pools))
    # Looking a group up may ask the network.
    unknown = await in_time("looking at groups", lambda: groups.unknown(names))
    return rights.judge(RightsFacts(uid=os.geteuid(), lacking=capabilities.missing(), groups=unknown))


async def _kubelet(settings: Settings) -> Iterable[Finding]:
    directory = gathering.plugin_directory(settings)
    facts = await in_time(
        "looking for the kubelet",
        lambda: survey_kubelet(directory, pod_resources=settings.kubelet.pod_resources),
    )
    return kubelet.judge(facts)


async def _instances(settings: Settings) -> Iterable[Finding]:
    return instance.judge(await gathering.instances(settings))


async def _pods(settings: Settings) -> tuple[Finding, ...]:
    """Check the base directories, the container runtime, and what containers have of the one by the other."""
    bases, tried, checkpoint = await asyncio.gather(
        asyncio.gather(*map(_base, settings.pools)), _tried(settings), _checkpoint(settings)
    )
    found = _judged(tried, checkpoint)
    facts = ContainerFacts(
        runtime=found.view or Unknown(found.finding.what),
        checkpoint=checkpoint,
        pools=settings.domain_pools,
        directories=tuple(_spelled(each) for each in bases if isinstance(each, BaseFacts)),
    )
    judged = (places.judge(each) if isinstance(each, BaseFacts) else (each,) for each in bases)
    return (*chain.from_iterable(judged), found.finding, *containers.judge(facts))


async def _base(pool: PoolSettings) -> BaseFacts | Finding:
    rules = pool.sample().directory
    try:
        return await in_time(f"looking at {pool.host_dir}", lambda: survey_base(pool.host_dir, rules))
    except (OverBudget, OSError) as error:
        return _unseen(error)


async def _checkpoint(settings: Settings) -> CheckpointView | Unknown:
    reader = KubeletCheckpoint(directory=settings.kubelet.plugin_dir, clock=SystemClock())
    try:
        return await in_time("reading the kubelet's record", reader.read)
    except OverBudget as error:
        return Unknown(str(error))


async def _tried(settings: Settings) -> Tries | None:
    """Ask wherever a runtime may answer; nowhere, if it is the one of demonstrations."""
    return None if settings.runtime.kind is RuntimeKind.MEMORY else await gathering.runtimes(settings)


def _judged(tried: Tries | None, checkpoint: CheckpointView | Unknown) -> Chosen:
    if tried is None:
        return Chosen(finding=runtime.imaginary(), view=None)
    entries = checkpoint.entries if isinstance(checkpoint, CheckpointView) else ()
    return runtime.judge(*tried, stored=frozenset(entry.uid for entry in entries))


def _spelled(facts: BaseFacts) -> DirectoryView:
    """Return by which paths a base directory may be named; what lies in it does not matter here."""
    return DirectoryView(began=0.0, host_dir=facts.host_dir, spellings=facts.spellings, inodes={})
