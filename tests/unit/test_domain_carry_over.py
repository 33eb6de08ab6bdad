"""What a changed configuration may not take away."""

import pytest

from domain.allocation import Allocation
from domain.carry_over import DeviceIdsChanged, ListTooLarge, carry_on, carry_over
from domain.errors import MemifError
from domain.evidence import CheckpointView, Unknown
from domain.pool import Health, Pool
from domain.resource import ResourceName
from tests.unit.domain_values import a_checkpoint, a_pool, an_entry, device_ids, numbered

UNKNOWN = Unknown("no such file")
EMPTY = a_checkpoint()
FAST = a_pool(resource=ResourceName("example.com/fast"), device_id="fast-{index}", host_dir="/var/run/fast")
SLOW = a_pool(resource=ResourceName("example.com/slow"), host_dir="/var/run/slow")


def the_only(
    configured: Pool, earlier: Pool, *living: Allocation, checkpoint: CheckpointView | Unknown = EMPTY
) -> Pool:
    """Return what becomes of one pool."""
    (served,) = carry_over([configured], [earlier], living, checkpoint)
    return served


class TestFirstStart:
    """Nothing was used before."""

    @pytest.mark.parametrize("checkpoint", [UNKNOWN, EMPTY], ids=["unknown", "empty"])
    def test_pools_are_served_as_configured(self, checkpoint: CheckpointView | Unknown) -> None:
        assert carry_over([FAST, a_pool()], [], [], checkpoint) == (FAST, a_pool())

    def test_adopted_allocations_change_nothing(self) -> None:
        """With a journal that was lost there is nothing that a pool was before."""
        assert carry_over([a_pool(capacity=5)], [], [numbered(7)], UNKNOWN) == (a_pool(capacity=5),)


class TestCapacity:
    """A lower capacity retires the higher ids instead of dropping them."""

    def test_an_unchanged_pool_is_unchanged(self) -> None:
        assert the_only(a_pool(), a_pool(), numbered(7), checkpoint=UNKNOWN) == a_pool()

    def test_a_higher_capacity_retires_nothing(self) -> None:
        assert the_only(a_pool(capacity=200), a_pool(), numbered(7), checkpoint=UNKNOWN) == a_pool(capacity=200)

    def test_an_id_that_an_allocation_holds_stays_listed(self) -> None:
        served = the_only(a_pool(capacity=5), a_pool(), numbered(7), numbered(3))

        assert served == a_pool(capacity=5, retired=device_ids(7))

    def test_an_id_that_the_kubelet_s_record_holds_stays_listed(self) -> None:
        served = the_only(a_pool(capacity=5), a_pool(), checkpoint=a_checkpoint(an_entry(numbered(7))))

        assert served == a_pool(capacity=5, retired=device_ids(7))

    def test_ids_that_nobody_holds_are_let_go(self) -> None:
        assert the_only(a_pool(capacity=5), a_pool()) == a_pool(capacity=5)

    def test_every_id_stays_while_the_kubelet_s_record_is_unknown(self) -> None:
        served = the_only(a_pool(capacity=5), a_pool(capacity=9), checkpoint=UNKNOWN)

        assert served == a_pool(capacity=5, retired=device_ids(5, 6, 7, 8))

    def test_what_stays_is_listed_as_unhealthy_in_index_order(self) -> None:
        served = the_only(a_pool(capacity=5), a_pool(), numbered(30), numbered(7))

        assert [device.id for device in served.devices()] == list(device_ids(0, 1, 2, 3, 4, 7, 30))
        assert [device.health for device in served.devices()] == [Health.HEALTHY] * 5 + [Health.UNHEALTHY] * 2

    def test_an_id_stays_over_several_starts_until_it_is_let_go(self) -> None:
        first = the_only(a_pool(capacity=5), a_pool(), numbered(7), numbered(8))
        second = the_only(a_pool(capacity=5), first, numbered(7), checkpoint=EMPTY)
        third = the_only(a_pool(capacity=5), second, checkpoint=UNKNOWN)
        fourth = the_only(a_pool(capacity=5), third, checkpoint=EMPTY)

        assert first.retired == device_ids(7, 8)
        assert second.retired == device_ids(7)
        assert third.retired == device_ids(7)
        assert fourth.retired == ()

    def test_a_capacity_that_rises_again_makes_retired_ids_healthy(self) -> None:
        lowered = the_only(a_pool(capacity=5), a_pool(), numbered(7), numbered(30))
        raised = the_only(a_pool(capacity=10), lowered, numbered(7), numbered(30))

        assert raised == a_pool(capacity=10, retired=device_ids(30))

    def test_another_resource_s_holders_do_not_count(self) -> None:
        slow = a_pool(resource=SLOW.resource, device_id="memif-{index}")
        mine = a_pool(capacity=5, device_id="memif-{index}")
        other = numbered(7, pool=slow)
        served = the_only(mine, a_pool(device_id="memif-{index}"), other, checkpoint=a_checkpoint(an_entry(other)))

        assert served == mine

    def test_everything_else_is_as_configured(self) -> None:
        now = a_pool(capacity=5, host_dir="/var/run/other", env_suffix="_X", pod_file=True)

        assert the_only(now, a_pool(), numbered(3)) == now


class TestDeviceIds:
    """Ids keep their form while somebody holds one."""

    def test_another_form_is_refused_while_allocations_live(self) -> None:
        with pytest.raises(DeviceIdsChanged) as refusal:
            the_only(a_pool(device_id="memif-{index}"), a_pool(), numbered(1), numbered(2))

        assert refusal.value.resource == "contivpp.io/memif"
        assert isinstance(refusal.value, MemifError)
        assert str(refusal.value) == (
            "device_id of contivpp.io/memif cannot change from '{resource}/{index}' to 'memif-{index}' while 2 of its "
            "allocations live; change it back, or delete the pods that hold them first"
        )

    def test_another_form_is_taken_when_nothing_lives(self) -> None:
        changed = a_pool(device_id="memif-{index}", capacity=3)

        assert the_only(changed, a_pool()) == changed

    def test_another_resource_s_allocations_do_not_count(self) -> None:
        changed = a_pool(device_id="memif-{index}")

        assert the_only(changed, a_pool(), numbered(1, pool=FAST)) == changed


class TestDrained:
    """A pool that was taken out of the configuration goes on until nothing of it lives."""

    def test_a_pool_of_which_something_lives_is_served_without_healthy_devices(self) -> None:
        served = carry_over([a_pool()], [FAST], [numbered(1, pool=FAST)], EMPTY)

        assert [pool.resource for pool in served] == ["contivpp.io/memif", "example.com/fast"]
        assert not served[0].drained
        assert served[1].drained
        assert {device.health for device in served[1].devices()} == {Health.UNHEALTHY}
        assert served[1].indexes == FAST.indexes

    def test_a_pool_of_which_nothing_lives_is_gone(self) -> None:
        assert carry_over([a_pool()], [FAST, SLOW], [numbered(1)], EMPTY) == (a_pool(),)

    def test_those_configured_come_first_and_both_keep_their_order(self) -> None:
        living = [numbered(1, pool=FAST), numbered(2, pool=SLOW)]
        third = a_pool(resource=ResourceName("example.com/third"))
        served = carry_over([third, a_pool()], [SLOW, a_pool(), FAST], living, EMPTY)

        assert [pool.resource for pool in served] == [third.resource, a_pool().resource, SLOW.resource, FAST.resource]

    def test_a_drained_pool_stays_drained_and_keeps_its_retired_ids(self) -> None:
        before = a_pool(capacity=5, retired=device_ids(7), drained=True)

        assert carry_over([], [before], [numbered(7)], UNKNOWN) == (before,)

    def test_a_pool_that_is_configured_again_is_healthy_again(self) -> None:
        before = a_pool(drained=True)

        assert the_only(a_pool(), before, numbered(7)) == a_pool()

    def test_living_allocations_may_come_from_an_iterator(self) -> None:
        served = carry_over([a_pool(capacity=5)], [a_pool(), FAST], iter([numbered(7), numbered(1, pool=FAST)]), EMPTY)

        assert [pool.drained for pool in served] == [False, True]
        assert served[0].retired == device_ids(7)


class TestWhileRunning:
    """Nothing that was listed is withdrawn: an Allocate for it may be on its way."""

    def test_a_new_pool_is_served_as_configured(self) -> None:
        assert carry_on([a_pool(), FAST], [a_pool()], []) == (a_pool(), FAST)

    def test_every_id_above_a_lower_capacity_stays_listed_whoever_holds_it(self) -> None:
        (served,) = carry_on([a_pool(capacity=5)], [a_pool(capacity=8)], [])

        assert served == a_pool(capacity=5, retired=device_ids(5, 6, 7))

    def test_ids_that_are_retired_already_stay_so(self) -> None:
        before = a_pool(capacity=5, retired=device_ids(5, 6, 7))

        assert carry_on([a_pool(capacity=5)], [before], []) == (before,)
        assert carry_on([a_pool(capacity=6)], [before], []) == (a_pool(capacity=6, retired=device_ids(6, 7)),)
        assert carry_on([a_pool(capacity=9)], [before], []) == (a_pool(capacity=9),)

    @pytest.mark.parametrize("living", [(), (numbered(1),)], ids=["empty", "in use"])
    def test_a_pool_that_is_not_configured_is_drained(self, living: tuple[Allocation, ...]) -> None:
        drained = a_pool(drained=True)

        assert carry_on([FAST], [a_pool(), FAST], living) == (FAST, drained)
        assert carry_on([FAST], [drained, FAST], living) == (FAST, drained)

    def test_a_drained_pool_that_is_configured_again_is_served_again(self) -> None:
        assert carry_on([a_pool()], [a_pool(drained=True)], [numbered(1)]) == (a_pool(),)

    def test_other_ids_are_refused_while_something_of_the_pool_lives(self) -> None:
        with pytest.raises(DeviceIdsChanged, match="while 2 of its allocations live"):
            carry_on([a_pool(device_id="memif-{index}")], [a_pool()], [numbered(1), numbered(2)])

    def test_other_ids_join_those_of_an_empty_pool(self) -> None:
        (served,) = carry_on([a_pool(device_id="memif-{index}", capacity=2)], [a_pool(capacity=1)], [])

        assert [device.id for device in served.devices()] == ["memif-0", "memif-1", *device_ids(0)]
        assert [device.health for device in served.devices()] == [Health.HEALTHY] * 2 + [Health.UNHEALTHY]

    def test_a_list_with_both_that_is_too_large_is_refused(self) -> None:
        """The kubelet would drop the stream, and with it every device."""
        before, after = a_pool(capacity=100_000), a_pool(capacity=100_000, device_id="memif-{index}")
        with pytest.raises(ListTooLarge, match="restart the daemon instead") as refusal:
            carry_on([after], [before], [])

        assert refusal.value.resource == before.resource
