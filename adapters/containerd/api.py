"""What there is to ask containerd, and the messages for it."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from adapters.containerd.descriptors import Types

FILES: Final = (
    "containerd/services/containers/v1/containers.proto",
    "containerd/services/tasks/v1/tasks.proto",
    "containerd/services/events/v1/events.proto",
    "containerd/services/version/v1/version.proto",
    "containerd/events/container.proto",
    "containerd/events/task.proto",
)

_READ: Final = {
    "containerd.services.containers.v1.Container": frozenset({"id", "spec", "extensions", "updated_at"}),
    "containerd.v1.types.Process": frozenset({"container_id", "id", "status"}),
    "containerd.services.events.v1.Envelope": frozenset({"topic", "event"}),
}
"""The fields that are read.  Labels are not: containerd merges those of the image, which are its author's, into a
container's."""

_EVENTS: Final = {
    "/containers/create": "containerd.events.ContainerCreate",
    "/containers/update": "containerd.events.ContainerUpdate",
    "/containers/delete": "containerd.events.ContainerDelete",
    "/tasks/create": "containerd.events.TaskCreate",
    "/tasks/start": "containerd.events.TaskStart",
    "/tasks/exit": "containerd.events.TaskExit",
    "/tasks/delete": "containerd.events.TaskDelete",
    "/tasks/paused": "containerd.events.TaskPaused",
    "/tasks/resumed": "containerd.events.TaskResumed",
}
"""Messages by the topics to which containerd publishes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method of the API.

    Attributes:
        path: as gRPC calls it.
        request: the class of the question.
        answer: the class of the answer, or of each of its parts.
    """

    path: str
    request: type[Any]
    answer: type[Any]


class Api:
    """The methods that are used; none of them changes anything.

    Attributes:
        list_stream: every container, one a message.
        list_at_once: every container in one message; for a containerd that has no ``list_stream``.
        list_tasks: every container's first process, as far as it is known to a shim.
        subscribe: events as they happen.
        version: of containerd.
        events: classes of events by topic.
    """

    def __init__(self, types: Types) -> None:
        def method(service: str, name: str, request: str, answer: str) -> Method:
            package = service.rpartition(".")[0]
            within = "google.protobuf" if request == "Empty" else package
            return Method(
                path=f"/{service}/{name}",
                request=types.message(f"{within}.{request}"),
                answer=types.message(f"{package}.{answer}"),
            )

        containers = "containerd.services.containers.v1.Containers"
        self.list_stream = method(containers, "ListStream", "ListContainersRequest", "ListContainerMessage")
        self.list_at_once = method(containers, "List", "ListContainersRequest", "ListContainersResponse")
        self.list_tasks = method("containerd.services.tasks.v1.Tasks", "List", "ListTasksRequest", "ListTasksResponse")
        self.subscribe = method("containerd.services.events.v1.Events", "Subscribe", "SubscribeRequest", "Envelope")
        self.version = method("containerd.services.version.v1.Version", "Version", "Empty", "VersionResponse")
        self.events = {topic: types.message(name) for topic, name in _EVENTS.items()}


@cache
def load() -> Api:
    """Return the API; the first time takes some 25 ms.

    Raises:
        PackageNotUnderstood: what describes the API is not as expected.
    """
    return Api(Types(FILES, read=_READ))
