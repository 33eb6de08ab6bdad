"""Names in the kubelet's plugin directory."""

import re

import pytest

from adapters.kubelet.channel import target
from adapters.kubelet.directory import PluginDirectory
from adapters.kubelet.session import Times


def _directory(endpoint: str = "contiv-vpp.sock", path: str = "/var/lib/kubelet/device-plugins") -> PluginDirectory:
    return PluginDirectory(path=path, kubelet_socket="kubelet.sock", endpoint=endpoint)


@pytest.mark.parametrize("number", [0, 1, 17])
def test_a_sessions_socket_has_the_stem_a_random_part_and_the_number_of_its_pool(number: int) -> None:
    path = _directory().new_socket(number)

    assert re.fullmatch(rf"/var/lib/kubelet/device-plugins/contiv-vpp\.[a-z2-7]{{8}}-{number}\.sock", path)


def test_no_two_sessions_have_one_name() -> None:
    """gRPC takes over a living socket without a word, and unlinks by name when it stops."""
    directory = _directory()

    assert len({directory.new_socket(0) for _ in range(1000)}) == 1000


def test_with_the_longest_pool_number_the_name_has_the_length_that_is_reckoned_with() -> None:
    directory = _directory(path="/d")

    assert len(directory.new_socket(0)) == len("/d/contiv-vpp.abcdefgh-0.sock")


@pytest.mark.parametrize("endpoint", ["memif.sock", "memif", "a.b.sock"])
def test_another_base_name_gives_other_names(endpoint: str) -> None:
    name = _directory(endpoint).new_socket(3).rpartition("/")[2]

    stem = endpoint.removesuffix(".sock")
    assert re.fullmatch(rf"{re.escape(stem)}\.[a-z2-7]{{8}}-3\.sock", name)


def test_the_kubelets_socket_lies_in_the_directory() -> None:
    assert _directory().kubelet_path == "/var/lib/kubelet/device-plugins/kubelet.sock"


def test_an_ordinary_path_is_a_target_as_every_grpc_understands_it() -> None:
    """A change of how a bare path is parsed once made every registration of another plugin fail."""
    assert target("/var/lib/kubelet/device-plugins/kubelet.sock") == "unix:/var/lib/kubelet/device-plugins/kubelet.sock"


def test_what_would_mean_something_in_a_uri_is_escaped() -> None:
    assert target("/a b/c#d%41?e") == "unix:/a%20b/c%23d%2541%3Fe"


def test_a_registration_is_given_more_time_than_the_kubelet_has_to_dial_back() -> None:
    """It dials for up to ten seconds inside the call, and a caller that gives up earlier ends the handshake."""
    assert Times().register > 10
