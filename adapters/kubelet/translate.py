"""Protobuf messages of the kubelet to the domain's values and back; plain functions, no I/O."""

from collections.abc import Iterable, Sequence
from typing import Final

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2 as plugin_pb
from adapters._pb.kubelet.podresources.v1 import api_pb2 as resources_pb
from domain.answer import Answer, Mount
from domain.evidence import PodDevices
from domain.identity import DeviceId
from domain.pool import Device
from domain.resource import ResourceName

API_VERSION: Final = "v1beta1"
"""The only version of the device-plugin API that kubelets accept."""


def device_list(devices: Iterable[Device]) -> plugin_pb.ListAndWatchResponse:
    """Return a whole device list; each message replaces the one before."""
    return plugin_pb.ListAndWatchResponse(devices=[_device(each) for each in devices])


def requests(message: plugin_pb.AllocateRequest) -> tuple[tuple[str, ...], ...]:
    """Return the device ids of each container request."""
    return tuple(tuple(each.devices_ids) for each in message.container_requests)


def allocate_response(answers: Sequence[Answer]) -> plugin_pb.AllocateResponse:
    """Return one container response for each answer, in the same order.

    Exactly as many as there were requests: a missing one strands the ids in the kubelet.
    """
    return plugin_pb.AllocateResponse(container_responses=[_container_response(each) for each in answers])


def answer(message: plugin_pb.ContainerAllocateResponse) -> Answer:
    """Return a stored container response as the answer that it was."""
    return Answer(
        envs=dict(message.envs),
        mounts=tuple(
            Mount(host_path=each.host_path, container_path=each.container_path, read_only=each.read_only)
            for each in message.mounts
        ),
        annotations=dict(message.annotations),
    )


def pod_devices(message: resources_pb.PodResources) -> PodDevices:
    """Return what a pod holds.

    The kubelet sends one entry for each id, and again for each NUMA node of it; sets make one of them.
    """
    return PodDevices(
        namespace=message.namespace,
        name=message.name,
        containers={each.name: by_resource(each.devices) for each in message.containers},
    )


def by_resource(entries: Iterable[resources_pb.ContainerDevices]) -> dict[ResourceName, frozenset[DeviceId]]:
    """Return the distinct ids of each resource."""
    found: dict[ResourceName, set[DeviceId]] = {}
    for each in entries:
        found.setdefault(ResourceName(each.resource_name), set()).update(map(DeviceId, each.device_ids))
    return {resource: frozenset(ids) for resource, ids in found.items()}


def _device(device: Device) -> plugin_pb.Device:
    message = plugin_pb.Device(ID=device.id, health=device.health.value)
    if device.numa_node is not None:
        message.topology.nodes.add(ID=device.numa_node)
    return message


def _container_response(given: Answer) -> plugin_pb.ContainerAllocateResponse:
    return plugin_pb.ContainerAllocateResponse(
        envs=given.envs,
        mounts=[
            plugin_pb.Mount(container_path=each.container_path, host_path=each.host_path, read_only=each.read_only)
            for each in given.mounts
        ],
        annotations=given.annotations,
    )
