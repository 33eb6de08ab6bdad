"""What the kubelet will mount and the ledger does not know becomes ours again, as it was."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.adoption import Adoption, adoption, in_index_order
from domain.allocation import Owner
from domain.answer import Answer, Mount
from domain.evidence import CheckpointEntry
from domain.grant import plan
from domain.identity import AllocationId, DeviceId, PodUid
from domain.ledger import Ledger
from domain.pool import DirectoryRules, Pool, SecretDelivery
from domain.resource import ResourceName
from domain.secret import Secret
from tests.unit import domain_values as values
from tests.unit.domain_values import NOW, a_pool, an_allocation, an_entry, an_owner, device_ids

LATER = NOW + timedelta(hours=1)
FAST = ResourceName("example.com/fast")

BY_CONTIV = CheckpointEntry(
    uid=PodUid("0a1b2c3d-0000-4000-8000-000000000001"),
    container="vpp",
    resource=values.RESOURCE,
    devices=device_ids(95, 7),
    answer=Answer(
        envs={"MEMIF_SOCKET": "/run/vpp/memif.sock", "MEMIF_SECRET": "b2c4d5f6g7h8j9k2l4m5"},
        mounts=(Mount(host_path="/var/run/contiv/memif/z9x8w7v6t5s4r2q9p8n7", container_path="/run/vpp"),),
        annotations={
            "io.contivpp.memif.socket.host": "/var/run/contiv/memif/z9x8w7v6t5s4r2q9p8n7/memif.sock",
            "io.contivpp.memif.socket.container": "/run/vpp/memif.sock",
            "io.contivpp.memif.secret": "b2c4d5f6g7h8j9k2l4m5",
        },
    ),
)
"""What an agent of Contiv-VPP answered, as the kubelet still keeps it when we take its place."""


def adopted(entry: CheckpointEntry, *pools: Pool) -> Adoption:
    """Return what there is to adopt in an entry, which must be something."""
    found = adoption(entry, pools or (a_pool(),), now=LATER)
    assert found is not None
    return found


def test_what_contiv_vpp_gave_is_taken_over_with_its_path_and_secret() -> None:
    found = adopted(BY_CONTIV)

    assert not found.sealed
    assert found.allocation == an_allocation(
        "z9x8w7v6t5s4r2q9p8n7",
        device_ids(7, 95),
        Owner(uid=BY_CONTIV.uid, container="vpp"),
        secret=Secret("b2c4d5f6g7h8j9k2l4m5"),
        granted=LATER,
    )


@given(data=st.data(), pool=values.pools, secret=values.secrets, id=values.ids)
def test_whatever_we_granted_is_adopted_as_it_was(
    data: st.DataObject,
    pool: Pool,
    secret: Secret,
    id: AllocationId,  # noqa: A002  # as the field is called
) -> None:
    """Everything but the time of the grant, which is recorded nowhere else, and the name of the pod."""
    request = data.draw(st.lists(st.sampled_from(list(pool.indexes)), min_size=1, max_size=4, unique=True))
    drawn = replace(values.a_draw(0), id=id, secret=secret)
    (granted,) = plan(pool, [request], Ledger(), [drawn], now=NOW).allocations
    entry = an_entry(granted, "uid-1", "app", pool, devices=tuple(data.draw(st.permutations(request))))
    found = adopted(entry, pool)

    assert found.sealed is (pool.secret_delivery is SecretDelivery.FILE)
    assert found.with_secret(secret) == replace(
        granted, granted=LATER, owner=Owner(uid=PodUid("uid-1"), container="app")
    )
    assert found.sealed or found.allocation == found.with_secret(secret)


def test_the_files_of_an_adopted_allocation_are_those_of_its_pool() -> None:
    pool = a_pool(secret_delivery=SecretDelivery.BOTH, pod_file=True)
    found = adopted(an_entry(an_allocation(pool=pool), pool=pool), pool)

    assert [file.name for file in found.allocation.files] == ["secret", "memif.json"]
    assert found.allocation.files[0].content == found.allocation.secret.reveal()


class TestSealed:
    """An answer whose secret was delivered by file."""

    POOL = a_pool(secret_delivery=SecretDelivery.FILE, pod_file=True)

    def test_the_secret_is_not_known_until_it_has_been_read(self) -> None:
        allocation = an_allocation(pool=self.POOL)
        found = adopted(an_entry(allocation, pool=self.POOL), self.POOL)

        assert found.sealed
        assert found.allocation.id == allocation.id
        assert found.allocation.files == ()

    def test_the_secret_that_was_found_goes_into_allocation_and_file(self) -> None:
        found = adopted(an_entry(an_allocation(pool=self.POOL), pool=self.POOL), self.POOL)
        opened = found.with_secret(Secret("FoundFoundFoundFound"))

        assert opened.secret == Secret("FoundFoundFoundFound")
        assert [file.name for file in opened.files] == ["secret", "memif.json"]
        assert opened.files[0].content == "FoundFoundFoundFound"
        assert opened.secret_delivery is SecretDelivery.FILE


class TestNothingToAdopt:
    """Only a complete answer of one of the pools is taken over."""

    def test_another_plugin_s_resource(self) -> None:
        assert adoption(replace(BY_CONTIV, resource=ResourceName("example.com/gpu")), [a_pool()], now=NOW) is None

    def test_no_pool(self) -> None:
        assert adoption(BY_CONTIV, [], now=NOW) is None

    @pytest.mark.parametrize("missing", ["socket.host", "socket.container", "secret"])
    def test_an_incomplete_answer(self, missing: str) -> None:
        kept = {key: text for key, text in BY_CONTIV.answer.annotations.items() if not key.endswith(missing)}
        entry = replace(BY_CONTIV, answer=replace(BY_CONTIV.answer, annotations=kept))

        assert adoption(entry, [a_pool()], now=NOW) is None

    def test_an_answer_without_a_mount(self) -> None:
        assert adoption(replace(BY_CONTIV, answer=replace(BY_CONTIV.answer, mounts=())), [a_pool()], now=NOW) is None

    def test_a_directory_outside_the_pool_s_base(self) -> None:
        """We must neither make nor remove anything there."""
        assert adoption(BY_CONTIV, [a_pool(host_dir="/var/run/fast")], now=NOW) is None
        assert adoption(BY_CONTIV, [a_pool(host_dir="/var/run/contiv")], now=NOW) is None

    def test_an_answer_with_another_prefix(self) -> None:
        assert adoption(BY_CONTIV, [a_pool(annotation_prefix="com.example.fast")], now=NOW) is None


class TestSeveralPools:
    """An answer is matched by resource, and by what its pool was when it was given."""

    def test_the_pool_of_the_resource_is_taken(self) -> None:
        fast = a_pool(resource=FAST, host_dir="/var/run/fast", directory=DirectoryRules(mode=0o750))
        found = adopted(an_entry(an_allocation(pool=fast), pool=fast), a_pool(), fast)

        assert found.pool == fast
        assert found.allocation.resource == FAST
        assert found.allocation.rules == DirectoryRules(mode=0o750)

    def test_a_pool_as_it_was_before_explains_what_the_pool_as_it_is_cannot(self) -> None:
        before = a_pool(annotation_prefix="com.example.old", host_dir="/var/run/old", container_dir="/run/old")
        found = adopted(an_entry(an_allocation(pool=before), pool=before), a_pool(), before)

        assert found.pool == before
        assert found.allocation.host_dir == "/var/run/old"
        assert found.allocation.container_dir == "/run/old"

    def test_a_secret_by_file_of_a_pool_as_it_was_before(self) -> None:
        before = a_pool(secret_delivery=SecretDelivery.FILE)
        found = adopted(an_entry(an_allocation(pool=before), pool=before), a_pool(), before)

        assert found.sealed
        assert found.pool == before

    def test_a_pool_as_it_is_comes_first(self) -> None:
        before = a_pool(capacity=50)

        assert adopted(BY_CONTIV, a_pool(), before).pool == a_pool()

    def test_places_of_the_answer_stay_though_the_pool_s_have_changed(self) -> None:
        """The kubelet replays the answer as it was: path and mount must stay where they are."""
        moved = a_pool(container_dir="/run/moved", socket_name="moved.sock")
        found = adopted(BY_CONTIV, moved)

        assert found.allocation.container_dir == "/run/vpp"
        assert found.allocation.socket_name == "memif.sock"
        assert found.allocation.container_socket == "/run/vpp/memif.sock"


class TestOrder:
    """The k-th device by index is memif interface k."""

    def test_ids_are_in_the_order_of_their_index(self) -> None:
        assert in_index_order(a_pool(), device_ids(10, 9, 0)) == device_ids(0, 9, 10)

    def test_ids_that_are_no_longer_listed_come_last_by_name(self) -> None:
        pool = a_pool(capacity=2)
        strange = DeviceId("another")

        assert in_index_order(pool, (*device_ids(30, 4), strange, *device_ids(1))) == (
            *device_ids(1),
            strange,
            *device_ids(30, 4),
        )

    def test_an_entry_with_unlisted_ids_is_adopted_all_the_same(self) -> None:
        found = adopted(BY_CONTIV, a_pool(capacity=10))

        assert found.allocation.devices == device_ids(7, 95)


def test_the_owner_s_name_is_left_to_the_runtime() -> None:
    """The kubelet's record knows uid and container only."""
    owner = adopted(an_entry(an_allocation(owner=an_owner()))).allocation.owner

    assert owner == Owner(uid=an_owner().uid, container="dataplane", namespace=None, name=None)
