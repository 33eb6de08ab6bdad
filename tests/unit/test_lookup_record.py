"""Look-up where the kubelet's list and its record do not show the same, or not all, or nothing."""

import pytest

from domain.evidence import PodDevices
from domain.lookup import NoMemif, NoPod, UnknownNow
from domain.pool import Pool
from tests.unit.domain_values import an_entry, device_ids, numbered
from tests.unit.lookup_scene import FAST, MEMIF, NAME, NAMESPACE, NEW, OLD, OTHER, SILENT, Scene, held


class TestRecordBehind:
    """The kubelet lists an answer a moment before its record shows it."""

    def test_devices_that_the_record_does_not_show_cannot_be_told(self) -> None:
        scene = Scene()
        scene.grant("app", 5, stored=False, owned=False)

        with pytest.raises(UnknownNow, match=r"cannot tell now what pod telco/cnf holds: the kubelet's record"):
            scene.ask({"app": [5]})

    def test_a_record_that_shows_a_part_cannot_be_told(self) -> None:
        scene = Scene()
        scene.grant("app", 5)
        scene.grant("side", 6, stored=False, owned=False)

        with pytest.raises(UnknownNow, match=r"does not show its devices yet"):
            scene.ask({"app": [5], "side": [6]})

    def test_an_earlier_holder_of_the_ids_in_the_record_is_not_taken_for_it(self) -> None:
        """A new pod got the id of the one that the record still names, and its own entry is not written yet."""
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)
        scene.grant("app", 5, stored=False, owned=False)

        with pytest.raises(UnknownNow, match=r"does not show its devices yet"):
            scene.ask({"app": [5]})

    def test_a_stranger_with_the_ids_in_the_record_is_not_taken_for_it(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OTHER)
        scene.grant("app", 5, stored=False, owned=False)

        with pytest.raises(UnknownNow, match=r"does not show its devices yet"):
            scene.ask({"app": [5]})

    def test_nor_if_the_clock_was_set_back_in_between(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME, at=7200)
        scene.grant("app", 5, stored=False, owned=False, at=3600)

        with pytest.raises(UnknownNow, match=r"does not show its devices yet"):
            scene.ask({"app": [5]})

    @pytest.mark.parametrize("index, pool", [(6, MEMIF), (5, FAST)])
    def test_a_later_grant_of_something_else_makes_no_difference(self, index: int, pool: Pool) -> None:
        scene = Scene()
        app = scene.grant("app", 5)
        scene.grant("app", index, pool=pool, stored=False, owned=False)

        assert held(scene.ask({"app": [5]}, disturbed=True)) == [("app", app)]

    def test_an_earlier_grant_that_nobody_stored_makes_no_difference(self) -> None:
        """The kubelet died after our answer, and the pod was admitted again."""
        scene = Scene()
        scene.grant("app", 5, stored=False, owned=False)
        app = scene.grant("app", 5)

        assert held(scene.ask({"app": [5]})) == [("app", app)]

    def test_a_record_that_is_ahead_of_the_list_may_show_a_newer_incarnation(self) -> None:
        """The kubelet was asked while the new pod's second container was allocated for."""
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)
        scene.grant("app", 5)
        scene.grant("side", 6)

        with pytest.raises(UnknownNow, match=r"uid-old and uid-new may both be its uid"):
            scene.ask({"app": [5], "side": []}, disturbed=True)

    def test_a_record_that_is_ahead_of_the_list_is_good_for_the_only_one_that_agrees(self) -> None:
        scene = Scene()
        app, side = scene.grant("app", 5), scene.grant("side", 6)

        assert held(scene.ask({"app": [5], "side": []}, disturbed=True)) == [("app", app), ("side", side)]

    def test_a_later_one_that_left_the_record_makes_no_difference(self) -> None:
        """Another pod held the id for a moment; its uid was read from the record, which dropped it since."""
        scene = Scene()
        app = scene.grant("app", 5)
        scene.grant("app", 5, uid=OTHER, stored=False)

        assert held(scene.ask({"app": [5]})) == [("app", app)]


class TestOnlyInitContainers:
    """A pod whose plain init container alone holds memif: the kubelet lists its containers, without devices."""

    def test_it_is_found_once_its_sandbox_tells_its_name(self) -> None:
        scene = Scene()
        init = scene.grant("init", 19)
        scene.sandbox()

        found = scene.ask({"app": []})

        assert (found.uid, held(found), found.stale) == (NEW, [("init", init)], False)

    def test_before_that_it_cannot_be_told(self) -> None:
        scene = Scene()
        scene.grant("init", 19)

        with pytest.raises(UnknownNow, match=r"a pod whose name is not known yet holds what its init containers may"):
            scene.ask({"app": []})

    def test_a_pod_of_another_name_does_not_matter(self) -> None:
        scene = Scene()
        scene.grant("init", 19, uid=OTHER)
        scene.sandbox(OTHER, name="probe")

        with pytest.raises(NoMemif):
            scene.ask({"app": []})

    def test_a_nameless_pod_that_holds_memif_in_a_listed_container_is_another(self) -> None:
        scene = Scene()
        scene.grant("init", 19, uid=OTHER)
        scene.grant("app", 19, uid=OTHER)

        with pytest.raises(NoMemif):
            scene.ask({"app": []})

    def test_the_newer_of_two_incarnations_is_found(self) -> None:
        scene = Scene()
        scene.grant("init", 19, uid=OLD, name=NAME)
        scene.grant("init", 19, name=NAME)

        assert scene.ask({"app": []}).uid == NEW

    def test_a_later_nameless_pod_may_be_the_newer_incarnation(self) -> None:
        scene = Scene()
        scene.grant("init", 19, uid=OLD, name=NAME)
        scene.grant("init", 20)

        with pytest.raises(UnknownNow, match=r"uid-old and uid-new may both be its uid"):
            scene.ask({"app": []})

    def test_a_grant_that_the_record_does_not_show_may_be_the_newer_incarnations(self) -> None:
        scene = Scene()
        scene.grant("init", 19, uid=OLD, name=NAME)
        scene.grant("init", 20, stored=False, owned=False)

        with pytest.raises(UnknownNow, match=r"does not show its devices yet"):
            scene.ask({"app": []})


class TestNoMemif:
    def test_a_pod_without_memif_is_told_apart_from_no_pod(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OTHER)

        with pytest.raises(NoMemif) as told:
            scene.ask({"app": []})

        assert told.value.reason == "NO_MEMIF"

    def test_it_is_not_said_while_an_allocate_disturbs_the_reading(self) -> None:
        with pytest.raises(UnknownNow, match=r"an allocation was made meanwhile") as told:
            Scene().ask({"app": []}, disturbed=True)

        assert told.value.reason == "UNKNOWN_NOW"

    def test_nor_is_an_earlier_incarnation_told_instead(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)

        with pytest.raises(UnknownNow, match=r"does not show its devices yet"):
            scene.ask({"app": []}, disturbed=True)

    def test_a_resource_without_devices_is_nothing(self) -> None:
        pod = PodDevices(namespace=NAMESPACE, name=NAME, containers={"app": {MEMIF.resource: frozenset()}})

        with pytest.raises(NoMemif):
            Scene().ask(pod)

    def test_what_was_released_by_force_is_not_shown(self) -> None:
        """The record still names it, the ledger hides it."""
        scene = Scene()
        scene.entries.append(an_entry(numbered(1, devices=device_ids(5)), NEW, "app"))

        with pytest.raises(NoMemif):
            scene.ask({"app": [5]})


class TestUnknownToTheKubelet:
    """The kubelet does not know the pod: it ended, or it comes back after a kubelet start."""

    def test_what_is_left_of_it_is_a_stale_answer(self) -> None:
        scene = Scene()
        app = scene.grant("app", 5, name=NAME)

        found = scene.ask(None)

        assert (found.uid, held(found), found.stale) == (NEW, [("app", app)], True)

    def test_the_ledger_is_enough_for_it(self) -> None:
        """Its containers are running still, and the kubelet has dropped it from its record."""
        scene = Scene()
        app = scene.grant("app", 5, stored=False)
        scene.sandbox()

        assert held(scene.ask(None, checkpoint=SILENT)) == [("app", app)]

    def test_of_several_incarnations_the_newest_counts(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)
        scene.grant("app", 6, name=NAME)

        assert scene.ask(None).uid == NEW

    def test_so_it_does_although_the_clock_was_set_back_in_between(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME, at=7200)
        scene.grant("app", 6, name=NAME, at=3600)

        assert scene.ask(None).uid == NEW

    def test_a_tie_cannot_be_told(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME, at=1)
        scene.grant("app", 6, name=NAME, at=1)

        with pytest.raises(UnknownNow, match=r"uid-old and uid-new may both be its uid"):
            scene.ask(None)

    def test_without_anything_left_there_is_no_such_pod(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OTHER)
        scene.sandbox(OTHER, name="probe")

        with pytest.raises(NoPod, match=r"no pod telco/cnf on this node") as told:
            scene.ask(None)

        assert told.value.reason == "NO_POD"

    def test_a_static_pod_that_came_back_is_answered_with_what_it_mounts_now(self) -> None:
        """Its uid is its manifest's hash, so the same container of the same uid was granted twice."""
        scene = Scene()
        scene.grant("app", 5, name=NAME, stored=False)
        side = scene.grant("side", 6, name=NAME, stored=False)
        later = scene.grant("app", 5, name=NAME, stored=False)

        assert held(scene.ask(None)) == [("side", side), ("app", later)]
