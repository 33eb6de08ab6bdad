"""The generated code speaks the CRI's wire: names, numbers and types, and what real runtimes said.

The tables are those of the interface, typed again by hand; they are not derived from the `.proto` file.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FileDescriptor

from adapters._pb.cri.runtime.v1 import api_pb2 as cri

CAPTURES = Path(__file__).parent.parent / "captures"

FILE: FileDescriptor = cri.DESCRIPTOR

# What is left out here is not sent by us and skipped when it arrives.
NUMBERS: Mapping[str, Mapping[str, int]] = {
    "VersionRequest": {"version": 1},
    "VersionResponse": {"version": 1, "runtime_name": 2, "runtime_version": 3, "runtime_api_version": 4},
    "StatusRequest": {"verbose": 1},
    "StatusResponse": {"status": 1, "info": 2},
    "RuntimeStatus": {"conditions": 1},
    "RuntimeCondition": {"type": 1, "status": 2, "reason": 3, "message": 4},
    "RunPodSandboxRequest": {"config": 1, "runtime_handler": 2},
    "RunPodSandboxResponse": {"pod_sandbox_id": 1},
    "StopPodSandboxRequest": {"pod_sandbox_id": 1},
    "StopPodSandboxResponse": {},
    "RemovePodSandboxRequest": {"pod_sandbox_id": 1},
    "RemovePodSandboxResponse": {},
    "PodSandboxConfig": {
        "metadata": 1,
        "hostname": 2,
        "log_directory": 3,
        "labels": 6,
        "annotations": 7,
        "linux": 8,
    },
    "PodSandboxMetadata": {"name": 1, "uid": 2, "namespace": 3, "attempt": 4},
    "LinuxPodSandboxConfig": {"cgroup_parent": 1, "security_context": 2},
    "LinuxSandboxSecurityContext": {"namespace_options": 1},
    "NamespaceOption": {"network": 1, "pid": 2, "ipc": 3, "target_id": 4},
    "ListPodSandboxRequest": {"filter": 1},
    "PodSandboxFilter": {"id": 1, "state": 2, "label_selector": 3},
    "PodSandboxStateValue": {"state": 1},
    "ListPodSandboxResponse": {"items": 1},
    "PodSandbox": {
        "id": 1,
        "metadata": 2,
        "state": 3,
        "created_at": 4,
        "labels": 5,
        "annotations": 6,
        "runtime_handler": 7,
    },
    "CreateContainerRequest": {"pod_sandbox_id": 1, "config": 2, "sandbox_config": 3},
    "CreateContainerResponse": {"container_id": 1},
    "ContainerConfig": {
        "metadata": 1,
        "image": 2,
        "command": 3,
        "args": 4,
        "working_dir": 5,
        "envs": 6,
        "mounts": 7,
        "labels": 9,
        "annotations": 10,
        "log_path": 11,
        "linux": 15,
    },
    "LinuxContainerConfig": {"security_context": 2},
    "LinuxContainerSecurityContext": {"run_as_user": 5, "supplemental_groups": 8, "run_as_group": 12},
    "Int64Value": {"value": 1},
    "ContainerMetadata": {"name": 1, "attempt": 2},
    "ImageSpec": {"image": 1},
    "KeyValue": {"key": 1, "value": 2},
    "StartContainerRequest": {"container_id": 1},
    "StartContainerResponse": {},
    "StopContainerRequest": {"container_id": 1, "timeout": 2},
    "StopContainerResponse": {},
    "RemoveContainerRequest": {"container_id": 1},
    "RemoveContainerResponse": {},
    "ListContainersRequest": {"filter": 1},
    "ContainerFilter": {"id": 1, "state": 2, "pod_sandbox_id": 3, "label_selector": 4},
    "ContainerStateValue": {"state": 1},
    "ListContainersResponse": {"containers": 1},
    "Container": {
        "id": 1,
        "pod_sandbox_id": 2,
        "metadata": 3,
        "image": 4,
        "image_ref": 5,
        "state": 6,
        "created_at": 7,
        "labels": 8,
        "annotations": 9,
        "image_id": 10,
    },
    "ExecSyncRequest": {"container_id": 1, "cmd": 2, "timeout": 3},
    "ExecSyncResponse": {"stdout": 1, "stderr": 2, "exit_code": 3},
    "ContainerStatusRequest": {"container_id": 1, "verbose": 2},
    "ContainerStatusResponse": {"status": 1, "info": 2},
    "ContainerStatus": {
        "id": 1,
        "metadata": 2,
        "state": 3,
        "created_at": 4,
        "started_at": 5,
        "finished_at": 6,
        "exit_code": 7,
        "image": 8,
        "image_ref": 9,
        "reason": 10,
        "message": 11,
        "labels": 12,
        "annotations": 13,
        "mounts": 14,
        "log_path": 15,
        "image_id": 17,
    },
    "Mount": {"container_path": 1, "host_path": 2, "readonly": 3, "selinux_relabel": 4, "propagation": 5},
    "GetEventsRequest": {},
    "ContainerEventResponse": {"container_id": 1, "container_event_type": 2, "created_at": 3},
}

ENUMS: Mapping[str, tuple[str, ...]] = {
    "NamespaceMode": ("POD", "CONTAINER", "NODE", "TARGET"),
    "PodSandboxState": ("SANDBOX_READY", "SANDBOX_NOTREADY"),
    "ContainerState": ("CONTAINER_CREATED", "CONTAINER_RUNNING", "CONTAINER_EXITED", "CONTAINER_UNKNOWN"),
    "MountPropagation": ("PROPAGATION_PRIVATE", "PROPAGATION_HOST_TO_CONTAINER", "PROPAGATION_BIDIRECTIONAL"),
    "ContainerEventType": (
        "CONTAINER_CREATED_EVENT",
        "CONTAINER_STARTED_EVENT",
        "CONTAINER_STOPPED_EVENT",
        "CONTAINER_DELETED_EVENT",
    ),
}

METHODS = {
    "Version": ("VersionRequest", "VersionResponse"),
    "Status": ("StatusRequest", "StatusResponse"),
    "RunPodSandbox": ("RunPodSandboxRequest", "RunPodSandboxResponse"),
    "StopPodSandbox": ("StopPodSandboxRequest", "StopPodSandboxResponse"),
    "RemovePodSandbox": ("RemovePodSandboxRequest", "RemovePodSandboxResponse"),
    "ListPodSandbox": ("ListPodSandboxRequest", "ListPodSandboxResponse"),
    "CreateContainer": ("CreateContainerRequest", "CreateContainerResponse"),
    "StartContainer": ("StartContainerRequest", "StartContainerResponse"),
    "StopContainer": ("StopContainerRequest", "StopContainerResponse"),
    "RemoveContainer": ("RemoveContainerRequest", "RemoveContainerResponse"),
    "ListContainers": ("ListContainersRequest", "ListContainersResponse"),
    "ContainerStatus": ("ContainerStatusRequest", "ContainerStatusResponse"),
    "ExecSync": ("ExecSyncRequest", "ExecSyncResponse"),
    "GetContainerEvents": ("GetEventsRequest", "ContainerEventResponse"),
}


def test_messages_and_field_numbers_are_those_of_the_wire() -> None:
    found = {
        name: {field.name: field.number for field in message.fields}
        for name, message in FILE.message_types_by_name.items()
    }

    assert FILE.package == "runtime.v1"
    assert found == NUMBERS


def test_enums_count_from_zero_as_on_the_wire() -> None:
    found = {
        name: {value.name: value.number for value in enum.values} for name, enum in FILE.enum_types_by_name.items()
    }

    assert found == {name: {value: number for number, value in enumerate(values)} for name, values in ENUMS.items()}


def test_methods_are_those_of_the_wire() -> None:
    service = FILE.services_by_name["RuntimeService"]

    assert {each.name: (each.input_type.name, each.output_type.name) for each in service.methods} == METHODS
    assert [each.name for each in service.methods if each.server_streaming] == ["GetContainerEvents"]
    assert not any(each.client_streaming for each in service.methods)


def test_a_value_of_the_environment_is_bytes() -> None:
    """The rest of the interface is text; a variable need not be."""
    assert cri.KeyValue(key="K", value=b"\xff").SerializeToString() == b"\x0a\x01K\x12\x01\xff"


# What the recorded runtimes send besides: how a container is limited and as whom it runs.
SKIPPED = {"resources", "stop_signal", "user", "user_specified_image"}


@pytest.mark.parametrize("capture", ["cri.containerd.json", "cri.containerd2.json", "cri.docker.json"])
def test_recordings_hold_no_field_that_is_not_known_or_skipped_on_purpose(capture: str) -> None:
    recording = json.loads((CAPTURES / capture).read_text(), object_hook=_without_skipped)

    # ParseDict refuses names that the message does not have.
    version = json_format.ParseDict(recording["Version"], cri.VersionResponse())
    sandboxes = json_format.ParseDict(recording["ListPodSandbox"], cri.ListPodSandboxResponse())
    containers = json_format.ParseDict(recording["ListContainers"], cri.ListContainersResponse())
    statuses = [json_format.ParseDict(each, cri.ContainerStatusResponse()) for each in recording["ContainerStatus"]]

    assert version.version == "0.1.0"
    assert sandboxes.items
    assert {each.id for each in containers.containers} == {each.status.id for each in statuses}


def _without_skipped(value: dict[str, object]) -> dict[str, object]:
    return {key: each for key, each in value.items() if key not in SKIPPED}
