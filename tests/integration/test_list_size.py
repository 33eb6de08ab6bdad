"""The size that is reckoned for a device list is the size that protobuf gives it."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.kubelet import translate
from domain.identity import DeviceId
from domain.pool import LARGEST_LIST, Pool, list_size
from domain.resource import ResourceName

RESOURCE: Final = ResourceName("contivpp.io/memif")


def real_size(pool: Pool) -> int:
    """Return the bytes of the message that is sent when every device of a pool is unhealthy."""
    drained = Pool(
        resource=pool.resource,
        capacity=pool.capacity,
        device_id=pool.device_id,
        numa_node=pool.numa_node,
        retired=pool.retired,
        drained=True,
    )
    return len(translate.device_list(drained.devices()).SerializeToString())


@pytest.mark.parametrize("numa_node", [None, 0, 1, 127, 128, 16_383, 16_384])
@pytest.mark.parametrize("capacity", [0, 1, 10, 101])
def test_sizes_agree_with_and_without_a_numa_node(capacity: int, numa_node: int | None) -> None:
    pool = Pool(resource=RESOURCE, capacity=capacity, numa_node=numa_node)

    assert list_size(pool) == real_size(pool)


@pytest.mark.parametrize("length", [1, 108, 109, 110, 111, 112, 113, 114, 127, 128, 300, 16_383, 16_384])
def test_sizes_agree_where_a_length_takes_another_byte(length: int) -> None:
    pool = Pool(resource=RESOURCE, capacity=1, device_id="x" * length)

    assert list_size(pool) == real_size(pool)


@given(
    capacity=st.integers(0, 30),
    device_id=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{}"), max_size=200),
    numa_node=st.none() | st.integers(0, 2**31),
    retired=st.lists(st.integers(30, 99).map(lambda index: DeviceId(f"old-{index}")), max_size=3, unique=True),
)
def test_sizes_agree_whatever_the_pool(
    capacity: int, device_id: str, numa_node: int | None, retired: list[DeviceId]
) -> None:
    pool = Pool(
        resource=RESOURCE,
        capacity=capacity,
        device_id=device_id + "{index}",
        numa_node=numa_node,
        retired=tuple(retired),
    )

    assert list_size(pool) == real_size(pool)


def test_the_largest_pool_of_the_usual_form_just_fits() -> None:
    """The kubelet's limit is one of the message's bytes; 39 more for another device would be too many."""
    pool = Pool(resource=RESOURCE, capacity=110_395)
    size = real_size(pool)

    assert size == list_size(pool) == 4_194_295
    assert size <= LARGEST_LIST < size + 39


def test_a_healthy_list_is_smaller_than_what_is_reckoned() -> None:
    pool = Pool(resource=RESOURCE)
    healthy = len(translate.device_list(pool.devices()).SerializeToString())

    assert list_size(pool) == healthy + 100 * (len("Unhealthy") - len("Healthy"))
