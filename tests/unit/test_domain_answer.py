"""What a container gets, and how our own answers are read back from the kubelet's record."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.allocation import File
from domain.answer import Answer, Claim, Mount, answer, claim, files, written
from domain.identity import AllocationId
from domain.pool import Pool, SecretDelivery
from domain.secret import Secret
from tests.unit import domain_values as values
from tests.unit.domain_values import a_pool, an_allocation, device_ids

ID = AllocationId("bcdfghjklmnpqrstvwxz")
PATH = f"/var/run/contiv/memif/{ID}"
TEXT = "HushHushHushHushHush"


def given_by(pool: Pool, *indexes: int) -> Answer:
    """Return a pool's answer to a request for the devices with these indexes."""
    return answer(pool, an_allocation(ID, device_ids(*(indexes or (0,)), pool=pool), pool=pool, secret=Secret(TEXT)))


class TestAnswer:
    """The usual answer is the one that Contiv-VPP gave."""

    def test_two_environment_variables_as_contiv_vpp_did(self) -> None:
        assert given_by(a_pool()).envs == {"MEMIF_SOCKET": "/run/vpp/memif.sock", "MEMIF_SECRET": TEXT}

    def test_three_annotations_as_contiv_vpp_did(self) -> None:
        assert given_by(a_pool()).annotations == {
            "io.contivpp.memif.socket.host": f"{PATH}/memif.sock",
            "io.contivpp.memif.socket.container": "/run/vpp/memif.sock",
            "io.contivpp.memif.secret": TEXT,
        }

    def test_one_mount_of_the_directory_read_write_as_contiv_vpp_did(self) -> None:
        """The directory, not the socket: that does not exist yet."""
        assert given_by(a_pool()).mounts == (Mount(host_path=PATH, container_path="/run/vpp", read_only=False),)

    def test_several_devices_share_one_directory_and_secret_as_in_contiv_vpp(self) -> None:
        assert given_by(a_pool(), 3, 4, 5) == given_by(a_pool(), 0)

    @given(id=values.ids)
    def test_the_host_s_socket_has_the_form_of_contiv_vpp_s(self, id: AllocationId) -> None:  # noqa: A002  # its name
        path = answer(a_pool(), an_allocation(id)).annotations["io.contivpp.memif.socket.host"]

        assert re.fullmatch(r"/var/run/contiv/memif/[bcdfghjklmnpqrstvwxz2456789]{20}/memif\.sock", path)

    def test_a_suffix_is_on_every_environment_name(self) -> None:
        """The kubelet keeps one of two equal names, at random."""
        pool = a_pool(env_suffix="_FAST", pod_env_extra=True)

        assert given_by(pool).envs == {
            "MEMIF_SOCKET_FAST": "/run/vpp/memif.sock",
            "MEMIF_SECRET_FAST": TEXT,
            "MEMIF_COUNT_FAST": "1",
            "MEMIF_IDS_FAST": "1",
        }

    def test_a_prefix_is_before_every_annotation(self) -> None:
        pool = a_pool(annotation_prefix="com.example/fast")

        assert set(given_by(pool).annotations) == {
            "com.example/fast.socket.host",
            "com.example/fast.socket.container",
            "com.example/fast.secret",
        }

    def test_places_are_the_configured_ones(self) -> None:
        pool = a_pool(
            host_dir="/var/run/fast", container_dir="/run/fast", socket_name="fast.sock", read_only_mount=True
        )
        given = given_by(pool)

        assert given.envs["MEMIF_SOCKET"] == "/run/fast/fast.sock"
        assert given.annotations["io.contivpp.memif.socket.host"] == f"/var/run/fast/{ID}/fast.sock"
        assert given.annotations["io.contivpp.memif.socket.container"] == "/run/fast/fast.sock"
        assert given.mounts == (Mount(host_path=f"/var/run/fast/{ID}", container_path="/run/fast", read_only=True),)

    def test_count_and_ids_are_given_on_request(self) -> None:
        """The k-th device by index is memif id k."""
        given = given_by(a_pool(pod_env_extra=True), 63, 95, 7)

        assert given.envs == {
            "MEMIF_SOCKET": "/run/vpp/memif.sock",
            "MEMIF_SECRET": TEXT,
            "MEMIF_COUNT": "3",
            "MEMIF_IDS": "1,2,3",
        }

    def test_a_secret_delivered_by_file_is_nowhere_in_the_answer(self) -> None:
        given = given_by(a_pool(secret_delivery=SecretDelivery.FILE, pod_env_extra=True, pod_file=True))

        assert set(given.envs) == {"MEMIF_SOCKET", "MEMIF_COUNT", "MEMIF_IDS"}
        assert set(given.annotations) == {"io.contivpp.memif.socket.host", "io.contivpp.memif.socket.container"}
        assert TEXT not in f"{given.envs}{given.annotations}{given.mounts}"

    def test_a_secret_delivered_both_ways_is_in_the_answer_as_ever(self) -> None:
        assert given_by(a_pool(secret_delivery=SecretDelivery.BOTH)) == given_by(a_pool())


class TestFiles:
    """What is put into the mounted directory."""

    def made(self, **changes: Any) -> dict[str, File]:
        pool = a_pool(**changes)
        made = files(pool, device_ids(7, 63), Secret(TEXT))
        return {file.name: file for file in made}

    def test_nothing_unless_configured(self) -> None:
        assert self.made() == {}

    @pytest.mark.parametrize("delivery", [SecretDelivery.FILE, SecretDelivery.BOTH])
    def test_the_secret_and_nothing_else_readable_by_the_group(self, delivery: SecretDelivery) -> None:
        assert self.made(secret_delivery=delivery) == {"secret": File(name="secret", content=TEXT, mode=0o440)}

    def test_the_pod_file_lists_each_interface(self) -> None:
        made = self.made(pod_file=True)

        assert list(made) == ["memif.json"]
        assert json.loads(made["memif.json"].content) == {
            "version": 1,
            "interfaces": [
                {
                    "device": "contivpp.io/memif/7",
                    "id": 1,
                    "role": "client",
                    "mode": "ethernet",
                    "socket": "/run/vpp/memif.sock",
                },
                {
                    "device": "contivpp.io/memif/63",
                    "id": 2,
                    "role": "client",
                    "mode": "ethernet",
                    "socket": "/run/vpp/memif.sock",
                },
            ],
        }
        assert made["memif.json"].content.endswith("}\n")
        assert made["memif.json"].mode == 0o440

    def test_the_pod_file_names_the_configured_socket(self) -> None:
        content = self.made(pod_file=True, container_dir="/run/fast", socket_name="fast.sock")["memif.json"].content

        assert [each["socket"] for each in json.loads(content)["interfaces"]] == ["/run/fast/fast.sock"] * 2

    def test_the_pod_file_never_holds_the_secret(self) -> None:
        made = self.made(pod_file=True, secret_delivery=SecretDelivery.BOTH)

        assert list(made) == ["secret", "memif.json"]
        assert TEXT not in made["memif.json"].content


class TestClaim:
    """The kubelet's record of our answers is the durable one; only what is complete and consistent is believed."""

    @given(pool=values.pools, secret=values.secrets, id=values.ids)
    def test_every_answer_of_ours_is_read_back(self, pool: Pool, secret: Secret, id: AllocationId) -> None:  # noqa: A002
        """The last argument is called as the value's field is."""
        allocation = an_allocation(id, device_ids(0, pool=pool), pool=pool, secret=secret)

        assert claim(pool, answer(pool, allocation)) == Claim(
            id=id,
            host_dir=pool.host_dir,
            container_dir=pool.container_dir,
            socket_name=pool.socket_name,
            secret=None if pool.secret_delivery is SecretDelivery.FILE else secret,
        )

    @pytest.mark.parametrize("name", ["socket.host", "socket.container", "secret"])
    @pytest.mark.parametrize("content", [None, ""], ids=["missing", "empty"])
    def test_an_incomplete_answer_is_none(self, name: str, content: str | None) -> None:
        """Contiv-VPP took what was missing for an empty text, and so gave out memifs without a secret."""
        assert claim(a_pool(), changed(**{f"io.contivpp.memif.{name}": content})) is None

    @pytest.mark.parametrize(
        "path",
        [
            "memif.sock",
            "/memif.sock",
            f"{ID}/",
            f"{PATH}/",
            f"{PATH}/other.sock",
            f"{PATH}/sub/memif.sock",
            f"{PATH.upper()}/memif.sock",
            f"/var/run/contiv/memif/{ID[1:]}/memif.sock",
            f"/var/run/contiv/memif/{ID}x/memif.sock",
            f"/var/run/contiv/memif/{ID[::-1]}/memif.sock",  # well formed, and not what is mounted
            f"/elsewhere/{ID}/memif.sock",
        ],
    )
    def test_a_host_socket_that_does_not_fit_the_mount_is_none(self, path: str) -> None:
        assert claim(a_pool(), changed(**{"io.contivpp.memif.socket.host": path})) is None

    @pytest.mark.parametrize("path", ["/run/vpp/other.sock", "/run/other/memif.sock", "memif.sock", "/run/vpp/"])
    def test_a_container_socket_that_does_not_fit_is_none(self, path: str) -> None:
        assert claim(a_pool(), changed(**{"io.contivpp.memif.socket.container": path})) is None

    @pytest.mark.parametrize("name", ["", "cnf", ID[1:], f"{ID}x", ID.upper(), f".gone-{ID}"], ids=repr)
    def test_a_directory_with_a_name_that_is_no_id_is_none(self, name: str) -> None:
        """Though it is mounted: whatever it is, we did not make it."""
        path = f"/var/run/contiv/memif/{name}"
        given = changed(**{"io.contivpp.memif.socket.host": f"{path}/memif.sock"})
        mount = Mount(host_path=path, container_path="/run/vpp")

        assert claim(a_pool(), replace(given, mounts=(mount,))) is None

    def test_sockets_without_a_base_name_are_none(self) -> None:
        paths = {"io.contivpp.memif.socket.host": f"{PATH}/", "io.contivpp.memif.socket.container": "/run/vpp/"}

        assert claim(a_pool(), changed(**paths)) is None

    def test_an_answer_without_a_mount_is_none(self) -> None:
        assert claim(a_pool(), replace(given_by(a_pool()), mounts=())) is None

    @pytest.mark.parametrize("path", ["/run/other", "/run/vpp/", "/"])
    def test_a_mount_elsewhere_in_the_container_is_none(self, path: str) -> None:
        mount = Mount(host_path=PATH, container_path=path)

        assert claim(a_pool(), replace(given_by(a_pool()), mounts=(mount,))) is None

    def test_two_mounts_that_agree_only_together_are_none(self) -> None:
        mounts = (
            Mount(host_path=PATH, container_path="/run/other"),
            Mount(host_path="/other", container_path="/run/vpp"),
        )

        assert claim(a_pool(), replace(given_by(a_pool()), mounts=mounts)) is None

    def test_annotations_can_be_read_without_their_mounts(self) -> None:
        """A runtime shows what a container mounts in its own way; whoever reads so must compare it himself."""
        given = given_by(a_pool())

        assert written(a_pool(), given.annotations) == claim(a_pool(), given)
        assert written(a_pool(), {}) is None

    def test_more_mounts_do_no_harm(self) -> None:
        given = given_by(a_pool())
        more = replace(given, mounts=(Mount(host_path="/dev/shm", container_path="/dev/shm"), *given.mounts))

        assert claim(a_pool(), more) == claim(a_pool(), given)

    @pytest.mark.parametrize("text", ["x" * 24, "two words", "a,b", "nul\0"], ids=repr)
    @pytest.mark.parametrize("delivery", SecretDelivery)
    def test_a_secret_that_no_peer_could_use_is_none(self, text: str, delivery: SecretDelivery) -> None:
        pool = a_pool(secret_delivery=delivery)

        assert claim(pool, changed(**{"io.contivpp.memif.secret": text})) is None

    def test_a_secret_by_file_may_be_missing_and_is_taken_if_it_is_there(self) -> None:
        """The delivery may have been another when the answer was given."""
        pool = a_pool(secret_delivery=SecretDelivery.FILE)
        with_it, without_it = claim(pool, given_by(a_pool())), claim(pool, given_by(pool))

        assert with_it is not None
        assert with_it.secret == Secret(TEXT)
        assert without_it is not None
        assert without_it.secret is None

    def test_a_secret_that_is_also_in_a_file_must_be_in_the_answer(self) -> None:
        without_it = given_by(a_pool(secret_delivery=SecretDelivery.FILE))

        assert claim(a_pool(secret_delivery=SecretDelivery.BOTH), without_it) is None

    def test_another_pool_s_answer_is_none(self) -> None:
        assert claim(a_pool(), given_by(a_pool(annotation_prefix="com.example.fast"))) is None

    def test_environment_and_order_do_not_matter(self) -> None:
        given = given_by(a_pool())
        annotations = dict(sorted(given.annotations.items(), reverse=True))

        assert claim(a_pool(), replace(given, envs={}, annotations=annotations)) == claim(a_pool(), given)

    @given(
        annotations=st.dictionaries(
            st.sampled_from([f"io.contivpp.memif.{name}" for name in ("socket.host", "socket.container", "secret")]),
            st.text(max_size=60) | st.sampled_from([f"{PATH}/memif.sock", "/run/vpp/memif.sock", TEXT]),
        ),
        mounts=st.lists(
            st.builds(
                Mount,
                host_path=st.text(max_size=9) | st.just(PATH),
                container_path=st.text(max_size=9) | st.just("/run/vpp"),
            ),
            max_size=2,
        ).map(tuple),
    )
    def test_whatever_is_claimed_lies_where_something_is_mounted(
        self, annotations: dict[str, str], mounts: tuple[Mount, ...]
    ) -> None:
        """Nothing that an answer may say makes it fail, and what is believed agrees with a mount."""
        found = claim(a_pool(), Answer(annotations=annotations, mounts=mounts))

        assert found is None or any(
            mount.host_path == f"{found.host_dir}/{found.id}" and mount.container_path == found.container_dir
            for mount in mounts
        )


def changed(**annotations: str | None) -> Answer:
    """Return the usual answer with other annotations, or without those that are ``None``."""
    usual = given_by(a_pool())
    merged = {**usual.annotations, **annotations}
    return replace(usual, annotations={key: text for key, text in merged.items() if text is not None})
