"""A node for the doctor, and what is printed of it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from click import unstyle

from adapters._pb.cri.runtime.v1 import api_pb2 as cri
from adapters.memory.node import ContainerSpec, Pod, PodSpec
from app.cli import doctor
from app.doctor import examine
from app.settings import RuntimeKind, RuntimeSettings, Settings
from domain.diagnosis.findings import Finding
from tests.integration.daemon import RESOURCE, Stand, a_stand
from tests.integration.filesystem import tmpfs
from tests.unit.cri_server import CriServer, a_cri_server

OWN = "size=1m,nr_inodes=1k,nosuid,nodev,noexec"
"""How a base directory's own file system should be mounted."""

CNF = PodSpec(namespace="telco", name="cnf", containers=(ContainerSpec(name="app", limits={RESOURCE: 2}),))


class Ward:
    """A node whose base directory lies on a file system of its own, and a runtime that speaks the CRI."""

    def __init__(self, stand: Stand, runtime: CriServer, place: Path) -> None:
        self.stand = stand
        self.runtime = runtime
        self.host_dir = place / "memif"

    def settings(self, **changes: Any) -> Settings:
        """Return a configuration that suits the node; ``changes`` are sections that differ."""
        there = RuntimeSettings(kind=RuntimeKind.CRI, endpoint=f"unix://{self.runtime.path}")
        return self.stand.settings(host_dir=str(self.host_dir)).model_copy(update={"runtime": there, **changes})

    async def admitted(self, *, mounts: Mapping[str, str] | None = None) -> Pod:
        """Serve, admit a pod, and let the runtime show its container, with other mounts if some are given."""
        await self.stand.serve(self.settings())
        pod = await self.stand.node.start(CNF)
        given = pod.container("app")
        self.runtime.sandbox("cnf", uid=pod.uid)
        shown = self.runtime.container("cnf", "app", annotations=given.annotations)
        shown.labels["io.kubernetes.pod.uid"] = pod.uid
        self.runtime.mounts[shown.id] = [
            cri.Mount(container_path=inside, host_path=outside)
            for inside, outside in (given.mounts if mounts is None else mounts).items()
        ]
        return pod


@asynccontextmanager
async def a_ward() -> AsyncIterator[Ward]:
    """A ward that is cleared afterwards; needs root, because it mounts."""
    async with a_stand() as stand, a_cri_server() as runtime:
        with tmpfs(stand.root / "own", OWN) as place:
            yield Ward(stand, runtime, place)


async def lines(settings: Settings) -> list[str]:
    """Return what is printed of a node."""
    return [unstyle(doctor.line(each)) for each in await examine(settings)]


async def line(settings: Settings, check: str) -> str:
    """Return the one line of a check."""
    return only(check, await examine(settings))


def only(check: str, findings: tuple[Finding, ...]) -> str:
    """Return the one line of a check among findings."""
    (found,) = [unstyle(doctor.line(each)) for each in findings if each.check == check]
    return found
