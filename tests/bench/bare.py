"""The least that a device plugin can be: what our numbers are put beside.

``python -m tests.bench.bare {aio,threads} PLUGIN_DIR ENDPOINT HOST_DIR [RESOURCE]`` serves in the plugin directory.  An
Allocate makes a directory and builds the answer that the daemon gives, and nothing else: no journal, no rule, no log.
With a resource it registers with the kubelet.  It writes ``imported`` to stdout when its modules are loaded, and
``serving`` when it serves, and registered if it was to.
"""
# ruff: noqa: N802 -- names are the protocol's

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, Final

import grpc
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc

DEVICES: Final = 100


def granted(host_dir: str) -> api_pb2.AllocateResponse:
    """Make a directory and answer with it."""
    name = secrets.token_hex(10)
    path, secret = f"{host_dir}/{name}", secrets.token_urlsafe(15)
    os.mkdir(path, 0o700)  # noqa: PTH102 -- the least that does it
    os.chmod(path, 0o2770)  # noqa: PTH101, S103 -- as above, and as the default says
    return api_pb2.AllocateResponse(
        container_responses=[
            api_pb2.ContainerAllocateResponse(
                envs={"MEMIF_SOCKET": "/run/vpp/memif.sock", "MEMIF_SECRET": secret},
                mounts=[api_pb2.Mount(container_path="/run/vpp", host_path=path)],
                annotations={
                    "io.contivpp.memif.socket.host": f"{path}/memif.sock",
                    "io.contivpp.memif.socket.container": "/run/vpp/memif.sock",
                    "io.contivpp.memif.secret": secret,
                },
            )
        ]
    )


def devices(resource: str) -> api_pb2.ListAndWatchResponse:
    """Return the list of devices."""
    return api_pb2.ListAndWatchResponse(
        devices=[api_pb2.Device(ID=f"{resource}/{index}", health="Healthy") for index in range(DEVICES)]
    )


class _Plugin:
    def __init__(self, host_dir: str, resource: str) -> None:
        self.host_dir = host_dir
        self.resource = resource

    def unused(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    GetPreferredAllocation = PreStartContainer = unused


class InLoop(_Plugin):
    """Served by ``grpc.aio``."""

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> api_pb2.DevicePluginOptions:
        del request, context
        return api_pb2.DevicePluginOptions()

    async def ListAndWatch(self, request: Any, context: Any) -> AsyncIterator[api_pb2.ListAndWatchResponse]:
        del request, context
        yield devices(self.resource)
        await asyncio.Event().wait()

    async def Allocate(self, request: Any, context: Any) -> api_pb2.AllocateResponse:
        del request, context
        return granted(self.host_dir)


class InThreads(_Plugin):
    """Served by a pool of threads."""

    def GetDevicePluginOptions(self, request: Any, context: Any) -> api_pb2.DevicePluginOptions:
        del request, context
        return api_pb2.DevicePluginOptions()

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[api_pb2.ListAndWatchResponse]:
        del request, context
        yield devices(self.resource)
        Event().wait()

    def Allocate(self, request: Any, context: Any) -> api_pb2.AllocateResponse:
        del request, context
        return granted(self.host_dir)


def _serve(plugin: Any, server: Any, path: str) -> None:
    api_pb2_grpc.add_DevicePluginServicer_to_server(plugin, server)
    server.add_insecure_port(f"unix:{path}")


async def in_loop(plugin_dir: str, endpoint: str, host_dir: str, resource: str) -> None:
    """Serve for ever."""
    server = aio.server()
    _serve(InLoop(host_dir, resource), server, f"{plugin_dir}/{endpoint}")
    await server.start()
    if resource:
        async with aio.insecure_channel(f"unix:{plugin_dir}/kubelet.sock") as channel:
            await api_pb2_grpc.RegistrationStub(channel).Register(
                api_pb2.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=resource)
            )
    print("serving", flush=True)  # noqa: T201 -- for whoever measures
    await server.wait_for_termination()


def in_threads(plugin_dir: str, endpoint: str, host_dir: str, resource: str) -> None:
    """Serve for ever."""
    server = grpc.server(ThreadPoolExecutor(16))
    _serve(InThreads(host_dir, resource), server, f"{plugin_dir}/{endpoint}")
    server.start()
    print("serving", flush=True)  # noqa: T201 -- for whoever measures
    server.wait_for_termination()


if __name__ == "__main__":
    print("imported", flush=True)  # noqa: T201 -- for whoever measures
    kind, *rest = sys.argv[1:]
    where = (*rest, "")[:4]
    if kind == "aio":
        asyncio.run(in_loop(*where))
    else:
        in_threads(*where)
