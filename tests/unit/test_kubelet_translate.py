"""Protobuf messages of the kubelet to values and back."""

import json
from pathlib import Path

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2 as plugin_pb
from adapters._pb.kubelet.podresources.v1 import api_pb2 as resources_pb
from adapters.kubelet import translate
from domain.answer import Answer, Mount
from domain.identity import DeviceId
from domain.pool import Device, Health, Pool
from domain.resource import ResourceName

CAPTURES = Path(__file__).parents[1] / "captures"
MEMIF = ResourceName("contivpp.io/memif")

# Protobuf strings are UTF-8, in which there are no lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
answers = st.builds(
    Answer,
    envs=st.dictionaries(texts, texts, max_size=4),
    mounts=st.lists(st.builds(Mount, host_path=texts, container_path=texts, read_only=st.booleans()), max_size=3).map(
        tuple
    ),
    annotations=st.dictionaries(texts, texts, max_size=4),
)


class TestDeviceList:
    def test_every_device_is_listed_in_order_with_its_health(self) -> None:
        devices = (Device(id=DeviceId("b")), Device(id=DeviceId("a"), health=Health.UNHEALTHY))

        message = translate.device_list(devices)

        assert [(each.ID, each.health) for each in message.devices] == [("b", "Healthy"), ("a", "Unhealthy")]

    def test_a_device_without_numa_node_has_no_topology_at_all(self) -> None:
        """An empty topology is not the same to the topology manager."""
        message = translate.device_list((Device(id=DeviceId("a")),))

        assert not message.devices[0].HasField("topology")

    @pytest.mark.parametrize("node", [0, 1, 7])
    def test_a_numa_node_is_told_even_if_it_is_node_zero(self, node: int) -> None:
        message = translate.device_list((Device(id=DeviceId("a"), numa_node=node),))

        assert [each.ID for each in message.devices[0].topology.nodes] == [node]

    def test_the_default_pool_is_listed_as_contiv_listed_it(self) -> None:
        message = translate.device_list(Pool(resource=MEMIF).devices())

        assert [each.ID for each in message.devices] == [f"contivpp.io/memif/{index}" for index in range(100)]


class TestRequests:
    def test_each_container_request_keeps_its_ids_and_their_order(self) -> None:
        message = plugin_pb.AllocateRequest(
            container_requests=[
                plugin_pb.ContainerAllocateRequest(devices_ids=["b", "a"]),
                plugin_pb.ContainerAllocateRequest(devices_ids=["c"]),
            ]
        )

        assert translate.requests(message) == (("b", "a"), ("c",))

    def test_what_is_wrong_with_a_request_is_left_for_the_core_to_see(self) -> None:
        message = plugin_pb.AllocateRequest(
            container_requests=[
                plugin_pb.ContainerAllocateRequest(),
                plugin_pb.ContainerAllocateRequest(devices_ids=["a", "a"]),
            ]
        )

        assert translate.requests(message) == ((), ("a", "a"))
        assert translate.requests(plugin_pb.AllocateRequest()) == ()


class TestAnswers:
    def test_there_is_one_response_for_each_answer_in_the_same_order(self) -> None:
        """A missing one strands the ids in the kubelet."""
        message = translate.allocate_response([Answer(envs={"N": "1"}), Answer(), Answer(envs={"N": "3"})])

        assert [dict(each.envs) for each in message.container_responses] == [{"N": "1"}, {}, {"N": "3"}]

    def test_a_mount_has_its_paths_the_right_way_round(self) -> None:
        given_answer = Answer(mounts=(Mount(host_path="/host", container_path="/container", read_only=True),))

        (response,) = translate.allocate_response([given_answer]).container_responses

        (mount,) = response.mounts
        assert (mount.host_path, mount.container_path, mount.read_only) == ("/host", "/container", True)

    def test_no_device_node_and_no_cdi_device_is_ever_given(self) -> None:
        given_answer = Answer(mounts=(Mount(host_path="/host", container_path="/container"),))

        (response,) = translate.allocate_response([given_answer]).container_responses

        assert (list(response.devices), list(response.cdi_devices)) == ([], [])

    @given(given_answer=answers)
    def test_an_answer_read_back_from_the_wire_is_the_answer_that_was_given(self, given_answer: Answer) -> None:
        (response,) = translate.allocate_response([given_answer]).container_responses
        stored = response.SerializeToString()

        assert translate.answer(plugin_pb.ContainerAllocateResponse.FromString(stored)) == given_answer


class TestPodResources:
    def test_the_entries_of_one_resource_are_put_together_and_numa_doubles_counted_once(self) -> None:
        """The kubelet sends an entry for each id, and again for each NUMA node of it."""
        entries = [
            resources_pb.ContainerDevices(resource_name="a/b", device_ids=["1"]),
            resources_pb.ContainerDevices(resource_name="a/b", device_ids=["1"]),
            resources_pb.ContainerDevices(resource_name="a/b", device_ids=["2", "3"]),
            resources_pb.ContainerDevices(resource_name="a/c", device_ids=["1"]),
        ]

        assert translate.by_resource(entries) == {"a/b": frozenset({"1", "2", "3"}), "a/c": frozenset({"1"})}

    @pytest.mark.parametrize("runtime", ["containerd", "containerd2"])
    def test_the_recorded_pod_on_containerd_is_read_right(self, runtime: str) -> None:
        """Its plain init container is not listed, though it was given a device."""
        (pod,) = (translate.pod_devices(each) for each in _recorded(runtime).pod_resources)

        assert (pod.namespace, pod.name) == ("telco", "cnf-node1")
        assert set(pod.containers) == {"side", "dataplane", "probe", "plain"}
        assert pod.containers["plain"] == {}
        assert {name: len(held.get(MEMIF, ())) for name, held in pod.containers.items() if held} == {
            "side": 1,
            "dataplane": 2,
            "probe": 1,
        }

    def test_the_recorded_pod_on_docker_is_read_right(self) -> None:
        """The devices are those that the checkpoint of the same moment names."""
        (pod,) = (translate.pod_devices(each) for each in _recorded("docker").pod_resources)

        assert (pod.namespace, pod.name) == ("default", "p3-node1")
        assert pod.containers == {"a": {MEMIF: frozenset({"contivpp.io/memif/42", "contivpp.io/memif/39"})}}


def _recorded(runtime: str) -> resources_pb.ListPodResourcesResponse:
    recording = json.loads((CAPTURES / f"podresources.{runtime}.json").read_text(encoding="utf-8"))
    return json_format.ParseDict(recording["List"], resources_pb.ListPodResourcesResponse())
