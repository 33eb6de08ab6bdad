"""Which requests are granted, and as what."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import MemifError
from domain.grant import DeviceAskedTwice, Grant, NothingAsked, RequestRefused, UnknownDevice, check, plan
from domain.identity import DeviceId
from domain.ledger import Ledger, Standing
from domain.pool import DirectoryRules, Pool, SecretDelivery
from domain.secret import Secret
from tests.unit import domain_values as values
from tests.unit.domain_values import NOW, a_draw, a_pool, device_ids, draws


def granted(
    *requests: tuple[str, ...], pool: Pool | None = None, ledger: Ledger | None = None, start: int = 0
) -> Grant:
    """Return what requests are granted, with numbered draws."""
    return plan(pool or a_pool(), requests, ledger or Ledger(), draws(len(requests), start), now=NOW)


class TestGrant:
    """One allocation and one answer for each container request."""

    def test_a_request_becomes_an_allocation_with_all_that_the_pool_says(self) -> None:
        pool = Pool(
            resource=values.RESOURCE,
            host_dir="/var/run/fast",
            container_dir="/run/fast",
            socket_name="fast.sock",
            directory=DirectoryRules(mode=0o750, group=107, selinux_label="none"),
            secret_delivery=SecretDelivery.BOTH,
        )
        (allocation,) = granted(device_ids(7), pool=pool).allocations

        assert allocation.id == a_draw(0).id
        assert allocation.secret == a_draw(0).secret
        assert allocation.resource == values.RESOURCE
        assert allocation.devices == device_ids(7)
        assert allocation.host_dir == "/var/run/fast"
        assert allocation.container_dir == "/run/fast"
        assert allocation.socket_name == "fast.sock"
        assert allocation.rules == pool.directory
        assert allocation.secret_delivery is SecretDelivery.BOTH
        assert [(file.name, file.content) for file in allocation.files] == [("secret", a_draw(0).secret.reveal())]
        assert allocation.granted == NOW
        assert not allocation.owner.complete

    def test_the_answer_is_about_the_allocation(self) -> None:
        made = granted(device_ids(7))
        (allocation,), (answer,) = made.allocations, made.answers

        assert answer.envs == {"MEMIF_SOCKET": "/run/vpp/memif.sock", "MEMIF_SECRET": allocation.secret.reveal()}
        assert [mount.host_path for mount in answer.mounts] == [allocation.directory.path]

    def test_the_devices_of_one_request_share_a_directory_and_a_secret_as_in_contiv_vpp(self) -> None:
        made = granted(device_ids(3, 4, 5))

        assert len(made.allocations) == len(made.answers) == 1
        assert made.allocations[0].devices == device_ids(3, 4, 5)

    def test_each_request_has_a_directory_and_a_secret_of_its_own_in_order_as_in_contiv_vpp(self) -> None:
        made = granted(device_ids(9), device_ids(1), device_ids(5))

        assert [each.devices for each in made.allocations] == [device_ids(9), device_ids(1), device_ids(5)]
        assert [each.id for each in made.allocations] == [draw.id for draw in draws(3)]
        assert [answer.envs["MEMIF_SECRET"] for answer in made.answers] == [d.secret.reveal() for d in draws(3)]
        assert [a.mounts[0].host_path for a in made.answers] == [each.directory.path for each in made.allocations]

    @given(data=st.data(), pool=values.pools)
    def test_requests_and_answers_correspond_whatever_the_pool(self, data: st.DataObject, pool: Pool) -> None:
        requests = data.draw(values.requests(pool))
        made = granted(*map(tuple, requests), pool=pool)

        assert len(made.allocations) == len(made.answers) == len(requests)
        for request, allocation, answer in zip(requests, made.allocations, made.answers, strict=True):
            assert set(allocation.devices) == set(request)
            assert list(allocation.devices) == sorted(allocation.devices, key=pool.indexes.__getitem__)
            assert answer.annotations[f"{pool.annotation_prefix}.socket.host"] == allocation.host_socket

    @given(data=st.data(), pool=values.pools)
    def test_the_order_in_which_the_kubelet_names_ids_does_not_matter(self, data: st.DataObject, pool: Pool) -> None:
        requests = data.draw(values.requests(pool))
        shuffled = [data.draw(st.permutations(request)) for request in requests]

        assert granted(*map(tuple, shuffled), pool=pool) == granted(*map(tuple, requests), pool=pool)

    def test_ids_are_put_in_the_order_of_their_index(self) -> None:
        """Not of their text, in which 10 comes before 9: the k-th is memif interface k."""
        assert granted(device_ids(10, 9, 99, 0)).allocations[0].devices == device_ids(0, 9, 10, 99)

    def test_a_request_may_name_every_device(self) -> None:
        assert granted(device_ids(*range(100))).allocations[0].devices == device_ids(*range(100))


class TestSameIdAgain:
    """A grant never destroys an earlier one."""

    def test_an_id_granted_twice_lives_twice(self) -> None:
        """In Contiv-VPP the second grant overwrote the first, whose container lived on."""
        first = granted(device_ids(7))
        ledger = Ledger().with_live(first.allocations, at=1.0)
        second = granted(device_ids(7), ledger=ledger, start=1)
        both = ledger.with_live(second.allocations, at=2.0)

        assert both.live() == (*first.allocations, *second.allocations)
        assert len({each.directory.path for each in both.live()}) == 2
        assert len({each.secret for each in both.live()}) == 2
        assert {each.devices for each in both.live()} == {device_ids(7)}

    def test_one_call_may_name_an_id_in_several_requests(self) -> None:
        made = granted(device_ids(7), device_ids(7, 8))

        assert [each.devices for each in made.allocations] == [device_ids(7), device_ids(7, 8)]
        assert made.allocations[0].id != made.allocations[1].id

    def test_a_pod_with_an_init_container_and_a_sidecar(self) -> None:
        """Seen on a kubelet: the init container's id is the sidecar's too, and all are asked for before any starts."""
        ledger = Ledger()
        for number, indexes in enumerate([(19,), (19,), (63, 95), (34,)]):
            ledger = ledger.with_live(granted(device_ids(*indexes), ledger=ledger, start=number).allocations, at=1.0)

        assert [each.devices for each in ledger.live()] == [device_ids(*ids) for ids in ((19,), (19,), (63, 95), (34,))]

    @pytest.mark.parametrize("standing", Standing)
    def test_what_became_of_the_earlier_grant_does_not_matter(self, standing: Standing) -> None:
        ledger = Ledger().with_live(granted(device_ids(7)).allocations, at=1.0).standing(a_draw(0).id, standing)

        assert granted(device_ids(7), ledger=ledger, start=1).allocations[0].devices == device_ids(7)


class TestRefused:
    """All or none, and every refusal says what was wrong with which id."""

    @pytest.mark.parametrize("requests", [[], [()], [("contivpp.io/memif/1",), ()]], ids=["call", "only", "second"])
    def test_nothing_asked_is_refused(self, requests: list[tuple[str, ...]]) -> None:
        with pytest.raises(NothingAsked, match=r"a container request for contivpp\.io/memif names no device id"):
            plan(a_pool(), requests, Ledger(), draws(len(requests)), now=NOW)

    @pytest.mark.parametrize(
        "name",
        [
            "contivpp.io/memif/100",
            "contivpp.io/memif/-1",
            "contivpp.io/memif/00",
            "contivpp.io/memif/7 ",
            "contivpp.io/memif",
            "memif-7",
            "7",
            "",
        ],
        ids=repr,
    )
    def test_an_id_that_was_never_advertised_is_refused(self, name: str) -> None:
        with pytest.raises(UnknownDevice) as refusal:
            granted(device_ids(1), (name,))

        assert refusal.value.device == name
        assert str(refusal.value) == f"device id {name!r} is not one of the 100 devices of contivpp.io/memif"

    def test_an_id_twice_in_one_request_is_refused(self) -> None:
        with pytest.raises(DeviceAskedTwice) as refusal:
            granted(device_ids(1), device_ids(7, 8, 7))

        assert refusal.value.device == DeviceId("contivpp.io/memif/7")
        assert str(refusal.value) == "device id 'contivpp.io/memif/7' is named twice in one container request"

    def test_refusals_have_one_root(self) -> None:
        assert all(issubclass(each, RequestRefused) for each in (NothingAsked, UnknownDevice, DeviceAskedTwice))
        assert issubclass(RequestRefused, MemifError)

    def test_a_retired_id_is_granted(self) -> None:
        """It was healthy when the kubelet chose it; the call may have been under way when the capacity was lowered."""
        pool = a_pool(capacity=2, retired=device_ids(7))

        assert granted(device_ids(7, 1), pool=pool).allocations[0].devices == device_ids(1, 7)

    def test_a_drained_pool_grants_what_the_kubelet_chose_before(self) -> None:
        assert granted(device_ids(7), pool=a_pool(drained=True)).allocations[0].devices == device_ids(7)


class TestCheck:
    """The part of the rule that needs no draw."""

    def test_it_gives_the_ids_of_each_request_in_index_order(self) -> None:
        assert check(a_pool(), [device_ids(10, 9), device_ids(1)]) == (device_ids(9, 10), device_ids(1))

    def test_it_refuses_what_planning_refuses(self) -> None:
        with pytest.raises(NothingAsked):
            check(a_pool(), [])
        with pytest.raises(UnknownDevice):
            check(a_pool(), [device_ids(0), device_ids(100)])
        with pytest.raises(DeviceAskedTwice):
            check(a_pool(), [device_ids(0, 0)])


class TestDraws:
    """Draws that cannot be used are a mistake of the caller, never of the kubelet."""

    def test_one_too_few(self) -> None:
        with pytest.raises(ValueError, match="one unused draw"):
            plan(a_pool(), [device_ids(1), device_ids(2)], Ledger(), draws(1), now=NOW)

    def test_one_too_many(self) -> None:
        with pytest.raises(ValueError, match="one unused draw"):
            plan(a_pool(), [device_ids(1)], Ledger(), draws(2), now=NOW)

    def test_one_id_twice(self) -> None:
        twice = (a_draw(1), replace(a_draw(2), id=a_draw(1).id))

        with pytest.raises(ValueError, match="one unused draw"):
            plan(a_pool(), [device_ids(1), device_ids(2)], Ledger(), twice, now=NOW)

    def test_one_too_many_of_which_one_is_used_up(self) -> None:
        ledger = Ledger().with_live([values.numbered(0)], at=1.0)

        with pytest.raises(ValueError, match="one unused draw"):
            plan(a_pool(), [device_ids(1)], ledger, draws(2), now=NOW)

    @pytest.mark.parametrize("standing", Standing)
    def test_an_id_of_which_there_is_a_record(self, standing: Standing) -> None:
        """Also a hidden one: its directory may still be there."""
        ledger = Ledger().with_live([values.numbered(0)], at=1.0).standing(values.an_id(0), standing)

        with pytest.raises(ValueError, match="one unused draw"):
            plan(a_pool(), [device_ids(1)], ledger, draws(1), now=NOW)

    def test_the_request_is_judged_before_the_draws(self) -> None:
        with pytest.raises(UnknownDevice):
            plan(a_pool(), [device_ids(100)], Ledger(), (), now=NOW)

    def test_two_secrets_may_be_equal(self) -> None:
        """They are drawn apart from ids, and nothing depends on their being different."""
        same = tuple(replace(draw, secret=Secret("SameSameSameSame")) for draw in draws(2))

        assert len(plan(a_pool(), [device_ids(1), device_ids(2)], Ledger(), same, now=NOW).allocations) == 2
