"""Records of containerd become values, whatever somebody wrote into them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.containerd.api import load
from adapters.containerd.records import STATES, Records
from domain.evidence import ObjectKind, ObjectState, RuntimeObject
from tests.unit.containerd_server import (
    CONTAINER_TYPE,
    PREFIX,
    SANDBOX_TYPE,
    claims,
    container,
    directory,
    labels,
    metadata,
    record,
    sandbox,
    specification,
)

BIND = {"destination": "/run/vpp", "type": "bind", "source": directory(1), "options": ["rbind", "rw"]}


def read(made: Any) -> RuntimeObject:
    """Return what we make of a record that has come over the wire, of which we see no task."""
    ours = load().list_stream.answer().container
    ours.ParseFromString(made.SerializeToString())
    reading = Records((PREFIX, "com.example.fast")).reading()
    reading.add(ours)
    (thing,) = reading.objects({}, frozenset())
    return thing


def of_config(config: object, *, spec: bytes = b"{}") -> RuntimeObject:
    """Return what we make of a container for which the CRI plugin was asked for something."""
    return read(record("c", extension=(CONTAINER_TYPE, metadata(config)), spec=spec))


class TestWhoseItIs:
    def test_a_container_belongs_to_whom_the_kubelets_labels_say(self) -> None:
        thing = read(container("cnf", "dataplane"))

        assert (thing.kind, thing.container) == (ObjectKind.CONTAINER, "dataplane")
        assert (thing.uid, thing.namespace, thing.name) == ("uid-of-cnf", "telco", "cnf")

    def test_a_sandbox_belongs_to_whom_they_say_and_has_no_container_and_mounts_nothing(self) -> None:
        thing = read(sandbox("cnf"))

        assert (thing.kind, thing.container, thing.mounts) == (ObjectKind.SANDBOX, None, {})
        assert (thing.uid, thing.namespace, thing.name) == ("uid-of-cnf", "telco", "cnf")

    def test_a_label_of_the_pod_makes_no_container_of_its_sandbox(self) -> None:
        """A pod's own labels are the sandbox's, and this name is not the kubelet's there."""
        config = {"labels": {**labels("cnf"), "io.kubernetes.container.name": "dataplane"}}

        thing = read(record("s", extension=(SANDBOX_TYPE, metadata(config))))

        assert (thing.kind, thing.container) == (ObjectKind.SANDBOX, None)

    def test_labels_of_the_record_are_nothing(self) -> None:
        """containerd merges the image's labels into them, and those are its author's to choose."""
        image = {
            **labels("victim"),
            "io.kubernetes.container.name": "a",
            **claims(1),
            "io.cri-containerd.kind": "sandbox",
        }

        for made in (
            record("c", own_labels=image),
            record("c", own_labels=image, extension=(CONTAINER_TYPE, metadata({"labels": {}}))),
        ):
            thing = read(made)
            assert (thing.kind, thing.claimed) == (ObjectKind.CONTAINER, {})
            assert (thing.uid, thing.namespace, thing.name, thing.container) == (None, None, None, None)

    def test_metadata_and_annotations_say_nothing_of_whose_it_is(self) -> None:
        thing = of_config({"metadata": {"name": "a", "uid": "uid-1"}, "annotations": labels("cnf")})

        assert (thing.uid, thing.namespace, thing.name, thing.container) == (None, None, None, None)

    def test_empty_labels_are_as_good_as_none(self) -> None:
        thing = of_config({"labels": dict.fromkeys([*labels("x"), "io.kubernetes.container.name"], "")})

        assert (thing.uid, thing.namespace, thing.name, thing.container) == (None, None, None, None)

    def test_the_extension_is_known_by_its_type_under_whatever_name(self) -> None:
        made = record("c")
        made.extensions["something.else"].type_url = "example.com/unknown"
        slot = made.extensions["io.containerd.renamed"]
        slot.type_url, slot.value = CONTAINER_TYPE, metadata({"labels": labels("cnf")})

        assert read(made).uid == "uid-of-cnf"


class TestWhatItCarries:
    def test_annotations_of_the_pools_are_given_on_unjudged_and_others_are_not(self) -> None:
        hostile = {
            f"{PREFIX}.socket.host": "../../etc\n\u202e",
            f"{PREFIX}.x": "",
            "com.example.fast.secret": "s" * 100_000,
        }
        others = {PREFIX: "not below it", f"{PREFIX}elsewhere.secret": "another's", "example.com/mine": "x"}

        assert of_config({"annotations": {**hostile, **others}}).claimed == hostile

    def test_those_of_a_sandbox_too(self) -> None:
        """They are the tenant's, and shown to be counted."""
        thing = read(sandbox("cnf", annotations={**claims(1), "example.com/mine": "x"}))

        assert thing.claimed == claims(1)

    def test_half_of_a_character_becomes_one_that_can_be_stored(self) -> None:
        spelt = b'{"Metadata": {"Config": {"annotations": {"io.contivpp.memif.x": "\\ud800"}}}}'

        thing = read(record("c", extension=(CONTAINER_TYPE, spelt)))

        assert thing.claimed == {f"{PREFIX}.x": "?"}


class TestWhatItMounts:
    def test_what_the_kubelet_asked_for_is_mounted(self) -> None:
        thing = read(container("cnf", number=1))

        assert thing.mounts == {
            "/run/vpp": directory(1),
            "/etc/hosts": "/var/lib/kubelet/pods/uid-of-cnf/etc-hosts",
        }

    def test_an_image_that_is_mounted_is_not_the_hosts(self) -> None:
        mounts = [
            {"container_path": "/data", "image": {"image": "x"}},
            {"container_path": "/run/vpp", "host_path": directory(1)},
        ]

        assert of_config({"mounts": mounts}).mounts == {"/run/vpp": directory(1)}

    def test_of_two_on_one_path_the_later_one_hides_the_other(self) -> None:
        mounts = [{"container_path": "/run/vpp", "host_path": path} for path in (directory(1), "/tenants/own")]

        assert of_config({"mounts": mounts}).mounts == {"/run/vpp": "/tenants/own"}

    @pytest.mark.parametrize(
        "extension",
        [
            None,
            (CONTAINER_TYPE, b""),
            (CONTAINER_TYPE, b"\xff\xfe garbage"),
            (CONTAINER_TYPE, b"[" * 100_000),
            (CONTAINER_TYPE, b'{"Metadata": null}'),
            (CONTAINER_TYPE, b'{"Metadata": {"Config": [1, 2]}}'),
            (CONTAINER_TYPE, b'{"Version": "v2", "Data": {"Settings": {}}}'),
            (CONTAINER_TYPE, metadata({"mounts": None, "labels": 7, "annotations": "x"})),
            (CONTAINER_TYPE, metadata({"mounts": [None, 3, {"container_path": 1, "host_path": {}}]})),
            ("example.com/unknown", metadata({"labels": labels("cnf"), "mounts": []})),
        ],
    )
    def test_without_an_extension_that_is_understood_it_mounts_what_its_specification_says(
        self, extension: tuple[str, bytes] | None
    ) -> None:
        """Somebody else's container, made with ctr or nerdctl, can hold a directory of ours as well as a pod's."""
        thing = read(record("c", extension=extension, spec=specification([BIND])))

        assert thing.mounts == {"/run/vpp": directory(1)}
        assert (thing.kind, thing.uid, thing.claimed) == (ObjectKind.CONTAINER, None, {})

    @pytest.mark.parametrize(
        "mount, mounted",
        [
            (BIND, True),
            ({**BIND, "options": None}, True),
            ({**BIND, "type": "none", "options": ["bind"]}, True),
            ({key: BIND[key] for key in ("destination", "source", "options")}, True),
            ({**BIND, "type": "tmpfs", "options": ["nosuid"]}, False),
            ({**BIND, "source": ""}, False),
            ({**BIND, "source": 7}, False),
            ("garbage", False),
        ],
    )
    def test_only_what_a_specification_binds_is_the_hosts(self, mount: object, mounted: bool) -> None:  # noqa: FBT001 -- an example
        thing = read(
            record("c", spec=specification([{"destination": "/proc", "type": "proc", "source": "proc"}, mount]))
        )

        assert thing.mounts == ({"/run/vpp": directory(1)} if mounted else {})

    @pytest.mark.parametrize("spec", [b"", b"\x00\x01", b"null", b'{"mounts": {}}', b"[" * 100_000])
    def test_a_specification_that_is_not_understood_mounts_nothing_and_the_container_exists(self, spec: bytes) -> None:
        thing = read(record("c", spec=spec))

        assert (thing.id, thing.mounts) == ("c", {})

    def test_a_broken_sandbox_is_still_none_of_the_containers(self) -> None:
        thing = read(record("s", extension=(SANDBOX_TYPE, b"{"), spec=specification([BIND])))

        assert (thing.kind, thing.uid, thing.mounts) == (ObjectKind.SANDBOX, None, {})


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("io.contivpp.memif.x"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "Metadata",
                    "Config",
                    "labels",
                    "annotations",
                    "mounts",
                    "container_path",
                    "host_path",
                    "destination",
                    "type",
                    "source",
                    "options",
                    "io.kubernetes.pod.uid",
                    f"{PREFIX}.secret",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    kind=st.sampled_from([CONTAINER_TYPE, SANDBOX_TYPE]),
    extension=st.binary(max_size=40) | values.map(lambda value: json.dumps({"Metadata": {"Config": value}}).encode()),
    spec=st.binary(max_size=40) | values.map(lambda value: json.dumps({"mounts": value}).encode()),
)
def test_no_record_makes_a_reading_fail(kind: str, extension: bytes, spec: bytes) -> None:
    thing = read(record("c", extension=(kind, extension), spec=spec))

    assert thing.id == "c"
    texts = (thing.uid or "", *thing.mounts, *thing.mounts.values(), *thing.claimed, *thing.claimed.values())
    assert all(text.encode() is not None for text in texts)


class TestStates:
    def test_every_status_of_a_task_is_known(self) -> None:
        status = load().list_tasks.answer().tasks.add().DESCRIPTOR.fields_by_name["status"].enum_type

        assert {value.name: STATES[value.number] for value in status.values} == {
            "UNKNOWN": ObjectState.UNKNOWN,
            "CREATED": ObjectState.CREATED,
            "RUNNING": ObjectState.RUNNING,
            "STOPPED": ObjectState.EXITED,
            "PAUSED": ObjectState.PAUSED,
            "PAUSING": ObjectState.PAUSED,
        }

    @pytest.mark.parametrize(
        "tasks, waiting, state",
        [
            ({"c": 2}, frozenset[str](), ObjectState.RUNNING),
            ({"c": 2}, frozenset({"c"}), ObjectState.RUNNING),
            ({"c": 77}, frozenset[str](), ObjectState.UNKNOWN),
            ({}, frozenset({"c"}), ObjectState.CREATED),
            ({}, frozenset({"other"}), ObjectState.EXITED),
            ({}, frozenset[str](), ObjectState.EXITED),
        ],
    )
    def test_without_a_task_it_has_ended_unless_it_is_known_to_wait(
        self, tasks: dict[str, int], waiting: frozenset[str], state: ObjectState
    ) -> None:
        reading = Records((PREFIX,)).reading()
        reading.add(record("c"))

        (thing,) = reading.objects(tasks, waiting)

        assert thing.state is state


class TestMemory:
    def test_a_record_is_translated_once_until_it_changes(self) -> None:
        records, made = Records((PREFIX,)), container("cnf", number=1)

        def look() -> RuntimeObject:
            reading = records.reading()
            reading.add(made)
            (thing,) = reading.objects({made.id: 2}, frozenset())
            records.remember(reading)
            return thing

        first, second = look(), look()
        made.updated_at.nanos += 1
        made.extensions["io.cri-containerd.container.metadata"].value = metadata({"labels": labels("another")})
        third = look()

        assert second is first
        assert (first.name, third.name) == ("cnf", "another")

    def test_a_remembered_object_has_the_state_of_now(self) -> None:
        records, made, states = Records((PREFIX,)), container("cnf"), []
        for status in (1, 2, 4, 2, 3):
            reading = records.reading()
            reading.add(made)
            states += [thing.state for thing in reading.objects({made.id: status}, frozenset())]
            records.remember(reading)

        assert states == [STATES[status] for status in (1, 2, 4, 2, 3)]

    def test_what_is_gone_is_forgotten(self) -> None:
        """Or a daemon that runs for years would remember every container that it ever saw."""
        records, one, other = Records((PREFIX,)), container("one"), container("other")
        for shown in ((one, other), (other,), ()):
            reading = records.reading()
            for each in shown:
                reading.add(each)
            records.remember(reading)
            assert {key[0] for key in records._known} == {each.id for each in shown}
