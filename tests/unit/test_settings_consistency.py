"""What values must not be together, and that a mere consequence of another fault is not told."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.settings import PoolSettings
from app.settings.lists import largest_capacity, largest_list
from domain.pool import LARGEST_LIST, list_size
from tests.unit.settings_judging import accepted, pool, refused, written

ONE = {"resource": "example.com/one"}
TWO = {
    "resource": "example.com/two",
    "host_dir": "/srv/two",
    "container_dir": "/two",
    "env_suffix": "_TWO",
    "annotation_prefix": "com.example.two",
}


def pools(**changed: Any) -> dict[str, Any]:
    return {"pools": [ONE, TWO | changed]}


def test_two_pools_that_differ_are_accepted(tmp_path: Path) -> None:
    assert len(accepted(tmp_path, pools()).pools) == 2


@pytest.mark.parametrize(
    "key,value",
    [
        ("resource", "example.com/one"),
        ("container_dir", "/run/vpp"),
        ("env_suffix", ""),
        ("annotation_prefix", "io.contivpp.memif"),
    ],
)
def test_two_pools_must_not_agree(tmp_path: Path, key: str, value: str) -> None:
    """One container may hold devices of both, and the kubelet keeps one of two equal names at random."""
    faults = refused(written(tmp_path, pools(**{key: value})))

    assert list(faults) == [f"pools.1.{key}"]
    assert f"must differ from that of pool 0, both are '{value}': the kubelet" in faults[f"pools.1.{key}"]


@pytest.mark.parametrize(
    "host_dir,sense",
    [
        ("/var/run/contiv/memif", "must differ from that of pool 0"),
        ("/run/contiv/memif", "must differ from that of pool 0"),
        ("/var/run/contiv/memif/two", "must not be inside that of pool 0"),
        ("/run/contiv/memif/two", "must not be inside that of pool 0"),
        ("/var/run/contiv", "must not contain that of pool 0"),
    ],
)
def test_the_directories_of_two_pools_are_apart(tmp_path: Path, host_dir: str, sense: str) -> None:
    faults = refused(written(tmp_path, pools(host_dir=host_dir)))

    assert list(faults) == ["pools.1.host_dir"]
    assert sense in faults["pools.1.host_dir"]


@pytest.mark.parametrize("host_dir", ["/var/run/contiv/memif2", "/var/runner", "/srv/var/run/contiv/memif"])
def test_directories_that_only_begin_alike_are_apart(tmp_path: Path, host_dir: str) -> None:
    assert accepted(tmp_path, pools(host_dir=host_dir)).pools[1].host_dir == host_dir


@pytest.mark.parametrize(
    "one,two,shared",
    [
        ("memif-{index}", "memif-{index}", "'memif-0'"),
        ("{index}", "1{index}", "'10'"),
        ("{resource}/{index}", "example.com/one/{index}", "'example.com/one/0'"),
    ],
)
def test_no_two_pools_make_the_same_device_id(tmp_path: Path, one: str, two: str, shared: str) -> None:
    """The kubelet looks the health of a device up by its id alone."""
    content = {"pools": [ONE | {"device_id": one}, TWO | {"device_id": two}]}

    faults = refused(written(tmp_path, content))

    assert list(faults) == ["pools.1.device_id"]
    assert f"both have {shared}" in faults["pools.1.device_id"]


@pytest.mark.parametrize("one,two", [("a-{index}", "b-{index}"), ("{index}", "{index}x"), ("a{index}", "a-{index}")])
def test_templates_that_never_meet_are_accepted(tmp_path: Path, one: str, two: str) -> None:
    content = {"pools": [ONE | {"device_id": one}, TWO | {"device_id": two}]}

    assert len(accepted(tmp_path, content).pools) == 2


def test_the_largest_list_that_the_kubelet_takes_is_accepted(tmp_path: Path) -> None:
    assert accepted(tmp_path, pool(capacity=110_395)).pools[0].capacity == 110_395


@pytest.mark.parametrize("capacity,size", [(110_396, 4_194_334), (200_000, 7_688_890), (10**9, None)])
def test_a_list_that_the_kubelet_would_not_take_is_refused_with_its_size(
    tmp_path: Path, capacity: int, size: int | None
) -> None:
    faults = refused(written(tmp_path, pool(capacity=capacity)))

    text = faults["pools.0.capacity"]
    expected = largest_list(PoolSettings(capacity=capacity)) if size is None else size
    assert list(faults) == ["pools.0.capacity"]
    assert f"{capacity} devices make a list of {expected} bytes" in text
    assert "at most 110395 fit" in text


@given(
    st.integers(1, 1200),
    st.sampled_from(["{resource}/{index}", "{index}", "{index}{index}-{resource}", "x" * 130 + "{index}"]),
    st.sampled_from([None, 0, 1, 200]),
)
def test_the_reckoned_size_is_that_of_the_list(capacity: int, device_id: str, numa_node: int | None) -> None:
    settings = PoolSettings(capacity=capacity, device_id=device_id, numa_node=numa_node)

    assert largest_list(settings) == list_size(settings.to_domain())


def test_the_largest_capacity_is_where_the_list_just_fits() -> None:
    most = largest_capacity(PoolSettings(capacity=200_000), LARGEST_LIST)

    assert largest_list(PoolSettings(capacity=most)) <= LARGEST_LIST < largest_list(PoolSettings(capacity=most + 1))


def test_a_host_socket_of_100_bytes_is_accepted_and_one_of_101_is_not(tmp_path: Path) -> None:
    """20 characters of the id, two slashes, ``memif.sock``."""
    fits = "/" + "d" * (100 - 20 - 2 - len("memif.sock") - 1)

    faults = refused(written(tmp_path, pool(host_dir=fits + "d")))

    assert accepted(tmp_path, pool(host_dir=fits)).pools[0].to_domain().longest_host_socket == 100
    assert list(faults) == ["pools.0.host_dir"]
    assert "101 bytes, at most 100" in faults["pools.0.host_dir"]


def test_a_container_socket_of_100_bytes_is_accepted_and_one_of_101_is_not(tmp_path: Path) -> None:
    fits = "/" + "d" * (100 - 1 - len("memif.sock") - 1)

    faults = refused(written(tmp_path, pool(container_dir=fits + "d")))

    assert len(accepted(tmp_path, pool(container_dir=fits)).pools[0].to_domain().container_socket) == 100
    assert list(faults) == ["pools.0.container_dir"]
    assert "101 bytes, at most 100" in faults["pools.0.container_dir"]


def test_path_lengths_count_bytes_and_not_characters(tmp_path: Path) -> None:
    faults = refused(written(tmp_path, pool(container_dir="/" + "é" * 50)))

    assert "112 bytes" in faults["pools.0.container_dir"]


@pytest.mark.parametrize(
    "keys,cause",
    [
        ({"socket_name": "secret", "secret_delivery": "file"}, "secret_delivery"),
        ({"socket_name": "secret", "secret_delivery": "both"}, "secret_delivery"),
        ({"socket_name": "memif.json", "pod_file": True}, "pod_file"),
    ],
)
def test_the_socket_has_not_the_name_of_a_file_that_we_put_beside_it(
    tmp_path: Path, keys: dict[str, Any], cause: str
) -> None:
    faults = refused(written(tmp_path, pool(**keys)))

    assert list(faults) == ["pools.0.socket_name"]
    assert cause in faults["pools.0.socket_name"]


def test_the_sockets_in_the_plugin_directory_fit(tmp_path: Path) -> None:
    """``<stem>.<8 characters>-<two digits>.sock`` is the longest of them: 28 bytes with the default name."""
    fits = "/" + "d" * (107 - len("/contiv-vpp.xxxxxxxx-10.sock") - 1)

    faults = refused(written(tmp_path, {"kubelet": {"plugin_dir": fits + "d"}}))

    assert accepted(tmp_path, {"kubelet": {"plugin_dir": fits}}).kubelet.plugin_dir == fits
    assert list(faults) == ["kubelet.endpoint"]
    assert "108 bytes, at most 107" in faults["kubelet.endpoint"]


def test_the_kubelets_own_socket_fits(tmp_path: Path) -> None:
    content = {"kubelet": {"plugin_dir": "/" + "d" * 60, "socket": "s" * 46}}

    assert "108 bytes, at most 107" in refused(written(tmp_path, content))["kubelet.socket"]


def test_our_socket_is_not_the_kubelets(tmp_path: Path) -> None:
    faults = refused(written(tmp_path, {"kubelet": {"endpoint": "kubelet.sock"}}))

    assert list(faults) == ["kubelet.endpoint"]
    assert "must differ from kubelet.socket" in faults["kubelet.endpoint"]


@pytest.mark.parametrize(
    "content,key,sense",
    [
        (
            {"control": {"socket": "/var/lib/kubelet/pod-resources/kubelet.sock"}},
            "control.socket",
            "which kubelet.pod_resources uses",
        ),
        ({"state": "/run/x/x", "control": {"socket": "/var/run/x/x"}}, "control.socket", "which state uses"),
        ({"state": "/var/lib/x/lock"}, "state", "the lock beside it"),
    ],
)
def test_nothing_takes_the_place_of_something_else(
    tmp_path: Path, content: dict[str, Any], key: str, sense: str
) -> None:
    faults = refused(written(tmp_path, content))

    assert list(faults) == [key]
    assert sense in faults[key]


@pytest.mark.parametrize("section,key", [(None, "state"), ("control", "socket"), ("control", "agent_socket")])
def test_what_must_last_is_not_in_the_directory_that_the_kubelet_empties(
    tmp_path: Path, section: str | None, key: str
) -> None:
    value = {key: "/var/lib/kubelet/device-plugins/x.sock"}

    faults = refused(written(tmp_path, value if section is None else {section: value}))

    assert "the kubelet empties that directory" in faults[key if section is None else f"{section}.{key}"]


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    """Also those that only show when the others are out of the way."""
    content = {
        "pools": [
            ONE | {"capacity": 0, "device_info_dir": "/var/run/contiv/memif/devinfo"},
            TWO | {"container_dir": "/run/vpp", "capacty": 1},
        ],
        "log": {"level": "loud"},
    }

    faults = refused(written(tmp_path, content), environ={"MEMIF_DP_NOTHING": "1"}, flags={"--state": ""})

    assert set(faults) == {
        "pools.0.capacity",
        "pools.1.container_dir",
        "pools.1.capacty",
        "pools.0.device_info_dir",
        "log.level",
        "nothing",
        "state",
    }


@pytest.mark.parametrize(
    "second,key",
    [
        (TWO | {"host_dir": "relative"}, "pools.1.host_dir"),
        (TWO | {"env_suffix": "?"}, "pools.1.env_suffix"),
        (TWO | {"resource": "?"}, "pools.1.resource"),
        (5, "pools.1"),
    ],
)
def test_what_only_follows_from_another_fault_is_not_told(tmp_path: Path, second: object, key: str) -> None:
    """A value that was refused counts as its default, which may well be the other pool's."""
    first = {"resource": "contivpp.io/memif"}

    assert list(refused(written(tmp_path, {"pools": [first, second]}))) == [key]


class TestDeviceInfo:
    """The files of the network plumbing group."""

    def test_two_pools_may_share_a_directory(self, tmp_path: Path) -> None:
        shared = {"device_info_dir": "/var/run/k8s.cni.cncf.io/devinfo/dp"}

        assert len(accepted(tmp_path, {"pools": [ONE | shared, TWO | shared]}).pools) == 2

    def test_they_have_no_place_among_allocations(self, tmp_path: Path) -> None:
        faults = refused(written(tmp_path, {"pools": [ONE | {"device_info_dir": "/run/contiv/memif/info"}]}))

        assert faults["pools.0.device_info_dir"].startswith("must not be inside host_dir, /var/run/contiv/memif")

    @pytest.mark.parametrize("number", [0, 1])
    def test_nor_among_those_of_another_pool(self, tmp_path: Path, number: int) -> None:
        both = [ONE, TWO]
        both[number] = both[number] | {
            "device_info_dir": str(both[1 - number].get("host_dir", "/var/run/contiv/memif"))
        }
        faults = refused(written(tmp_path, {"pools": both}))

        assert faults[f"pools.{number}.device_info_dir"].startswith("must not be inside the host_dir of pool ")

    def test_a_name_that_is_too_long_for_a_file_is_refused(self, tmp_path: Path) -> None:
        long = {"device_id": f"{'x' * 230}-{{index}}", "capacity": 11}
        assert accepted(tmp_path, {"pools": [ONE | long]})
        faults = refused(written(tmp_path, {"pools": [ONE | long | {"device_info_dir": "/var/run/info"}]}))

        assert "would have 261 bytes, at most 255 are allowed" in faults["pools.0.device_id"]

    def test_two_pools_whose_files_would_have_one_name_cannot_share(self, tmp_path: Path) -> None:
        shared = {"device_info_dir": "/var/run/info"}
        alike = [ONE | {"resource": "example.com/a-b"} | shared, TWO | {"resource": "example.com-a/b"} | shared]
        faults = refused(written(tmp_path, {"pools": alike}))

        assert "without slashes both resources are example.com-a-b" in faults["pools.1.device_info_dir"]
