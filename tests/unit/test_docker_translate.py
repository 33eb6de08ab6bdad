"""What is made of Docker's list of containers."""

import pytest

from adapters.docker import translate
from domain.evidence import ObjectKind, ObjectState, RuntimeObject
from domain.identity import PodUid
from domain.ports.runtime import RuntimeUnavailable
from tests.unit.docker_daemon import captured, container

PREFIX = "io.contivpp.memif"
HOST = "/var/run/contiv/memif/bcdfghjklmnpqrstvwxz"

BIND = {"Type": "bind", "Source": HOST, "Destination": "/run/vpp", "RW": True}


def objects(*listed: object, prefixes: tuple[str, ...] = (PREFIX,)) -> tuple[RuntimeObject, ...]:
    return translate.objects(list(listed), prefixes)


class TestRecordings:
    def test_a_pod_of_cri_dockerd_is_a_container_and_its_sandbox(self) -> None:
        app, sandbox = translate.objects(captured("docker-containers-json.json"), (PREFIX,))

        uid, directory = "7840b51d898d27c456e56dab9e2d30f8", "/var/run/contiv/memif/a5095f5795ecce5e9f0a"
        assert app == RuntimeObject(
            id="34b0415a972d57a90a062c84829a0ac0ddb20068a0b0f99b2b642137d81cfeb2",
            kind=ObjectKind.CONTAINER,
            state=ObjectState.RUNNING,
            uid=PodUid(uid),
            namespace="default",
            name="p3-node1",
            container="a",
            mounts={
                "/dev/termination-log": f"/var/lib/kubelet/pods/{uid}/containers/a/7ea1ff9b",
                "/etc/hosts": f"/var/lib/kubelet/pods/{uid}/etc-hosts",
                "/run/vpp": directory,
            },
            claimed={
                f"{PREFIX}.secret": "a5095f5795ecce5e9f0a",
                f"{PREFIX}.socket.container": "/run/vpp/memif.sock",
                f"{PREFIX}.socket.host": f"{directory}/memif.sock",
            },
        )
        assert sandbox == RuntimeObject(
            id="e4772054d7bff1d57564e0f13d4ca90cac1312d8e9f3e09555edbb1ad65dc569",
            kind=ObjectKind.SANDBOX,
            state=ObjectState.RUNNING,
            uid=PodUid(uid),
            namespace="default",
            name="p3-node1",
        )

    def test_what_tenants_wrote_is_given_on_unjudged_and_never_as_a_mount(self) -> None:
        """One label of the image is spelt like an annotation; the plain one beside it means nothing at all."""
        app, sandbox = translate.objects(captured("docker-hostile.json"), (PREFIX,))

        assert app.claimed == {f"{PREFIX}.socket.host": "/etc/victim/memif.sock"}
        assert sandbox.claimed == {
            f"{PREFIX}.secret": "chosen-by-tenant",
            f"{PREFIX}.socket.host": "/var/lib/kubelet/device-plugins/kubelet.sock",
        }
        assert set(app.mounts) == {"/dev/termination-log", "/etc/hosts"}
        assert not sandbox.mounts


class TestStates:
    @pytest.mark.parametrize("state", ["created", "running", "paused", "restarting", "exited"])
    def test_a_state_that_both_have_is_the_same(self, state: str) -> None:
        (thing,) = objects(container(state=state))

        assert thing.state is ObjectState(state)

    @pytest.mark.parametrize("state", ["dead", "removing"])
    def test_what_is_dead_or_being_removed_does_not_exist(self, state: str) -> None:
        alive = container(1)

        assert [thing.id for thing in objects(container(2, state=state), alive)] == [alive["Id"]]

    @pytest.mark.parametrize("state", ["stopping", "", "RUNNING"])
    def test_a_state_that_nobody_knows_exists(self, state: str) -> None:
        (thing,) = objects(container(state=state))

        assert thing.state is ObjectState.UNKNOWN


class TestPods:
    def test_the_kubelets_labels_say_whose_it_is(self) -> None:
        (thing,) = objects(container(uid="u", namespace="ns", name="pod", inside="app"))

        assert (thing.uid, thing.namespace, thing.name, thing.container) == ("u", "ns", "pod", "app")

    def test_one_name_in_two_namespaces_is_two_pods(self) -> None:
        found = objects(container(1, uid="u1", namespace="red"), container(2, uid="u2", namespace="blue"))

        assert [(thing.uid, thing.namespace) for thing in found] == [("u1", "red"), ("u2", "blue")]

    def test_a_pod_made_again_under_its_name_is_another_one(self) -> None:
        found = objects(container(1, uid="new"), container(2, uid="old", state="exited"))

        assert [(thing.uid, thing.name) for thing in found] == [("new", "cnf"), ("old", "cnf")]

    def test_a_sandbox_is_known_by_its_type(self) -> None:
        (thing,) = objects(container(labels={"io.kubernetes.docker.type": "podsandbox"}))

        assert (thing.kind, thing.container) == (ObjectKind.SANDBOX, None)

    def test_a_sandbox_is_known_by_its_name_where_the_type_is_missing(self) -> None:
        (thing,) = objects(container(inside="POD", labels={"io.kubernetes.docker.type": ""}))

        assert (thing.kind, thing.container) == (ObjectKind.SANDBOX, None)

    @pytest.mark.parametrize("labels", [{}, None])
    def test_a_container_of_nobodys_is_a_container_without_a_pod(self, labels: object) -> None:
        (thing,) = objects({**container(), "Labels": labels})

        assert thing.kind is ObjectKind.CONTAINER
        assert (thing.uid, thing.namespace, thing.name, thing.container) == (None, None, None, None)

    def test_an_empty_label_is_none(self) -> None:
        (thing,) = objects(container(uid="", namespace="", name="", inside=""))

        assert (thing.uid, thing.namespace, thing.name, thing.container) == (None, None, None, None)


class TestMounts:
    def test_a_container_without_a_pod_still_shows_what_it_mounts(self) -> None:
        (thing,) = objects({**container(mounts=[BIND]), "Labels": {}})

        assert thing.mounts == {"/run/vpp": HOST}

    @pytest.mark.parametrize("kind", ["volume", "tmpfs", "npipe", "cluster", "image"])
    def test_other_kinds_of_mounts_are_dockers_own(self, kind: str) -> None:
        (thing,) = objects(container(mounts=[{"Type": kind, "Name": "v", "Destination": "/data"}, BIND]))

        assert thing.mounts == {"/run/vpp": HOST}

    def test_a_mount_of_no_kind_is_shown_rather_than_overlooked(self) -> None:
        """Docker leaves out what is empty, and containers of its first years have no kind."""
        (thing,) = objects(container(mounts=[{key: text for key, text in BIND.items() if key != "Type"}]))

        assert thing.mounts == {"/run/vpp": HOST}

    @pytest.mark.parametrize("mounts", [[], None])
    def test_no_mounts_are_none(self, mounts: object) -> None:
        (thing,) = objects({**container(), "Mounts": mounts})

        assert thing.mounts == {}


class TestClaims:
    def test_each_pools_annotations_are_claims(self) -> None:
        labels = {f"annotation.{PREFIX}.secret": "one", "annotation.com.example.secret": "two"}
        (thing,) = objects(container(labels=labels), prefixes=(PREFIX, "com.example"))

        assert thing.claimed == {f"{PREFIX}.secret": "one", "com.example.secret": "two"}

    @pytest.mark.parametrize(
        "key",
        [
            f"{PREFIX}.secret",
            f"annotation.{PREFIX}",
            f"annotation.{PREFIX}2.secret",
            f"annotation.annotation.{PREFIX}.secret",
            f"Annotation.{PREFIX}.secret",
            "annotation.io.kubernetes.container.hash",
            "annotation.",
        ],
    )
    def test_any_other_label_is_none(self, key: str) -> None:
        (thing,) = objects(container(labels={key: "x"}))

        assert thing.claimed == {}

    def test_without_pools_nothing_is_claimed(self) -> None:
        (thing,) = objects(container(labels={f"annotation.{PREFIX}.secret": "one"}), prefixes=())

        assert thing.claimed == {}

    def test_half_a_character_is_replaced(self) -> None:
        """JSON can spell one, and neither a journal nor a message can hold it."""
        (thing,) = objects(
            container(labels={f"annotation.{PREFIX}.secret": "é\ud800", f"annotation.{PREFIX}.\udfff": "x"})
        )

        assert thing.claimed == {f"{PREFIX}.secret": "é?", f"{PREFIX}.?": "x"}


def _without(key: str) -> dict[str, object]:
    return {name: value for name, value in container().items() if name != key}


class TestOddAnswers:
    """Docker gives none of these, so whoever does is not understood: nothing may be concluded from part of a list."""

    @pytest.mark.parametrize("answer", [None, {}, {"message": "s3cret"}, "s3cret", 7, [None], [[]], ["s3cret"]])
    def test_what_is_no_list_of_containers_is_an_error(self, answer: object) -> None:
        with pytest.raises(RuntimeUnavailable, match="is not understood") as caught:
            translate.objects(answer, (PREFIX,))

        assert "s3cret" not in str(caught.value)

    @pytest.mark.parametrize(
        "odd",
        [
            _without("Id"),
            {**container(), "Id": ""},
            {**container(), "Id": 7},
            _without("State"),
            {**container(), "State": {"Status": "running"}},
            {**container(), "Labels": ["s3cret"]},
            container(labels={f"annotation.{PREFIX}.secret": ["s3cret"]}),
            container(labels={"io.kubernetes.pod.uid": None}),
            {**container(), "Mounts": {"s3cret": 1}},
            {**container(), "Mounts": ["s3cret"]},
            container(mounts=[{"Type": "bind", "Source": HOST}]),
            container(mounts=[{"Type": "bind", "Destination": "/run/vpp"}]),
            container(mounts=[{"Type": "bind", "Source": 7, "Destination": "/run/vpp"}]),
        ],
    )
    def test_one_odd_container_makes_the_whole_list_an_error(self, odd: dict[str, object]) -> None:
        with pytest.raises(RuntimeUnavailable, match="is not understood") as caught:
            objects(container(1), odd)

        assert "s3cret" not in str(caught.value)

    @pytest.mark.parametrize("answer", [None, [], {}, {"Version": 7}, {"Version": ""}])
    def test_a_daemon_without_a_version_is_not_understood(self, answer: object) -> None:
        with pytest.raises(RuntimeUnavailable, match="is not understood"):
            translate.version(answer)


def test_no_claim_shows_in_a_printed_object() -> None:
    (thing,) = objects(container(labels={f"annotation.{PREFIX}.secret": "s3cret"}))

    assert "s3cret" not in repr(thing)
