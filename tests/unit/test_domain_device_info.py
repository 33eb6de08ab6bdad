"""What others are told of our devices."""

import json

from domain.device_info import DeviceInfo, content, file_name, files, wanted
from domain.identity import DeviceId
from domain.resource import ResourceName
from tests.unit.domain_values import a_pool, numbered

PLACE = "/var/run/k8s.cni.cncf.io/devinfo/dp"


def named(index: int) -> str:
    return f"contivpp.io-memif-contivpp.io-memif-{index}-device.json"


def test_a_file_is_named_after_resource_and_device_without_slashes() -> None:
    assert file_name(ResourceName("contivpp.io/memif"), DeviceId("contivpp.io/memif/7")) == named(7)
    assert file_name(ResourceName("a.io/b"), DeviceId("memif-7")) == "a.io-b-memif-7-device.json"


def test_it_says_what_the_pod_needs_and_no_secret() -> None:
    allocation = numbered(7)

    assert json.loads(content(allocation)) == {
        "type": "memif",
        "version": "1.1.0",
        "memif": {"role": "slave", "path": "/run/vpp/memif.sock", "mode": "ethernet"},
    }
    assert allocation.secret.reveal() not in content(allocation)


def test_each_device_has_one_if_that_is_configured() -> None:
    assert files(a_pool(), [numbered(7)]) == {}
    assert files(a_pool(device_info_dir=PLACE), [numbered(7), numbered(9)]).keys() == {named(7), named(9)}


def test_a_device_that_was_granted_again_is_told_of_as_last_granted() -> None:
    first, last = numbered(7), numbered(7, container_dir="/run/other")

    assert files(a_pool(device_info_dir=PLACE), [first, last]) == {named(7): content(last)}


class TestWanted:
    def test_without_a_directory_nothing_is(self) -> None:
        assert wanted([a_pool()], [a_pool(capacity=5)], [numbered(7)]) == ()

    def test_what_lives_has_its_file_and_every_other_name_of_ours_must_not_be_there(self) -> None:
        pool = a_pool(device_info_dir=PLACE, capacity=3)

        assert wanted([pool], [], [numbered(1)]) == (
            DeviceInfo(directory=PLACE, files={named(1): content(numbered(1))}, ours=frozenset(map(named, range(3)))),
        )

    def test_what_is_left_in_an_earlier_directory_goes(self) -> None:
        before = a_pool(device_info_dir="/var/run/old", capacity=2)
        now, old = wanted([a_pool(device_info_dir=PLACE)], [before], [numbered(1)])

        assert (now.directory, set(now.files)) == (PLACE, {named(1)})
        assert (old.directory, old.files, old.ours) == ("/var/run/old", {}, frozenset(map(named, range(2))))

    def test_so_does_everything_when_it_is_switched_off(self) -> None:
        (old,) = wanted([a_pool()], [a_pool(device_info_dir=PLACE)], [numbered(1)])

        assert (old.directory, old.files) == (PLACE, {})

    def test_pools_share_a_directory(self) -> None:
        other = a_pool(resource=ResourceName("example.com/fast"), device_id="fast-{index}", device_info_dir=PLACE)
        (both,) = wanted([a_pool(device_info_dir=PLACE), other], [], [numbered(1)])

        assert both.files.keys() == {named(1)}
        assert "example.com-fast-fast-0-device.json" in both.ours
