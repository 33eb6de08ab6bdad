"""A CRI server on a real socket that shows what it is told to, counts what it is asked, and can be made to fail."""

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf import json_format

from adapters._pb.cri.runtime.v1 import api_pb2 as cri

CAPTURES = Path(__file__).parent.parent / "captures"
PREFIX = "io.contivpp.memif"
HOST_DIR = "/var/run/contiv/memif"

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


def directory(number: int) -> str:
    """Return the directory of an allocation."""
    return f"{HOST_DIR}/{number:020d}"


def claims(number: int, *, prefix: str = PREFIX, inside: str = "/run/vpp") -> dict[str, str]:
    """Return the annotations of a container that was given the directory."""
    return {
        f"{prefix}.socket.host": f"{directory(number)}/memif.sock",
        f"{prefix}.socket.container": f"{inside}/memif.sock",
        f"{prefix}.secret": "averygoodsecret4u",
    }


class CriServer:
    """What it shows, and how it behaves.

    Attributes:
        path: of its socket.
        version: its answer to ``Version``.
        mounts: what a container's status shows, by its id.
        gone: containers that have vanished since they were listed.
        faults: the status with which a method fails.
        hanging: methods that are never answered; also single containers' statuses, by id.
        raw: bytes with which a method is answered; the stream of events ends at once.
        hooks: called with the name of each method that is called, before it is answered.
        asked: how often each method was called.
        statuses: of which containers a status was asked for, in order.
        listening: how many streams of events are open.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.version = cri.VersionResponse(version="0.1.0", runtime_name="fakerd", runtime_version="9.1")
        self.sandboxes: list[cri.PodSandbox] = []
        self.containers: list[cri.Container] = []
        self.mounts: dict[str, list[cri.Mount]] = {}
        self.gone: set[str] = set()
        self.faults: dict[str, grpc.StatusCode] = {}
        self.hanging: set[str] = set()
        self.raw: dict[str, bytes] = {}
        self.hooks: list[Callable[[str], None]] = []
        self.asked: Counter[str] = Counter()
        self.statuses: list[str] = []
        self._streams: set[asyncio.Queue[bytes | None]] = set()
        self._changed = asyncio.Condition()
        self._server: grpc.aio.Server | None = None

    # -- what it shows ---------------------------------------------------------------------------------------------

    def load(self, capture: str) -> None:
        """Show what a real runtime did."""
        recording = json.loads((CAPTURES / capture).read_text())

        def message(kind: type[Any], value: dict[str, Any]) -> Any:
            return json_format.ParseDict(value, kind(), ignore_unknown_fields=True)

        self.version = message(cri.VersionResponse, recording["Version"])
        self.sandboxes = list(message(cri.ListPodSandboxResponse, recording["ListPodSandbox"]).items)
        self.containers = list(message(cri.ListContainersResponse, recording["ListContainers"]).containers)
        statuses = [message(cri.ContainerStatusResponse, each).status for each in recording["ContainerStatus"]]
        self.mounts = {each.id: list(each.mounts) for each in statuses}

    def sandbox(
        self,
        name: str,
        *,
        uid: str | None = None,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> cri.PodSandbox:
        """Add a sandbox."""
        uid = uid or f"uid-of-{name}"
        made = cri.PodSandbox(
            id=f"sandbox-{len(self.sandboxes)}",
            metadata=cri.PodSandboxMetadata(name=name, uid=uid, namespace="telco"),
            labels={**(labels or {}), **_labels(name, uid)},
            annotations=annotations,
        )
        self.sandboxes.append(made)
        return made

    def container(
        self,
        pod: str,
        name: str = "a",
        *,
        number: int | None = None,
        annotations: Mapping[str, str] | None = None,
        state: cri.ContainerState.ValueType = cri.CONTAINER_RUNNING,
    ) -> cri.Container:
        """Add a container; one with a number was given that allocation."""
        carried = {"io.kubernetes.container.hash": "1fb36bbe", **(annotations or {})}
        mounts = [cri.Mount(container_path="/etc/hosts", host_path="/var/lib/kubelet/pods/x/etc-hosts")]
        if number is not None:
            carried |= claims(number)
            mounts.insert(0, cri.Mount(container_path="/run/vpp", host_path=directory(number)))
        made = cri.Container(
            id=f"container-{len(self.mounts)}",
            metadata=cri.ContainerMetadata(name=name),
            state=state,
            labels={**_labels(pod, f"uid-of-{pod}"), "io.kubernetes.container.name": name},
            annotations=carried,
        )
        self.containers.append(made)
        self.mounts[made.id] = mounts
        return made

    def remove(self, container: cri.Container) -> None:
        """Take a container away."""
        self.containers.remove(container)

    def happen(self) -> None:
        """Send an event to whoever listens."""
        for stream in self._streams:
            stream.put_nowait(cri.ContainerEventResponse(container_id="one").SerializeToString())

    def end_streams(self) -> None:
        """End every stream of events in good order."""
        for stream in self._streams:
            stream.put_nowait(None)

    @property
    def listening(self) -> int:
        """How many streams of events are open."""
        return len(self._streams)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds that changes when the server is asked."""
        async with self._changed:
            await self._changed.wait_for(condition)

    # -- how it serves ---------------------------------------------------------------------------------------------

    async def start(self, *, service: str = "runtime.v1.RuntimeService") -> None:
        """Serve; under another service's name it knows nothing of the CRI."""
        unary = {
            "Version": self._version,
            "ListPodSandbox": self._list_sandboxes,
            "ListContainers": self._list_containers,
            "ContainerStatus": self._status,
        }
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            name: grpc.unary_unary_rpc_method_handler(self._handler(name, answer)) for name, answer in unary.items()
        }
        handlers["GetContainerEvents"] = grpc.unary_stream_rpc_method_handler(self._events)
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        self._server.add_insecure_port(f"unix:{self.path}")
        await self._server.start()

    async def stop(self) -> None:
        """Serve no more; calls that are being answered are cut."""
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None

    def _handler(
        self, name: str, answer: Callable[[bytes, Context], Awaitable[bytes]]
    ) -> Callable[[bytes, Context], Awaitable[bytes]]:
        async def handle(request: bytes, context: Context) -> bytes:
            await self._note(name)
            if name in self.hanging:
                await asyncio.Event().wait()
            if name in self.faults:
                await context.abort(self.faults[name], f"{name} is out of order")
            return self.raw[name] if name in self.raw else await answer(request, context)

        return handle

    async def _version(self, _: bytes, __: Context) -> bytes:
        return self.version.SerializeToString()

    async def _list_sandboxes(self, _: bytes, __: Context) -> bytes:
        return cri.ListPodSandboxResponse(items=self.sandboxes).SerializeToString()

    async def _list_containers(self, _: bytes, __: Context) -> bytes:
        return cri.ListContainersResponse(containers=self.containers).SerializeToString()

    async def _status(self, request: bytes, context: Context) -> bytes:
        asked = cri.ContainerStatusRequest.FromString(request)
        assert not asked.verbose, "the verbose answer holds the environment"
        self.statuses.append(asked.container_id)
        if asked.container_id in self.hanging:
            await asyncio.Event().wait()
        if asked.container_id in self.gone:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no container {asked.container_id}")
        mounts = self.mounts[asked.container_id]
        status = cri.ContainerStatus(id=asked.container_id, mounts=mounts)
        return cri.ContainerStatusResponse(status=status).SerializeToString()

    async def _events(self, _: bytes, context: Context) -> AsyncIterator[bytes]:
        await self._note("GetContainerEvents")
        if "GetContainerEvents" in self.faults:
            await context.abort(self.faults["GetContainerEvents"], "no events here")
        stream: asyncio.Queue[bytes | None] = asyncio.Queue()
        if "GetContainerEvents" in self.raw:
            return
        self._streams.add(stream)
        try:
            while (event := await stream.get()) is not None:
                yield event
        finally:
            self._streams.discard(stream)
            await self._note("a stream's end")

    async def _note(self, what: str) -> None:
        async with self._changed:
            self.asked[what] += 1
            for hook in self.hooks:
                hook(what)
            self._changed.notify_all()


def _labels(name: str, uid: str) -> dict[str, str]:
    return {
        "io.kubernetes.pod.name": name,
        "io.kubernetes.pod.namespace": "telco",
        "io.kubernetes.pod.uid": uid,
    }


@asynccontextmanager
async def a_cri_server() -> AsyncIterator[CriServer]:
    """Serve on a socket of its own."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="cri-") as home:
        server = CriServer(f"{home}/cri.sock")
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
