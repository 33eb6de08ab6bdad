"""Look-up with a uid asked for, and with the kubelet or its record out of reach."""

import pytest

from domain.evidence import PodDevices, Unknown
from domain.identity import PodUid
from domain.lookup import NoMemif, NoPod, UnknownNow
from domain.resource import ResourceName
from tests.unit.domain_values import a_pool, device_ids
from tests.unit.lookup_scene import (
    FAST,
    MEMIF,
    NAME,
    NAMESPACE,
    NEW,
    OLD,
    OTHER,
    SILENT,
    Listing,
    Scene,
    held,
)


class TestUidAskedFor:
    @staticmethod
    def two_incarnations() -> Scene:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)
        scene.grant("app", 5, name=NAME)
        return scene

    def test_the_current_one_is_answered_as_current(self) -> None:
        found = self.two_incarnations().ask({"app": [5]}, NEW)

        assert (found.uid, found.stale, len(found.containers)) == (NEW, False, 1)

    def test_an_old_one_is_answered_as_stale_although_ids_and_containers_agree(self) -> None:
        found = self.two_incarnations().ask({"app": [5]}, OLD)

        assert (found.uid, found.stale, len(found.containers)) == (OLD, True, 1)

    def test_one_that_the_kubelet_does_not_list_so_is_stale(self) -> None:
        scene = Scene()
        app = scene.grant("app", 5, name=NAME)

        found = scene.ask({"app": [6]}, NEW)

        assert (held(found), found.stale) == ([("app", app)], True)

    def test_one_that_left_the_record_and_still_runs_is_stale(self) -> None:
        scene = Scene()
        app = scene.grant("app", 5, uid=OLD, name=NAME, stored=False)
        scene.grant("app", 6)

        found = scene.ask({"app": [6]}, OLD)

        assert (found.uid, held(found), found.stale) == (OLD, [("app", app)], True)

    @pytest.mark.parametrize("kubelet", [{"app": [5]}, {"app": []}, None, SILENT])
    def test_one_of_another_name_is_no_such_pod(self, kubelet: Listing | Unknown | None) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OTHER, name="probe")

        with pytest.raises(NoPod, match=r"no pod telco/cnf with uid uid-other on this node"):
            scene.ask(kubelet, OTHER)

    def test_one_whose_name_is_unknown_is_the_pods_if_only_it_agrees(self) -> None:
        scene = Scene()
        app = scene.grant("app", 5)

        found = scene.ask({"app": [5]}, NEW)

        assert (found.uid, held(found), found.stale) == (NEW, [("app", app)], False)

    @pytest.mark.parametrize("kubelet", [{"app": [6]}, {"app": []}, {"tool": []}])
    def test_one_whose_name_is_unknown_and_that_does_not_agree_may_be_another_pods(self, kubelet: Listing) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OTHER)

        with pytest.raises(UnknownNow, match=r"it is not certain yet that uid-other is its uid"):
            scene.ask(kubelet, OTHER)

    def test_one_whose_name_is_unknown_may_be_another_pods_if_two_agree(self) -> None:
        scene = Scene()
        scene.grant("app", 5)
        scene.grant("app", 5, uid=OTHER)

        with pytest.raises(UnknownNow, match=r"it is not certain yet that uid-other is its uid"):
            scene.ask({"app": [5]}, OTHER)

    def test_an_absent_one_is_no_such_pod_while_another_has_the_name(self) -> None:
        scene = Scene()
        scene.grant("app", 5)

        with pytest.raises(NoPod, match=r"with uid uid-old"):
            scene.ask({"app": [5]}, OLD)

    def test_an_absent_one_cannot_be_told_while_the_record_is_behind(self) -> None:
        scene = Scene()
        scene.grant("app", 5, stored=False, owned=False)

        with pytest.raises(UnknownNow, match=r"does not show its devices yet"):
            scene.ask({"app": [5]}, NEW)

    def test_an_absent_one_of_a_pod_without_devices_holds_no_memif(self) -> None:
        with pytest.raises(NoMemif):
            Scene().ask({"app": []}, NEW)

    def test_that_is_not_said_of_a_disturbed_reading(self) -> None:
        with pytest.raises(UnknownNow, match=r"an allocation was made meanwhile"):
            Scene().ask({"app": []}, NEW, disturbed=True)

    def test_it_holds_no_memif_although_an_earlier_one_did(self) -> None:
        """Where the kubelet lists no devices, nothing tells which incarnation it speaks of."""
        scene = Scene()
        scene.grant("init", 5, uid=OLD, name=NAME)

        with pytest.raises(NoMemif):
            scene.ask({"app": []}, NEW)

    def test_one_of_a_pod_that_the_kubelet_does_not_know_is_found_by_what_is_left(self) -> None:
        scene = self.two_incarnations()

        found = scene.ask(None, OLD)

        assert (found.uid, found.stale) == (OLD, True)
        with pytest.raises(NoPod):
            scene.ask(None, OTHER)


class TestKubeletOutOfReach:
    """The ledger answers if it has exactly one uid for the name, and says that nobody confirmed it."""

    def test_exactly_one_uid_is_a_stale_answer(self) -> None:
        scene = Scene()
        init, app = scene.grant("init", 5, name=NAME), scene.grant("app", 5, name=NAME)
        scene.grant("app", 6, uid=OTHER, name="probe")

        found = scene.ask(SILENT)

        assert (found.uid, held(found), found.stale) == (NEW, [("init", init), ("app", app)], True)

    def test_several_uids_cannot_be_told(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)
        scene.grant("app", 6, name=NAME)

        with pytest.raises(
            UnknownNow, match=r"the name has 2 uids, and the kubelet cannot be asked: connection refused"
        ):
            scene.ask(SILENT)

        assert scene.ask(SILENT, OLD).uid == OLD

    def test_no_uid_is_no_proof_that_there_is_no_pod(self) -> None:
        scene = Scene()
        scene.grant("app", 5)

        with pytest.raises(UnknownNow, match=r"the kubelet cannot be asked: connection refused"):
            scene.ask(SILENT)


class TestRecordOutOfReach:
    """Without the kubelet's record the ledger must do: by name, or by ids that nobody else holds."""

    def test_a_name_that_the_ledger_knows_is_enough(self) -> None:
        scene = Scene()
        init, app = scene.grant("init", 5, name=NAME), scene.grant("app", 5, name=NAME)

        found = scene.ask({"app": [5]}, checkpoint=SILENT)

        assert (found.uid, held(found), found.stale) == (NEW, [("init", init), ("app", app)], False)

    def test_so_it_is_for_a_pod_whose_init_container_alone_holds_memif(self) -> None:
        scene = Scene()
        init = scene.grant("init", 5, name=NAME)

        assert held(scene.ask({"app": []}, checkpoint=SILENT)) == [("init", init)]

    @pytest.mark.parametrize(
        "kubelet", [{"app": [6]}, {"app": []}, {"app": [5], "side": [6]}, {"tool": [5], "app": []}]
    )
    def test_what_the_ledger_knows_must_agree_with_the_kubelet(self, kubelet: Listing) -> None:
        scene = Scene()
        scene.grant("app", 5, name=NAME)

        with pytest.raises(UnknownNow, match=r"the kubelet's checkpoint cannot be used: connection refused"):
            scene.ask(kubelet, checkpoint=SILENT)

    @pytest.mark.parametrize("uid_known", [False, True])
    def test_a_later_grant_of_the_ids_may_be_a_newer_incarnations(self, *, uid_known: bool) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)
        scene.grant("app", 5, owned=uid_known)

        with pytest.raises(UnknownNow, match=r"checkpoint cannot be used"):
            scene.ask({"app": [5]}, checkpoint=SILENT)

    def test_a_later_grant_to_a_pod_of_another_name_makes_no_difference(self) -> None:
        scene = Scene()
        app = scene.grant("app", 5, name=NAME)
        scene.grant("app", 5, uid=OTHER, name="probe")

        assert held(scene.ask({"app": [5]}, checkpoint=SILENT)) == [("app", app)]

    def test_several_uids_of_the_name_cannot_be_told(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)
        scene.grant("app", 6, name=NAME)

        with pytest.raises(UnknownNow, match=r"checkpoint cannot be used"):
            scene.ask({"app": [6]}, checkpoint=SILENT)

    def test_one_of_them_that_is_asked_for_is_not_confirmed_by_that(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)
        scene.grant("app", 5, name=NAME)

        found = scene.ask({"app": [5]}, OLD, checkpoint=SILENT)

        assert (found.uid, found.stale) == (OLD, True)

    def test_ids_that_nobody_else_holds_are_enough_for_a_pod_without_a_known_name(self) -> None:
        scene = Scene()
        scene.grant("app", 1, uid=OTHER, name="probe")
        app, side = scene.grant("app", 5, 6, owned=False), scene.grant("side", 7, owned=False)

        found = scene.ask({"side": [7], "app": [6, 5]}, checkpoint=SILENT)

        assert [each.allocation.id for each in found.containers] == [app, side]
        assert (found.uid, found.stale) == (None, False)

    def test_so_they_are_for_a_pod_that_came_back_with_others(self) -> None:
        scene = Scene()
        scene.grant("app", 1, uid=OLD, name=NAME)
        app = scene.grant("app", 5, owned=False)

        assert [each.allocation.id for each in scene.ask({"app": [5]}, checkpoint=SILENT).containers] == [app]

    def test_a_uid_that_is_known_already_is_told(self) -> None:
        scene = Scene()
        scene.grant("app", 5)
        scene.grant("side", 6, owned=False)

        assert scene.ask({"app": [5], "side": [6]}, checkpoint=SILENT).uid == NEW
        assert scene.ask({"app": [5]}, NEW, checkpoint=SILENT).uid == NEW

    @pytest.mark.parametrize("asked", [OLD, OTHER])
    def test_another_uid_than_the_one_asked_for_is_no_answer(self, asked: str) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, owned=asked == OTHER)

        with pytest.raises(UnknownNow, match=r"checkpoint cannot be used"):
            scene.ask({"app": [5]}, PodUid(asked), checkpoint=SILENT)

    @pytest.mark.parametrize(
        "kubelet",
        [
            {"app": [5]},  # a part of what an allocation has
            {"app": [5, 6, 7]},  # more than it has
            {"app": [8]},  # nobody's
            {"app": [1]},  # of a pod with another name
            {"app": [9]},  # held twice
            {"app": [4]},  # of another container
            {"app": [2], "side": [3]},  # of two uids
            {},
        ],
    )
    def test_anything_else_about_the_ids_cannot_be_told(self, kubelet: Listing) -> None:
        scene = Scene()
        scene.grant("app", 1, uid=OTHER, name="probe")
        scene.grant("app", 2, uid=OLD)
        scene.grant("side", 3, uid=NEW)
        scene.grant("side", 4, uid=NEW)
        scene.grant("app", 5, 6, owned=False)
        scene.grant("app", 9, owned=False)
        scene.grant("app", 9, owned=False)

        with pytest.raises(UnknownNow, match=r"checkpoint cannot be used"):
            scene.ask(kubelet, checkpoint=SILENT)

    def test_equal_ids_of_two_pools_are_not_confused(self) -> None:
        """A slash-free form of device ids is the same in every pool."""
        slow, fast = (a_pool(resource=pool.resource, device_id="memif-{index}") for pool in (MEMIF, FAST))
        scene = Scene()
        first, second = scene.grant("app", 5, pool=slow, owned=False), scene.grant("app", 5, pool=fast, owned=False)

        def pod(*resources: ResourceName) -> PodDevices:
            held = {resource: frozenset(device_ids(5, pool=slow)) for resource in resources}
            return PodDevices(namespace=NAMESPACE, name=NAME, containers={"app": held})

        both = scene.ask(pod(fast.resource, slow.resource), checkpoint=SILENT)
        one = scene.ask(pod(fast.resource), checkpoint=SILENT)

        assert [each.allocation.id for each in both.containers] == [first, second]
        assert [each.allocation.id for each in one.containers] == [second]

    def test_a_name_is_not_enough_for_a_device_of_another_pool(self) -> None:
        slow, fast = (a_pool(resource=pool.resource, device_id="memif-{index}") for pool in (MEMIF, FAST))
        scene = Scene()
        scene.grant("app", 5, pool=slow, name=NAME)
        both = {pool.resource: frozenset(device_ids(5, pool=slow)) for pool in (slow, fast)}

        with pytest.raises(UnknownNow, match=r"checkpoint cannot be used"):
            scene.ask(PodDevices(namespace=NAMESPACE, name=NAME, containers={"app": both}), checkpoint=SILENT)
