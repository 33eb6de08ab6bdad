"""A containerd on a real socket that shows what it is told to, counts what it is asked, and can be made to fail."""

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio

from adapters.containerd.api import FILES
from adapters.containerd.descriptors import Types

CAPTURES: Final = Path(__file__).parent.parent / "captures"
PREFIX: Final = "io.contivpp.memif"
HOST_DIR: Final = "/var/run/contiv/memif"

TYPES: Final = Types(FILES)
"""With every field, also those that the adapter does not read."""

CONTAINER_TYPE: Final = "github.com/containerd/cri/pkg/store/container/Metadata"
SANDBOX_TYPE: Final = "github.com/containerd/cri/pkg/store/sandbox/Metadata"
SPEC_TYPE: Final = "types.containerd.io/opencontainers/runtime-spec/1/Spec"

_CONTAINERS: Final = "containerd.services.containers.v1"
_TASKS: Final = "containerd.services.tasks.v1"
_EVENTS: Final = "containerd.services.events.v1"
_VERSION: Final = "containerd.services.version.v1"

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

Container: Final[Any] = TYPES.message(f"{_CONTAINERS}.Container")
_Process: Final[Any] = TYPES.message("containerd.v1.types.Process")


def directory(number: int) -> str:
    """Return the directory of an allocation."""
    return f"{HOST_DIR}/{number:020d}"


def claims(number: int) -> dict[str, str]:
    """Return the annotations of a container that was given the directory."""
    return {
        f"{PREFIX}.socket.host": f"{directory(number)}/memif.sock",
        f"{PREFIX}.socket.container": "/run/vpp/memif.sock",
        f"{PREFIX}.secret": "averygoodsecret4u",
    }


def labels(name: str, namespace: str = "telco") -> dict[str, str]:
    """Return the labels that the kubelet puts on everything of a pod."""
    return {
        "io.kubernetes.pod.name": name,
        "io.kubernetes.pod.namespace": namespace,
        "io.kubernetes.pod.uid": f"uid-of-{name}",
    }


def metadata(config: object) -> bytes:
    """Return an extension as the CRI plugin writes it."""
    return json.dumps({"Version": "v1", "Metadata": {"ID": "x", "Config": config}}).encode()


def specification(mounts: object) -> bytes:
    """Return an OCI specification."""
    return json.dumps({"ociVersion": "1.0.2-dev", "root": {"path": "rootfs"}, "mounts": mounts}).encode()


def record(
    name: str,
    *,
    extension: tuple[str, bytes] | None = None,
    spec: bytes = b"{}",
    own_labels: Mapping[str, str] | None = None,
) -> Any:
    """Return a container's record; the extension is type and value."""
    made = Container(id=name, labels=own_labels, image="localhost/busybox:1")
    made.updated_at.GetCurrentTime()
    made.spec.type_url, made.spec.value = SPEC_TYPE, spec
    if extension is not None:
        kind = "container" if extension[0] == CONTAINER_TYPE else "sandbox"
        slot = made.extensions[f"io.cri-containerd.{kind}.metadata"]
        slot.type_url, slot.value = extension
    return made


def sandbox(name: str, *, annotations: Mapping[str, str] | None = None) -> Any:
    """Return the record of a pod's sandbox."""
    config = {"metadata": {"name": name}, "labels": labels(name), "annotations": dict(annotations or {})}
    mounts = [{"destination": "/dev/shm", "type": "bind", "source": f"/run/{name}/shm", "options": ["rbind", "ro"]}]
    return record(f"sandbox-of-{name}", extension=(SANDBOX_TYPE, metadata(config)), spec=specification(mounts))


def container(
    pod: str,
    name: str = "a",
    *,
    number: int | None = None,
    namespace: str = "telco",
    envs: Mapping[str, str] | None = None,
) -> Any:
    """Return the record of a pod's container; one with a number was given that allocation."""
    mounts = [{"container_path": "/etc/hosts", "host_path": f"/var/lib/kubelet/pods/uid-of-{pod}/etc-hosts"}]
    carried = {"io.kubernetes.container.hash": "1fb36bbe"}
    if number is not None:
        mounts.insert(0, {"container_path": "/run/vpp", "host_path": directory(number)})
        carried |= claims(number)
    config = {
        "metadata": {"name": name},
        "labels": {**labels(pod, namespace), "io.kubernetes.container.name": name},
        "annotations": carried,
        "envs": [{"key": key, "value": value} for key, value in (envs or {}).items()],
        "mounts": mounts,
    }
    return record(f"{name}-of-{pod}-in-{namespace}", extension=(CONTAINER_TYPE, metadata(config)))


class ContainerdServer:
    """What it shows, and how it behaves.

    Attributes:
        path: of its socket.
        version: its answer to ``Version``.
        containers: records by their ids.
        tasks: status of tasks by the container's id, as in the API.
        faults: the status with which a method fails, by its name, such as ``Tasks/List``.
        hold: methods that are not answered before ``release``.
        raw: bytes with which a method is answered instead.
        mangle: bytes of a record that are replaced, and by what.
        cut_after: records that a stream sends before it fails.
        asked: how often each method was called.
        namespaces: those that were asked for.
        filters: those of the last subscription.
        listening: how many streams of events are open.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.version = "1.6.20~ds1"
        self.containers: dict[str, Any] = {}
        self.tasks: dict[str, str] = {}
        self.faults: dict[str, grpc.StatusCode] = {}
        self.hold: set[str] = set()
        self.raw: dict[str, bytes] = {}
        self.mangle = (b"", b"")
        self.cut_after: int | None = None
        self.asked: Counter[str] = Counter()
        self.namespaces: set[str] = set()
        self.filters: tuple[str, ...] = ()
        self._streams: set[asyncio.Queue[bytes | None]] = set()
        self._changed = asyncio.Condition()
        self._server: grpc.aio.Server | None = None

    # -- what it shows ---------------------------------------------------------------------------------------------

    def add(self, *records: Any, status: str | None = "RUNNING") -> None:
        """Show containers, whose tasks have a status; ``None`` for no task."""
        for each in records:
            self.containers[each.id] = each
            if status is not None:
                self.tasks[each.id] = status

    def remove(self, name: str) -> None:
        """Show a container no more."""
        del self.containers[name]
        self.tasks.pop(name, None)

    def load(self, capture: str) -> None:
        """Show what a real containerd did."""
        recording = json.loads((CAPTURES / capture).read_text())
        for raw in recording["containers"]:
            made = Container(id=raw["id"], image=raw["image"], labels=raw["labels"])
            made.runtime.name = raw["runtime"]
            made.created_at.FromDatetime(datetime.fromisoformat(raw["created_at"][:26]))
            made.updated_at.CopyFrom(made.created_at)
            for key, extension in raw["extensions"].items():
                made.extensions[key].type_url = extension["type_url"]
                made.extensions[key].value = json.dumps(extension["value"]).encode()
            self.add(made, status=None)
        self.tasks = {raw["id"]: raw["status"] for raw in recording["tasks"]}

    def publish(self, topic: str, kind: str, **fields: object) -> None:
        """Send an event to whoever listens."""
        envelope = TYPES.message(f"{_EVENTS}.Envelope")(topic=topic, namespace="k8s.io")
        envelope.event.type_url = f"containerd.events.{kind}"
        if kind != "unknown":
            envelope.event.value = TYPES.message(f"containerd.events.{kind}")(**fields).SerializeToString()
        for stream in self._streams:
            stream.put_nowait(envelope.SerializeToString())

    def end_streams(self) -> None:
        """End every stream of events in good order."""
        for stream in self._streams:
            stream.put_nowait(None)

    async def release(self) -> None:
        """Answer what was held."""
        self.hold.clear()
        await self._note("a release")

    @property
    def listening(self) -> int:
        """How many streams of events are open."""
        return len(self._streams)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds that changes when the server is asked."""
        async with self._changed:
            await self._changed.wait_for(condition)

    # -- how it serves ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Serve."""
        self._server = grpc.aio.server(options=[("grpc.max_send_message_length", 16 * 1024 * 1024)])
        unary = {
            f"{_CONTAINERS}.Containers": {"List": self._list},
            f"{_TASKS}.Tasks": {"List": self._list_tasks},
            f"{_VERSION}.Version": {"Version": self._version},
        }
        for service, methods in unary.items():
            handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
                name: grpc.unary_unary_rpc_method_handler(self._unary(_short(service, name), answer))
                for name, answer in methods.items()
            }
            if service == f"{_CONTAINERS}.Containers":
                streaming = self._stream("Containers/ListStream", self._list_stream)
                handlers["ListStream"] = grpc.unary_stream_rpc_method_handler(streaming)
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        events: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Subscribe": grpc.unary_stream_rpc_method_handler(self._stream("Events/Subscribe", self._subscribe)),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"{_EVENTS}.Events", events),))
        self._server.add_insecure_port(f"unix:{self.path}")
        await self._server.start()

    async def stop(self) -> None:
        """Serve no more; calls that are being answered are cut."""
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None

    def _unary(self, name: str, answer: Callable[[], bytes]) -> Callable[[bytes, Context], Awaitable[bytes]]:
        async def handle(_: bytes, context: Context) -> bytes:
            await self._begin(name, context)
            return self.raw[name] if name in self.raw else answer()

        return handle

    def _stream(
        self, name: str, answers: Callable[[bytes, Context], AsyncIterator[bytes]]
    ) -> Callable[[bytes, Context], AsyncIterator[bytes]]:
        async def handle(request: bytes, context: Context) -> AsyncIterator[bytes]:
            await self._begin(name, context)
            if name in self.raw:
                yield self.raw[name]
                return
            async for each in answers(request, context):
                yield each

        return handle

    async def _begin(self, name: str, context: Context) -> None:
        await self._note(name)
        sent = {key: value for key, value in context.invocation_metadata() or ()}  # noqa: C416 -- no pairs, by their type
        self.namespaces.add(str(sent.get("containerd-namespace")))
        if name in self.hold:
            await self.until(lambda: name not in self.hold)
        if name in self.faults:
            await context.abort(self.faults[name], f"{name} is out of order")

    def _list(self) -> bytes:
        answer = TYPES.message(f"{_CONTAINERS}.ListContainersResponse")
        return bytes(answer(containers=self.containers.values()).SerializeToString())

    async def _list_stream(self, _: bytes, context: Context) -> AsyncIterator[bytes]:
        message = TYPES.message(f"{_CONTAINERS}.ListContainerMessage")
        for number, each in enumerate(list(self.containers.values())):
            if number == self.cut_after:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "half way")
            sent = message(container=each).SerializeToString()
            yield sent.replace(*self.mangle) if self.mangle[0] else sent

    def _list_tasks(self) -> bytes:
        answer = TYPES.message(f"{_TASKS}.ListTasksResponse")
        processes = [_Process(id=name, pid=1, status=status) for name, status in self.tasks.items()]
        return bytes(answer(tasks=processes).SerializeToString())

    def _version(self) -> bytes:
        return bytes(TYPES.message(f"{_VERSION}.VersionResponse")(version=self.version).SerializeToString())

    async def _subscribe(self, request: bytes, _: Context) -> AsyncIterator[bytes]:
        self.filters = tuple(TYPES.message(f"{_EVENTS}.SubscribeRequest").FromString(request).filters)
        stream: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._streams.add(stream)
        await self._note("a stream's beginning")
        try:
            while (event := await stream.get()) is not None:
                yield event
        finally:
            self._streams.discard(stream)
            await self._note("a stream's end")

    async def _note(self, what: str) -> None:
        async with self._changed:
            self.asked[what] += 1
            self._changed.notify_all()


def _short(service: str, method: str) -> str:
    return f"{service.rpartition('.')[2]}/{method}"


@asynccontextmanager
async def a_containerd() -> AsyncIterator[ContainerdServer]:
    """Serve on a socket of its own."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="ctrd-") as home:
        server = ContainerdServer(f"{home}/containerd.sock")
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
