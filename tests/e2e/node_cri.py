"""A CRI runtime that shows what runs on an embedded node, for a daemon that is another process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adapters._pb.cri.runtime.v1 import api_pb2 as cri
from adapters.memory.runtime import MemoryRuntime
from domain.evidence import ObjectKind, ObjectState, RuntimeObject
from tests.e2e.daemon import Stand
from tests.unit.cri_server import Context, CriServer


class NodeCri(CriServer):
    """Serves the objects of a memory runtime.

    Args:
        path: of its socket.
        runtime: the node's.
    """

    def __init__(self, path: str, runtime: MemoryRuntime) -> None:
        super().__init__(path)
        self._runtime = runtime

    async def _list_sandboxes(self, _: bytes, __: Context) -> bytes:
        items = [_sandbox(each) for each in self._runtime.objects if each.kind is ObjectKind.SANDBOX]
        return cri.ListPodSandboxResponse(items=items).SerializeToString()

    async def _list_containers(self, _: bytes, __: Context) -> bytes:
        containers = [_container(each) for each in self._runtime.objects if each.kind is ObjectKind.CONTAINER]
        return cri.ListContainersResponse(containers=containers).SerializeToString()

    async def _status(self, request: bytes, context: Context) -> bytes:
        asked = cri.ContainerStatusRequest.FromString(request).container_id
        found = {each.id: each for each in self._runtime.objects}.get(asked)
        if found is not None:
            self.mounts[asked] = [
                cri.Mount(container_path=here, host_path=there) for here, there in found.mounts.items()
            ]
        else:
            self.mounts.pop(asked, None)
            self.gone = {asked}
        return await super()._status(request, context)


@asynccontextmanager
async def read_by_cri(stand: Stand) -> AsyncIterator[NodeCri]:
    """Have a stand's daemons read its pods from such a runtime, and release what they may as soon as they may."""
    runtime = NodeCri(str(stand.root / "cri.sock"), stand.runtime)
    stand.configuration |= {
        "runtime": {"kind": "cri", "endpoint": f"unix://{runtime.path}"},
        "reconcile": {"interval": "1s", "grace": "100ms"},
    }
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.stop()


def _sandbox(each: RuntimeObject) -> cri.PodSandbox:
    metadata = cri.PodSandboxMetadata(name=each.name or "", uid=each.uid or "", namespace=each.namespace or "")
    return cri.PodSandbox(id=each.id, metadata=metadata, labels=_labels(each))


def _container(each: RuntimeObject) -> cri.Container:
    states = {ObjectState.CREATED: cri.CONTAINER_CREATED, ObjectState.RUNNING: cri.CONTAINER_RUNNING}
    return cri.Container(
        id=each.id,
        metadata=cri.ContainerMetadata(name=each.container or ""),
        state=states.get(each.state, cri.CONTAINER_EXITED),
        labels={**_labels(each), "io.kubernetes.container.name": each.container or ""},
        annotations=each.claimed,
    )


def _labels(each: RuntimeObject) -> dict[str, str]:
    return {
        "io.kubernetes.pod.name": each.name or "",
        "io.kubernetes.pod.namespace": each.namespace or "",
        "io.kubernetes.pod.uid": each.uid or "",
    }
