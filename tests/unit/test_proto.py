"""The generated code speaks the kubelet's wire: names, numbers and types, and what a real kubelet wrote.

The tables are those of the interface, typed again by hand; they are not derived from the `.proto` files.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.unknown_fields import UnknownFieldSet

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2 as deviceplugin
from adapters._pb.kubelet.podresources.v1 import api_pb2 as podresources

CAPTURES = Path(__file__).parent.parent / "captures"

ONE, OPTIONAL, MANY = "one", "optional", "many"
STRING_MAP = "map<string, string>"

Field = tuple[int, str, str]
Table = Mapping[str, Mapping[str, Field]]

DEVICE_PLUGIN: Table = {
    "Empty": {},
    "DevicePluginOptions": {
        "pre_start_required": (1, "bool", ONE),
        "get_preferred_allocation_available": (2, "bool", ONE),
    },
    "RegisterRequest": {
        "version": (1, "string", ONE),
        "endpoint": (2, "string", ONE),
        "resource_name": (3, "string", ONE),
        "options": (4, "DevicePluginOptions", ONE),
    },
    "ListAndWatchResponse": {"devices": (1, "Device", MANY)},
    "Device": {
        "ID": (1, "string", ONE),
        "health": (2, "string", ONE),
        "topology": (3, "TopologyInfo", ONE),
    },
    "TopologyInfo": {"nodes": (1, "NUMANode", MANY)},
    "NUMANode": {"ID": (1, "int64", ONE)},
    "PreStartContainerRequest": {"devices_ids": (1, "string", MANY)},
    "PreStartContainerResponse": {},
    "PreferredAllocationRequest": {"container_requests": (1, "ContainerPreferredAllocationRequest", MANY)},
    "ContainerPreferredAllocationRequest": {
        "available_deviceIDs": (1, "string", MANY),
        "must_include_deviceIDs": (2, "string", MANY),
        "allocation_size": (3, "int32", ONE),
    },
    "PreferredAllocationResponse": {"container_responses": (1, "ContainerPreferredAllocationResponse", MANY)},
    "ContainerPreferredAllocationResponse": {"deviceIDs": (1, "string", MANY)},
    "AllocateRequest": {"container_requests": (1, "ContainerAllocateRequest", MANY)},
    "ContainerAllocateRequest": {"devices_ids": (1, "string", MANY)},
    "AllocateResponse": {"container_responses": (1, "ContainerAllocateResponse", MANY)},
    "ContainerAllocateResponse": {
        "envs": (1, STRING_MAP, MANY),
        "mounts": (2, "Mount", MANY),
        "devices": (3, "DeviceSpec", MANY),
        "annotations": (4, STRING_MAP, MANY),
        "cdi_devices": (5, "CDIDevice", MANY),
    },
    "Mount": {
        "container_path": (1, "string", ONE),
        "host_path": (2, "string", ONE),
        "read_only": (3, "bool", ONE),
    },
    "DeviceSpec": {
        "container_path": (1, "string", ONE),
        "host_path": (2, "string", ONE),
        "permissions": (3, "string", ONE),
    },
    "CDIDevice": {"name": (1, "string", ONE)},
}

POD_RESOURCES: Table = {
    "ListPodResourcesRequest": {},
    "ListPodResourcesResponse": {"pod_resources": (1, "PodResources", MANY)},
    "AllocatableResourcesRequest": {},
    "AllocatableResourcesResponse": {
        "devices": (1, "ContainerDevices", MANY),
        "cpu_ids": (2, "int64", MANY),
        "memory": (3, "ContainerMemory", MANY),
    },
    "GetPodResourcesRequest": {
        "pod_name": (1, "string", ONE),
        "pod_namespace": (2, "string", ONE),
    },
    "GetPodResourcesResponse": {"pod_resources": (1, "PodResources", ONE)},
    "PodResources": {
        "name": (1, "string", ONE),
        "namespace": (2, "string", ONE),
        "containers": (3, "ContainerResources", MANY),
    },
    "ContainerResources": {
        "name": (1, "string", ONE),
        "devices": (2, "ContainerDevices", MANY),
        "cpu_ids": (3, "int64", MANY),
        "memory": (4, "ContainerMemory", MANY),
        "dynamic_resources": (5, "DynamicResource", MANY),
    },
    "ContainerDevices": {
        "resource_name": (1, "string", ONE),
        "device_ids": (2, "string", MANY),
        "topology": (3, "TopologyInfo", ONE),
    },
    "ContainerMemory": {
        "memory_type": (1, "string", ONE),
        "size": (2, "uint64", ONE),
        "topology": (3, "TopologyInfo", ONE),
    },
    "TopologyInfo": {"nodes": (1, "NUMANode", MANY)},
    "NUMANode": {"ID": (1, "int64", ONE)},
    "DynamicResource": {
        "claim_name": (2, "string", ONE),
        "claim_namespace": (3, "string", ONE),
        "claim_resources": (4, "ClaimResource", MANY),
    },
    "ClaimResource": {
        "cdi_devices": (1, "CDIDevice", MANY),
        "driver_name": (2, "string", ONE),
        "pool_name": (3, "string", ONE),
        "device_name": (4, "string", ONE),
        "share_id": (5, "string", OPTIONAL),
    },
    "CDIDevice": {"name": (1, "string", ONE)},
}

ONCE, STREAM = "once", "stream"

DEVICE_PLUGIN_METHODS = {
    "/v1beta1.Registration/Register": ("RegisterRequest", ONCE, "Empty"),
    "/v1beta1.DevicePlugin/GetDevicePluginOptions": ("Empty", ONCE, "DevicePluginOptions"),
    "/v1beta1.DevicePlugin/ListAndWatch": ("Empty", STREAM, "ListAndWatchResponse"),
    "/v1beta1.DevicePlugin/GetPreferredAllocation": (
        "PreferredAllocationRequest",
        ONCE,
        "PreferredAllocationResponse",
    ),
    "/v1beta1.DevicePlugin/Allocate": ("AllocateRequest", ONCE, "AllocateResponse"),
    "/v1beta1.DevicePlugin/PreStartContainer": (
        "PreStartContainerRequest",
        ONCE,
        "PreStartContainerResponse",
    ),
}

POD_RESOURCES_METHODS = {
    "/v1.PodResourcesLister/List": ("ListPodResourcesRequest", ONCE, "ListPodResourcesResponse"),
    "/v1.PodResourcesLister/GetAllocatableResources": (
        "AllocatableResourcesRequest",
        ONCE,
        "AllocatableResourcesResponse",
    ),
    "/v1.PodResourcesLister/Get": ("GetPodResourcesRequest", ONCE, "GetPodResourcesResponse"),
}

SCALARS = {
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_UINT64: "uint64",
}


def type_of(field: FieldDescriptor) -> str:
    message = field.message_type
    if message is None:
        return SCALARS[field.type]
    if message.GetOptions().map_entry:
        return f"map<{', '.join(type_of(part) for part in message.fields)}>"
    return message.name


def label_of(field: FieldDescriptor) -> str:
    if field.is_repeated:
        return MANY
    return OPTIONAL if field.message_type is None and field.has_presence else ONE


def fields_of(message: Descriptor) -> dict[str, Field]:
    return {field.name: (field.number, type_of(field), label_of(field)) for field in message.fields}


@pytest.mark.parametrize(
    "module, package, table",
    [(deviceplugin, "v1beta1", DEVICE_PLUGIN), (podresources, "v1", POD_RESOURCES)],
    ids=["deviceplugin", "podresources"],
)
def test_messages_and_fields_are_those_of_the_wire(module: ModuleType, package: str, table: Table) -> None:
    file: FileDescriptor = module.DESCRIPTOR

    assert file.package == package
    assert {name: fields_of(message) for name, message in file.message_types_by_name.items()} == table


@pytest.mark.parametrize(
    "module, methods",
    [(deviceplugin, DEVICE_PLUGIN_METHODS), (podresources, POD_RESOURCES_METHODS)],
    ids=["deviceplugin", "podresources"],
)
def test_methods_are_those_of_the_wire(module: ModuleType, methods: Mapping[str, tuple[str, str, str]]) -> None:
    file: FileDescriptor = module.DESCRIPTOR
    found = [method for service in file.services_by_name.values() for method in service.methods]

    assert {
        f"/{method.containing_service.full_name}/{method.name}": (
            method.input_type.name,
            STREAM if method.server_streaming else ONCE,
            method.output_type.name,
        )
        for method in found
    } == methods
    assert not any(method.client_streaming for method in found)


def test_file_names_are_unique_in_the_descriptor_pool() -> None:
    assert deviceplugin.DESCRIPTOR.name == "kubelet/deviceplugin/v1beta1/api.proto"
    assert podresources.DESCRIPTOR.name == "kubelet/podresources/v1/api.proto"
    assert deviceplugin.DESCRIPTOR.pool is podresources.DESCRIPTOR.pool


@pytest.mark.parametrize("module", [deviceplugin, podresources])
def test_message_classes_name_the_module_that_they_can_be_imported_from(module: ModuleType) -> None:
    for name in module.DESCRIPTOR.message_types_by_name:
        assert getattr(module, name).__module__ == module.__name__


def test_absent_share_id_is_not_an_empty_one() -> None:
    assert not podresources.ClaimResource().HasField("share_id")
    assert podresources.ClaimResource(share_id="").HasField("share_id")


def recorded_answers(capture: str) -> dict[str, deviceplugin.ContainerAllocateResponse]:
    """Return what the plugin had answered, by container, out of a checkpoint file of a real kubelet."""
    entries = json.loads((CAPTURES / capture).read_text())["Data"]["PodDeviceEntries"]
    return {
        entry["ContainerName"]: deviceplugin.ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"]))
        for entry in entries
    }


@pytest.mark.parametrize(
    "capture, container, allocation",
    [
        ("kubelet_internal_checkpoint.containerd.json", "setup", "82d6541fd4a674e2aa1e"),
        ("kubelet_internal_checkpoint.containerd.json", "side", "6f3f994a7460d5640f05"),
        ("kubelet_internal_checkpoint.containerd.json", "dataplane", "d8716212f3a4c76ccd7c"),
        ("kubelet_internal_checkpoint.containerd.json", "probe", "5bc6447384b40608e048"),
        ("kubelet_internal_checkpoint.docker.json", "a", "a5095f5795ecce5e9f0a"),
    ],
)
def test_answer_in_a_kubelets_checkpoint_decodes(capture: str, container: str, allocation: str) -> None:
    answer = recorded_answers(capture)[container]

    # The plugin of the recording used one string for the directory's name and the secret.
    assert dict(answer.envs) == {"MEMIF_SOCKET": "/run/vpp/memif.sock", "MEMIF_SECRET": allocation}
    assert list(answer.mounts) == [
        deviceplugin.Mount(container_path="/run/vpp", host_path=f"/var/run/contiv/memif/{allocation}")
    ]
    assert dict(answer.annotations) == {
        "io.contivpp.memif.socket.host": f"/var/run/contiv/memif/{allocation}/memif.sock",
        "io.contivpp.memif.socket.container": "/run/vpp/memif.sock",
        "io.contivpp.memif.secret": allocation,
    }
    assert not answer.devices
    assert not answer.cdi_devices
    assert len(UnknownFieldSet(answer)) == 0


@pytest.mark.parametrize(
    "runtime, pod, held",
    [
        ("containerd", "telco/cnf-node1", {"side": [19], "dataplane": [95, 63], "probe": [34], "plain": []}),
        ("containerd2", "telco/cnf-node1", {"side": [64], "dataplane": [44, 66], "probe": [14], "plain": []}),
        ("docker", "default/p3-node1", {"a": [42, 39]}),
    ],
)
def test_recorded_pod_resources_hold_no_field_that_we_do_not_know(
    runtime: str, pod: str, held: Mapping[str, list[int]]
) -> None:
    recording = json.loads((CAPTURES / f"podresources.{runtime}.json").read_text())

    # ParseDict refuses names that the message does not have.
    listed = json_format.ParseDict(recording["List"], podresources.ListPodResourcesResponse())
    allocatable = json_format.ParseDict(
        recording["GetAllocatableResources"], podresources.AllocatableResourcesResponse()
    )

    (only,) = listed.pod_resources
    assert f"{only.namespace}/{only.name}" == pod
    # One entry for each device, never one for several.
    assert {
        container.name: [list(entry.device_ids) for entry in container.devices] for container in only.containers
    } == {name: [[f"contivpp.io/memif/{index}"] for index in indices] for name, indices in held.items()}
    assert {device for entry in allocatable.devices for device in entry.device_ids} == {
        f"contivpp.io/memif/{index}" for index in range(100)
    }
