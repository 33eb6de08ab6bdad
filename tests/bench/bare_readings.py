"""The calls by which a runtime is read, made by nobody but the client library, with their answers decoded."""

import asyncio
import json
import socket
from collections.abc import Sequence
from http.client import HTTPConnection
from typing import Any, Final

import grpc.aio

from adapters._pb.cri.runtime.v1 import api_pb2, api_pb2_grpc
from adapters.containerd.api import Api, Method

_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 16 * 1024 * 1024))
_NAMESPACE: Final = (("containerd-namespace", "k8s.io"),)
_IN_FLIGHT: Final = 8


async def containerd(path: str, api: Api) -> int:
    """List containers and tasks; an answer is decoded when the JSON is that the CRI plugin keeps in it."""
    async with grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS) as channel:
        count = 0
        async for raw in _stream(channel, api.list_stream):
            record = api.list_stream.answer.FromString(raw).container
            for extension in record.extensions.values():
                json.loads(extension.value)
            count += 1
        ask: Any = channel.unary_unary(api.list_tasks.path, request_serializer=_serialized(api.list_tasks))
        answer = api.list_tasks.answer.FromString(await ask(api.list_tasks.request(), metadata=_NAMESPACE))
        assert len(answer.tasks) <= count
        return count


async def cri(path: str, asked: Sequence[str] = ()) -> int:
    """List sandboxes and containers, and ask for the status of some."""
    async with grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS) as channel:
        stub = api_pb2_grpc.RuntimeServiceStub(channel)
        sandboxes = await stub.ListPodSandbox(api_pb2.ListPodSandboxRequest())
        listed = await stub.ListContainers(api_pb2.ListContainersRequest())
        pending = iter(asked)

        async def ask() -> None:
            for name in pending:
                await stub.ContainerStatus(api_pb2.ContainerStatusRequest(container_id=name))

        await asyncio.gather(*(ask() for _ in range(_IN_FLIGHT)))
        return len(sandboxes.items) + len(listed.containers)


def docker(path: str) -> int:
    """List containers; blocks."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        connection = HTTPConnection("localhost")
        connection.sock = line
        connection.request("GET", "/v1.40/containers/json?all=1")
        return len(json.loads(connection.getresponse().read()))


def _stream(channel: grpc.aio.Channel, method: Method) -> Any:
    ask: Any = channel.unary_stream(method.path, request_serializer=_serialized(method))
    return ask(method.request(), metadata=_NAMESPACE)


def _serialized(method: Method) -> Any:
    return method.request.SerializeToString
