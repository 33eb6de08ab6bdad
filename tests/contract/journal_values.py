"""Allocations and pools for tests of the journal: one with everything set, numbered ones, and random ones."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from domain.allocation import Allocation, File, Owner
from domain.identity import ALLOCATION_ID_LENGTH, AllocationId, DeviceId, PodUid
from domain.pool import DirectoryRules, Pool, SecretDelivery
from domain.resource import ResourceName
from domain.secret import Secret

RESOURCE = ResourceName("contivpp.io/memif")

FULL_OWNER = Owner(uid=PodUid("0aa1-77"), container="dataplane", namespace="telco", name="cnf")

FULL = Allocation(
    id=AllocationId("k2k2k2k2k2k2k2k2k2k2"),
    resource=ResourceName("example.com/fast"),
    devices=(DeviceId("fast/7"), DeviceId("fast/63")),
    host_dir="/var/run/fast",
    container_dir="/run/fast",
    socket_name="fast.sock",
    rules=DirectoryRules(mode=0o750, group=107, selinux_label="system_u:object_r:container_file_t:s0"),
    secret=Secret("FullFullFullFullFull"),
    granted=datetime(2031, 5, 6, 7, 8, 9, 12, tzinfo=UTC),
    secret_delivery=SecretDelivery.BOTH,
    files=(File(name="secret", content="FullFullFullFullFull"), File(name="memif.json", content="{}\n", mode=0o444)),
    owner=FULL_OWNER,
)
"""No field at its default."""

FULL_POOL = Pool(
    resource=ResourceName("example.com/fast"),
    capacity=7,
    device_id="fast/{index}",
    host_dir="/var/run/fast",
    container_dir="/run/fast",
    socket_name="fast.sock",
    env_suffix="_FAST",
    annotation_prefix="com.example.fast",
    directory=DirectoryRules(mode=0o750, group="vpp", selinux_label="none"),
    secret_length=23,
    secret_delivery=SecretDelivery.FILE,
    pod_file=True,
    pod_env_extra=True,
    device_info_dir="/var/run/k8s.cni.cncf.io/devinfo/dp",
    read_only_mount=True,
    numa_node=1,
    list_interval=20.0,
    retired=(DeviceId("fast/7"), DeviceId("fast/8")),
    drained=True,
)
"""No field at its default."""


def numbered(number: int) -> Allocation:
    """Return one of many different allocations, with a secret that can be searched for."""
    return Allocation(
        id=AllocationId(f"{number:020d}"),
        resource=RESOURCE,
        devices=(DeviceId(f"{RESOURCE}/{number}"),),
        host_dir="/var/run/contiv/memif",
        container_dir="/run/vpp",
        socket_name="memif.sock",
        rules=DirectoryRules(),
        secret=Secret(f"Hush{number:016d}"),
        granted=datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=number),
    )


texts = st.text(max_size=12)
"""Any Unicode, NUL and quotes included: whatever the kubelet or an operator comes up with is kept as it is."""

rules = st.builds(
    DirectoryRules,
    mode=st.integers(0, 0o7777),
    group=st.one_of(st.none(), texts, st.from_regex(r"[0-9]{1,9}", fullmatch=True), st.integers(0, 2**32 - 1)),
    selinux_label=texts,
)

owners = st.builds(
    Owner,
    uid=st.one_of(st.none(), texts.map(PodUid)),
    container=st.one_of(st.none(), texts),
    namespace=st.one_of(st.none(), texts),
    name=st.one_of(st.none(), texts),
)

allocations = st.builds(
    Allocation,
    id=st.text("abcxyz019", min_size=ALLOCATION_ID_LENGTH, max_size=ALLOCATION_ID_LENGTH).map(AllocationId),
    resource=texts.map(ResourceName),
    devices=st.lists(texts.map(DeviceId), max_size=4).map(tuple),
    host_dir=texts,
    container_dir=texts,
    socket_name=texts,
    rules=rules,
    secret=texts.map(Secret),
    granted=st.datetimes(timezones=st.just(UTC)),
    secret_delivery=st.sampled_from(SecretDelivery),
    files=st.lists(st.builds(File, name=texts, content=texts, mode=st.integers(0, 0o7777)), max_size=3).map(tuple),
    owner=owners,
)

pools = st.builds(
    Pool,
    resource=texts.map(ResourceName),
    capacity=st.integers(0, 50),
    device_id=texts.map(lambda text: text + "{index}"),
    host_dir=texts,
    container_dir=texts,
    socket_name=texts,
    env_suffix=texts,
    annotation_prefix=texts,
    directory=rules,
    secret_length=st.integers(16, 23),
    secret_delivery=st.sampled_from(SecretDelivery),
    pod_file=st.booleans(),
    pod_env_extra=st.booleans(),
    device_info_dir=st.none() | texts,
    read_only_mount=st.booleans(),
    numa_node=st.one_of(st.none(), st.integers(0, 8)),
    list_interval=st.floats(0, 1e6),
    retired=st.lists(texts.map(DeviceId), max_size=3).map(tuple),
    drained=st.booleans(),
)
