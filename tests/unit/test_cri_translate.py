"""Messages of the CRI become values of the domain."""

import pytest

from adapters._pb.cri.runtime.v1 import api_pb2 as cri
from adapters.cri import translate
from domain.evidence import ObjectKind, ObjectState

PREFIXES = ("io.contivpp.memif.", "com.example.fast.")
LABELS = {
    "io.kubernetes.pod.name": "cnf",
    "io.kubernetes.pod.namespace": "telco",
    "io.kubernetes.pod.uid": "uid-1",
    "io.kubernetes.container.name": "dataplane",
}


@pytest.mark.parametrize("value", cri.ContainerState.values())
def test_every_state_of_a_container_is_known(value: cri.ContainerState.ValueType) -> None:
    name = cri.ContainerState.Name(value).removeprefix("CONTAINER_")

    state = translate.container(cri.Container(state=value), PREFIXES).state

    assert state is ObjectState[name]


@pytest.mark.parametrize(
    "value, state", [(cri.SANDBOX_READY, ObjectState.RUNNING), (cri.SANDBOX_NOTREADY, ObjectState.EXITED)]
)
def test_every_state_of_a_sandbox_is_known(value: cri.PodSandboxState.ValueType, state: ObjectState) -> None:
    assert translate.sandbox(cri.PodSandbox(state=value), PREFIXES).state is state
    assert set(translate.SANDBOX_STATES) == set(cri.PodSandboxState.values())


def test_a_state_of_a_later_cri_is_unknown_and_the_thing_exists() -> None:
    later = 77

    sandbox = cri.PodSandbox.FromString(bytes([3 << 3, later]))
    container = cri.Container.FromString(bytes([6 << 3, later]))

    assert translate.sandbox(sandbox, PREFIXES).state is ObjectState.UNKNOWN
    assert translate.container(container, PREFIXES).state is ObjectState.UNKNOWN


def test_a_container_belongs_to_whom_the_kubelets_labels_say() -> None:
    thing = translate.container(cri.Container(id="c", labels=LABELS), PREFIXES)

    assert (thing.id, thing.kind, thing.container) == ("c", ObjectKind.CONTAINER, "dataplane")
    assert (thing.uid, thing.namespace, thing.name) == ("uid-1", "telco", "cnf")
    assert (thing.claimed, thing.mounts) == ({}, {})


def test_a_sandbox_belongs_to_whom_the_kubelets_labels_say_and_has_no_container() -> None:
    thing = translate.sandbox(cri.PodSandbox(id="s", labels=LABELS), PREFIXES)

    assert (thing.id, thing.kind, thing.container) == ("s", ObjectKind.SANDBOX, None)
    assert (thing.uid, thing.namespace, thing.name) == ("uid-1", "telco", "cnf")
    assert thing.mounts == {}


def test_metadata_and_annotations_say_nothing_of_whose_a_thing_is() -> None:
    """cri-dockerd shows old sandboxes with a name and without a uid; and annotations are the tenant's."""
    metadata = cri.PodSandboxMetadata(name="cnf", namespace="telco", uid="uid-1")

    sandbox = translate.sandbox(cri.PodSandbox(metadata=metadata, annotations=LABELS), PREFIXES)
    container = translate.container(
        cri.Container(metadata=cri.ContainerMetadata(name="dataplane"), annotations=LABELS), PREFIXES
    )

    for thing in (sandbox, container):
        assert (thing.uid, thing.namespace, thing.name, thing.container) == (None, None, None, None)


def test_empty_labels_are_as_good_as_none() -> None:
    thing = translate.container(cri.Container(labels=dict.fromkeys(LABELS, "")), PREFIXES)

    assert (thing.uid, thing.namespace, thing.name, thing.container) == (None, None, None, None)


def test_reading_labels_adds_none() -> None:
    """Looking a key up in a protobuf map can make it."""
    item = cri.Container(id="c")

    translate.container(item, PREFIXES)

    assert dict(item.labels) == {}


def test_only_what_lies_below_a_pools_prefix_is_claimed() -> None:
    ours = {"io.contivpp.memif.secret": "s", "com.example.fast.socket.host": "/x", "io.contivpp.memif.": "odd"}
    others = {
        "io.contivpp.memif": "the prefix itself",
        "io.contivpp.memifx.secret": "another's",
        "IO.CONTIVPP.MEMIF.secret": "shouted",
        " io.contivpp.memif.secret": "indented",
        "io.kubernetes.container.hash": "1fb36bbe",
    }

    assert translate.claimed({**others, **ours}, PREFIXES) == ours


def test_without_pools_nothing_is_claimed() -> None:
    assert translate.claimed({"io.contivpp.memif.secret": "s"}, ()) == {}


def test_of_two_mounts_on_one_path_the_later_shadows_the_other() -> None:
    """A kubelet mounts the pod's volumes after what device plugins gave."""
    listed = [cri.Mount(container_path="/run/vpp", host_path=path) for path in ("/plugins", "/the/pods/own")]

    assert translate.mounts(listed) == {"/run/vpp": "/the/pods/own"}


def test_annotations_make_up_no_mount() -> None:
    """On cri-dockerd an image's author can write them."""
    carried = {
        "io.contivpp.memif.socket.host": "/var/run/contiv/memif/bcdfghjklmnpqrstvwxz/memif.sock",
        "io.contivpp.memif.socket.container": "/run/vpp/memif.sock",
    }

    thing = translate.container(cri.Container(id="c", annotations=carried), ("io.contivpp.memif.",))

    assert thing.mounts == {}
    assert thing.claimed == carried


def test_the_identity_is_in_the_runtimes_own_words() -> None:
    answer = cri.VersionResponse(version="0.1.0", runtime_name="containerd", runtime_version="1.6.20~ds1")

    identity = translate.identity(answer)

    assert (identity.kind, identity.version) == ("cri", "containerd 1.6.20~ds1")
