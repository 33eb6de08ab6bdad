"""Look-up while the kubelet and its record can be read and agree: the pod's newest incarnation, or "cannot tell"."""

import pytest

from domain.evidence import PodDevices, RuntimeObject
from domain.identity import PodUid
from domain.lookup import NoMemif, UnknownNow
from domain.resource import ResourceName
from tests.unit.domain_values import an_entry, an_object, device_ids, numbered
from tests.unit.lookup_scene import FAST, MEMIF, NAME, NAMESPACE, NEW, OLD, OTHER, SILENT, Scene, devices, held


class TestFirstCall:
    """Before any container runs: the kubelet has stored the answers, and nothing of the pod is in the runtime."""

    def test_every_container_of_a_pod_without_a_sandbox_is_found(self) -> None:
        scene = Scene()
        app, side = scene.grant("app", 63, 95), scene.grant("side", 34)

        found = scene.ask({"app": [95, 63], "side": [34]})

        assert held(found) == [("app", app), ("side", side)]
        assert (found.namespace, found.name, found.uid, found.stale) == (NAMESPACE, NAME, NEW, False)
        assert devices(found) == [device_ids(63, 95), device_ids(34)]
        assert not any(each.bound for each in found.containers)

    def test_a_plain_init_container_that_the_kubelet_does_not_list_is_found(self) -> None:
        """Its devices appear in the kubelet's record only, and go to a sidecar and an app container as well."""
        scene = Scene()
        init = scene.grant("init", 19)
        sidecar = scene.grant("sidecar", 19)
        app = scene.grant("app", 63, 95)
        tool = scene.grant("tool", 34)

        found = scene.ask({"sidecar": [19], "app": [63, 95], "tool": [34], "quiet": []})

        assert held(found) == [("init", init), ("sidecar", sidecar), ("app", app), ("tool", tool)]
        assert not found.stale

    def test_the_order_is_that_of_the_grants_whatever_the_order_in_the_record(self) -> None:
        scene = Scene()
        granted = [scene.grant(name, index) for index, name in enumerate(("init", "side", "app"))]
        scene.entries.reverse()

        found = scene.ask({"side": [1], "app": [2]})

        assert [each.allocation.id for each in found.containers] == granted

    def test_grants_of_others_in_between_do_not_disturb_the_order(self) -> None:
        scene = Scene()
        scene.grant("app", 0, uid=OTHER)
        init = scene.grant("init", 1)
        for index in range(2, 8):
            scene.grant(f"tool-{index}", index, uid=OTHER)
        app = scene.grant("app", 8)

        assert held(scene.ask({"app": [8]})) == [("init", init), ("app", app)]

    def test_it_is_found_although_its_owner_is_not_written_down_yet(self) -> None:
        scene = Scene()
        app = scene.grant("app", 5, owned=False)

        assert held(scene.ask({"app": [5]})) == [(None, app)]

    def test_it_needs_no_runtime(self) -> None:
        scene = Scene()
        app = scene.grant("app", 5)

        assert held(scene.ask({"app": [5]}, runtime=SILENT)) == [("app", app)]

    def test_it_is_bound_once_everything_of_its_owner_is_known(self) -> None:
        scene = Scene()
        scene.grant("app", 5, name=NAME)

        (container,) = scene.ask({"app": [5]}).containers

        assert container.bound

    def test_other_pods_take_nothing_away_and_add_nothing(self) -> None:
        scene = Scene()
        scene.grant("app", 1, uid=OTHER)
        app = scene.grant("app", 2)
        scene.grant("app", 3, uid=OLD, name="probe")

        assert held(scene.ask({"app": [2]})) == [("app", app)]

    def test_a_container_without_an_answer_yet_keeps_the_others_from_nothing(self) -> None:
        """While a later container's Allocate is in flight the kubelet lists it without devices."""
        scene = Scene()
        app = scene.grant("app", 5)
        scene.grant("side", 6, stored=False, owned=False)

        assert held(scene.ask({"app": [5], "side": []}, disturbed=True)) == [("app", app)]


class TestResources:
    """Only what our pools gave counts."""

    GPU = ResourceName("nvidia.com/gpu")

    def test_devices_of_other_plugins_are_no_part_of_the_question(self) -> None:
        scene = Scene()
        gpus = numbered(90, devices=("gpu-1",))
        scene.entries.append(an_entry(gpus, NEW, "app", resource=self.GPU))
        app = scene.grant("app", 5)
        pod = PodDevices(
            namespace=NAMESPACE,
            name=NAME,
            containers={
                "trainer": {self.GPU: frozenset(gpus.devices)},
                "app": {self.GPU: frozenset(gpus.devices), MEMIF.resource: frozenset(device_ids(5))},
            },
        )

        assert held(scene.ask(pod)) == [("app", app)]

    def test_a_pod_with_nothing_but_other_plugins_devices_holds_no_memif(self) -> None:
        scene = Scene()
        scene.entries.append(an_entry(numbered(90), NEW, "app", resource=self.GPU))
        pod = PodDevices(namespace=NAMESPACE, name=NAME, containers={"app": {self.GPU: frozenset(device_ids(90))}})

        with pytest.raises(NoMemif, match=r"pod telco/cnf holds no memif"):
            scene.ask(pod)

    def test_two_pools_of_one_container_are_two_entries(self) -> None:
        scene = Scene()
        slow, fast = scene.grant("app", 1), scene.grant("app", 1, pool=FAST)
        pod = PodDevices(
            namespace=NAMESPACE,
            name=NAME,
            containers={"app": {pool.resource: frozenset(device_ids(1, pool=pool)) for pool in (MEMIF, FAST)}},
        )

        assert held(scene.ask(pod)) == [("app", slow), ("app", fast)]


class TestIncarnations:
    """One uid an answer: the newest that agrees with what the kubelet lists."""

    def test_of_two_incarnations_with_equal_ids_and_containers_the_later_granted_counts(self) -> None:
        """The record of the earlier one may still be there when the name comes back."""
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)
        app = scene.grant("app", 5, name=NAME)

        found = scene.ask({"app": [5]})

        assert (found.uid, held(found), found.stale) == (NEW, [("app", app)], False)

    def test_the_later_granted_counts_wherever_it_stands_in_the_record(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)
        scene.grant("app", 5, uid=NEW, name=NAME)
        scene.entries.reverse()

        assert scene.ask({"app": [5]}).uid == NEW

    def test_the_later_granted_counts_although_the_clock_was_set_back_in_between(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME, at=7200)
        app = scene.grant("app", 5, uid=NEW, name=NAME, at=3600)

        found = scene.ask({"app": [5]})

        assert (found.uid, held(found), found.stale) == (NEW, [("app", app)], False)

    def test_an_incarnation_with_other_ids_is_not_the_one(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)
        app = scene.grant("app", 6)

        assert held(scene.ask({"app": [6]})) == [("app", app)]

    def test_an_incarnation_with_other_containers_is_not_the_one(self) -> None:
        scene = Scene()
        app = scene.grant("app", 5, name=NAME)
        scene.grant("side", 5, uid=OLD, name=NAME)

        assert held(scene.ask({"app": [5]})) == [("app", app)]

    def test_one_that_holds_more_in_a_listed_container_is_not_the_one(self) -> None:
        """A listed container that holds nothing now is not the one for which the record has devices."""
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)
        scene.grant("side", 6, uid=OLD, name=NAME)
        app = scene.grant("app", 5)

        assert held(scene.ask({"app": [5], "side": []})) == [("app", app)]

    def test_a_recreated_pod_without_memif_does_not_inherit(self) -> None:
        """Without an Allocate nothing makes the kubelet drop the record of the earlier pod."""
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME)

        with pytest.raises(NoMemif):
            scene.ask({"app": []})

    def test_equal_times_are_a_tie(self) -> None:
        """After a lost journal everything was adopted in one moment."""
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME, at=1)
        scene.grant("app", 5, name=NAME, at=1)

        with pytest.raises(UnknownNow, match=r"uid-old and uid-new may both be its uid"):
            scene.ask({"app": [5]})

    def test_equal_times_are_a_tie_although_something_was_granted_in_between(self) -> None:
        """A reconcile adopts one after the other, and an Allocate may come in between: that one is the newest."""
        scene = Scene()
        scene.grant("app", 5, uid=OLD, name=NAME, at=1)
        app = scene.grant("app", 5, uid=NEW, name=NAME, at=2)
        scene.grant("app", 5, uid=PodUid("uid-oldest"), name=NAME, at=1)

        assert held(scene.ask({"app": [5]})) == [("app", app)]

    def test_one_with_nothing_left_in_the_ledger_does_not_count_as_newer(self) -> None:
        scene = Scene()
        app = scene.grant("app", 5, name=NAME)
        scene.sandbox(OLD)
        scene.entries.append(an_entry(numbered(77, devices=device_ids(5)), OLD, "app"))

        assert held(scene.ask({"app": [5]})) == [("app", app)]


class TestAnothersId:
    """The kubelet gives one id to two pods, in a race or after a forced deletion: the socket goes to none of them
    but its own."""

    @staticmethod
    def double(*, name: str | None = None) -> Scene:
        """Two pods of one template hold id 5; the other one was admitted later."""
        scene = Scene()
        scene.grant("app", 5, name=name)
        scene.grant("app", 5, uid=OTHER)
        return scene

    def test_another_pod_of_a_known_name_is_out_of_the_question(self) -> None:
        scene = self.double()
        scene.sandbox(OTHER, name="probe")

        assert scene.ask({"app": [5]}).uid == NEW

    def test_the_same_name_in_another_namespace_is_another_pod(self) -> None:
        scene = self.double()
        scene.sandbox(OTHER, namespace="lab")

        assert scene.ask({"app": [5]}).uid == NEW

    def test_while_the_others_name_is_unknown_nothing_is_certain(self) -> None:
        scene = self.double()

        with pytest.raises(UnknownNow, match=r"uid-new and uid-other may both be its uid"):
            scene.ask({"app": [5]})

    def test_a_later_pod_without_a_name_may_be_a_newer_incarnation(self) -> None:
        scene = self.double(name=NAME)

        with pytest.raises(UnknownNow, match=r"uid-new and uid-other may both be its uid"):
            scene.ask({"app": [5]})

    def test_an_earlier_pod_without_a_name_is_no_newer_incarnation(self) -> None:
        scene = Scene()
        scene.grant("app", 5, uid=OTHER)
        scene.grant("app", 5)
        scene.sandbox(NEW)

        assert scene.ask({"app": [5]}).uid == NEW

    def test_both_are_answered_once_both_have_sandboxes(self) -> None:
        scene = self.double()
        scene.sandbox(NEW)
        scene.sandbox(OTHER, name="probe")

        assert scene.ask({"app": [5]}).uid == NEW

    def test_different_containers_tell_them_apart_at_once(self) -> None:
        scene = Scene()
        app = scene.grant("app", 5)
        scene.grant("tool", 5, uid=OTHER)

        assert held(scene.ask({"app": [5]})) == [("app", app)]


class TestNames:
    @pytest.mark.parametrize(
        "shown",
        [
            an_object(uid=None, name="probe"),
            an_object(uid=NEW, name="probe", namespace=None),
            an_object(uid=NEW, namespace="lab", name=None),
        ],
    )
    def test_an_object_that_shows_only_a_part_names_nobody(self, shown: RuntimeObject) -> None:
        """cri-dockerd shows old sandboxes without a uid."""
        scene = Scene(objects=[shown])
        app = scene.grant("app", 5)

        assert held(scene.ask({"app": [5]})) == [("app", app)]

    def test_a_name_that_the_ledger_knows_stays(self) -> None:
        scene = Scene()
        app = scene.grant("app", 5, name=NAME)
        scene.sandbox(NEW, name="probe")

        assert held(scene.ask({"app": [5]})) == [("app", app)]
