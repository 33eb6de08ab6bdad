"""A pool: its fixed devices, its places, and how large its list is on the wire."""

from typing import Any

import pytest

from domain.identity import AllocationId, DeviceId
from domain.pool import (
    LARGEST_LIST,
    LONGEST_SOCKET_PATH,
    Device,
    DirectoryRules,
    Health,
    Pool,
    SecretDelivery,
    list_size,
)
from tests.unit import domain_values as values
from tests.unit.domain_values import a_pool


class TestDefaults:
    """A pool about which nothing is configured replaces Contiv-VPP's."""

    def test_one_hundred_devices_numbered_in_index_order_as_contiv_vpp_did(self) -> None:
        listed = [device.id for device in a_pool().devices()]

        assert listed == [f"contivpp.io/memif/{index}" for index in range(100)]

    def test_every_device_healthy_and_without_topology_as_contiv_vpp_did(self) -> None:
        assert all(device.health is Health.HEALTHY for device in a_pool().devices())
        assert all(device.numa_node is None for device in a_pool().devices())
        assert [health.value for health in Health] == ["Healthy", "Unhealthy"]

    def test_the_container_s_socket_is_where_vpp_and_libmemif_look_by_default_as_contiv_vpp_did(self) -> None:
        assert a_pool().container_socket == "/run/vpp/memif.sock"

    def test_the_host_s_socket_is_in_a_directory_of_its_own_as_contiv_vpp_did(self) -> None:
        path = a_pool().host_socket(AllocationId("bcdfghjklmnpqrstvwxz"))

        assert path == "/var/run/contiv/memif/bcdfghjklmnpqrstvwxz/memif.sock"
        assert a_pool().longest_host_socket == len(path) == 53
        assert len(path) <= LONGEST_SOCKET_PATH

    def test_a_secret_of_20_characters_in_the_environment_as_contiv_vpp_did(self) -> None:
        assert a_pool().secret_length == 20
        assert a_pool().secret_delivery is SecretDelivery.ENV

    def test_the_list_is_sent_on_change_only(self) -> None:
        assert a_pool().list_interval == 0

    def test_a_directory_is_the_group_s_too_and_sockets_in_it_inherit_the_group(self) -> None:
        assert a_pool().directory == DirectoryRules(mode=0o2770, group=None, selinux_label="auto")


class TestDevices:
    """The ids are fixed; only health changes."""

    @pytest.mark.parametrize(
        "template, ids",
        [
            ("{resource}/{index}", ["contivpp.io/memif/0", "contivpp.io/memif/1", "contivpp.io/memif/2"]),
            ("memif-{index}", ["memif-0", "memif-1", "memif-2"]),
            ("{index}", ["0", "1", "2"]),
            ("{index}-of-{resource}", [f"{index}-of-contivpp.io/memif" for index in range(3)]),
        ],
    )
    def test_ids_follow_the_template(self, template: str, ids: list[str]) -> None:
        pool = a_pool(capacity=3, device_id=template)

        assert [device.id for device in pool.devices()] == ids
        assert [pool.device(index) for index in range(3)] == ids
        assert dict(pool.indexes) == {name: index for index, name in enumerate(ids)}

    def test_ids_are_in_the_order_of_numbers_not_of_texts(self) -> None:
        ids = [device.id for device in a_pool(capacity=11).devices()]

        assert ids.index(DeviceId("contivpp.io/memif/10")) == 10

    def test_the_list_is_the_same_every_time(self) -> None:
        assert a_pool().devices() == a_pool().devices()

    def test_a_pool_may_have_no_device(self) -> None:
        assert a_pool(capacity=0).devices() == ()

    def test_a_configured_numa_node_is_on_every_device(self) -> None:
        assert {device.numa_node for device in a_pool(numa_node=0).devices()} == {0}

    def test_retired_ids_stay_listed_as_unhealthy_after_the_others(self) -> None:
        """To withdraw an id whose Allocate is in flight crashes the kubelet."""
        pool = a_pool(capacity=2, retired=values.device_ids(7, 9))

        assert pool.devices() == (
            Device(id=DeviceId("contivpp.io/memif/0")),
            Device(id=DeviceId("contivpp.io/memif/1")),
            Device(id=DeviceId("contivpp.io/memif/7"), health=Health.UNHEALTHY),
            Device(id=DeviceId("contivpp.io/memif/9"), health=Health.UNHEALTHY),
        )

    def test_retired_ids_have_an_index_after_the_others(self) -> None:
        pool = a_pool(capacity=2, retired=values.device_ids(7, 9))

        assert list(pool.indexes.values()) == [0, 1, 2, 3]

    def test_a_pool_that_cannot_be_served_lists_the_same_ids_as_unhealthy(self) -> None:
        pool = a_pool(capacity=2, retired=(DeviceId("contivpp.io/memif/2"),), numa_node=1)

        assert [device.id for device in pool.devices(healthy=False)] == [device.id for device in pool.devices()]
        assert {device.health for device in pool.devices(healthy=False)} == {Health.UNHEALTHY}
        assert {device.numa_node for device in pool.devices(healthy=False)} == {1}

    def test_a_drained_pool_lists_everything_as_unhealthy(self) -> None:
        pool = a_pool(capacity=2, retired=values.device_ids(7), drained=True)

        assert [device.id for device in pool.devices()] == list(values.device_ids(0, 1, 7))
        assert {device.health for device in pool.devices()} == {Health.UNHEALTHY}

    def test_the_fixed_set_cannot_be_changed(self) -> None:
        indexes: Any = a_pool().indexes

        with pytest.raises(TypeError):
            indexes["another"] = 7

    def test_pools_are_equal_if_they_are_configured_alike(self) -> None:
        assert a_pool() == a_pool()
        assert a_pool() != a_pool(capacity=99)
        assert hash(a_pool()) == hash(a_pool())

    def test_a_hundred_thousand_retired_ids_are_listed_in_time(self) -> None:
        """The list is made on the event loop; were each id looked for among all, this would take minutes."""
        pool = a_pool(capacity=1, retired=values.device_ids(*range(1, 100_000)))

        assert sum(device.health is Health.UNHEALTHY for device in pool.devices()) == 99_999


class TestDelivery:
    """How the secret reaches the container."""

    @pytest.mark.parametrize(
        "delivery, in_answer, in_directory",
        [(SecretDelivery.ENV, True, False), (SecretDelivery.FILE, False, True), (SecretDelivery.BOTH, True, True)],
    )
    def test_a_delivery_says_where_the_secret_is(
        self, delivery: SecretDelivery, *, in_answer: bool, in_directory: bool
    ) -> None:
        assert delivery.in_answer is in_answer
        assert delivery.in_directory is in_directory

    def test_the_names_are_those_of_the_configuration(self) -> None:
        assert [delivery.value for delivery in SecretDelivery] == ["env", "file", "both"]


class TestPlaces:
    """Paths of a pool that is configured otherwise."""

    def test_paths_follow_the_configuration(self) -> None:
        pool = a_pool(host_dir="/var/run/fast", container_dir="/run/fast", socket_name="fast.sock")

        assert pool.host_socket(values.an_id(7)) == "/var/run/fast/b0000000000000000007/fast.sock"
        assert pool.container_socket == "/run/fast/fast.sock"

    def test_the_length_of_a_path_is_in_bytes(self) -> None:
        """The kernel's limit is one of bytes."""
        assert a_pool(host_dir="/ü").longest_host_socket == len("/u") + 1 + 1 + 20 + 1 + len("memif.sock")


class TestListSize:
    """The kubelet receives lists with gRPC's default limit of 4 MiB; a larger one kills the stream."""

    def test_110395_devices_of_the_usual_form_fit_and_one_more_does_not(self) -> None:
        assert LARGEST_LIST == 4_194_304
        assert list_size(a_pool(capacity=110_395)) == 4_194_295
        assert list_size(a_pool(capacity=110_396)) == 4_194_334

    def test_one_device_is_reckoned_by_hand(self) -> None:
        """Two bytes before each of id (19), health (9) and the device itself."""
        assert list_size(a_pool(capacity=1)) == 2 + (2 + 19) + (2 + 9)

    @pytest.mark.parametrize("node, more", [(0, 4), (1, 6), (127, 6), (128, 7)])
    def test_a_numa_node_takes_its_room(self, node: int, more: int) -> None:
        """Node 0 is the default value, which protobuf does not write."""
        plain = list_size(a_pool(capacity=10))

        assert list_size(a_pool(capacity=10, numa_node=node)) == plain + 10 * more

    def test_retired_devices_count(self) -> None:
        smaller = a_pool(capacity=7, retired=values.device_ids(7, 8, 9))

        assert list_size(smaller) == list_size(a_pool(capacity=10))

    def test_the_size_is_that_of_the_unhealthy_list(self) -> None:
        """Else the list would stop fitting at the moment when it has to say that something is wrong."""
        assert list_size(a_pool()) == list_size(a_pool(drained=True))

    def test_an_empty_list_takes_no_room(self) -> None:
        assert list_size(a_pool(capacity=0)) == 0

    @pytest.mark.parametrize(
        "length, size", [(1, 2 + 3 + 11), (112, 2 + 114 + 11), (127, 3 + 129 + 11), (128, 3 + 131 + 11)]
    )
    def test_lengths_beyond_127_take_a_second_byte(self, length: int, size: int) -> None:
        assert list_size(a_pool(capacity=1, device_id="x" * length)) == size

    def test_characters_are_counted_in_bytes(self) -> None:
        assert list_size(a_pool(capacity=1, device_id="ü{index}")) == list_size(
            a_pool(capacity=1, device_id="uu{index}")
        )


def test_a_pool_s_repr_does_not_list_its_devices() -> None:
    assert "contivpp.io/memif/0" not in repr(Pool(resource=values.RESOURCE))
