"""The kubelet's checkpoint, by its forms: what is understood, and what is unknown rather than guessed at."""

import base64
import copy
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2
from adapters.kubelet.checkpoint import FILE_NAME, KubeletCheckpoint
from adapters.memory.clock import ManualClock
from domain.answer import Answer, claim
from domain.evidence import CheckpointEntry, CheckpointView, Unknown
from domain.pool import Pool
from domain.resource import ResourceName

CAPTURES: Final = Path(__file__).parents[1] / "captures"
CONTAINERD: Final = (CAPTURES / f"{FILE_NAME}.containerd.json").read_bytes()
DOCKER: Final = (CAPTURES / f"{FILE_NAME}.docker.json").read_bytes()

MEMIF: Final = ResourceName("contivpp.io/memif")
POD: Final = "77744a5ad184b36da67afaadfa2440ce"

SECRET: Final = "Geheim0123456789"
ID: Final = "bcdfghjklmnpqrstvwxz"

Json = dict[str, Any]


def read(content: bytes) -> CheckpointView | Unknown:
    """Read a file with this content."""
    with tempfile.TemporaryDirectory(prefix="c") as directory:
        (Path(directory) / FILE_NAME).write_bytes(content)
        return KubeletCheckpoint(directory=directory, clock=ManualClock()).read()


def entries(content: bytes) -> tuple[CheckpointEntry, ...]:
    """Return what is read, which must be understood."""
    view = read(content)
    assert isinstance(view, CheckpointView), view
    return view.entries


def reason(content: bytes) -> str:
    """Return why a file is unknown, which it must be."""
    view = read(content)
    assert isinstance(view, Unknown), view
    return view.reason


def stored() -> str:
    """Return an answer of ours as the kubelet stores it."""
    response = api_pb2.ContainerAllocateResponse(
        envs={"MEMIF_SECRET": SECRET},
        mounts=[api_pb2.Mount(host_path=f"/var/run/contiv/memif/{ID}", container_path="/run/vpp")],
        annotations={"io.contivpp.memif.secret": SECRET},
    )
    return base64.b64encode(response.SerializeToString()).decode()


def an_entry(**changes: object) -> Json:
    """Return one entry in the kubelet's form; a change to ``...`` leaves the member out."""
    entry: Json = {
        "PodUID": "uid-1",
        "ContainerName": "a",
        "ResourceName": MEMIF,
        "DeviceIDs": {"-1": ["x/1"]},
        "AllocResp": stored(),
    }
    return {key: value for key, value in (entry | changes).items() if value is not ...}


def a_file(*given_entries: object) -> bytes:
    """Return a checkpoint file with these entries."""
    data = {"PodDeviceEntries": list(given_entries), "RegisteredDevices": {MEMIF: ["x/1"]}}
    return json.dumps({"Data": data, "Checksum": 1}).encode()


class TestRecordings:
    """What a real kubelet wrote."""

    def test_every_container_is_named_the_plain_init_container_included(self) -> None:
        found = entries(CONTAINERD)

        assert [(each.uid, each.container, each.resource) for each in found] == [
            (POD, "setup", MEMIF),
            (POD, "side", MEMIF),
            (POD, "dataplane", MEMIF),
            (POD, "probe", MEMIF),
        ]

    def test_every_device_is_named_and_one_id_may_be_two_containers(self) -> None:
        found = {each.container: set(each.devices) for each in entries(CONTAINERD)}

        assert found == {
            "setup": {f"{MEMIF}/19"},
            "side": {f"{MEMIF}/19"},
            "dataplane": {f"{MEMIF}/95", f"{MEMIF}/63"},
            "probe": {f"{MEMIF}/34"},
        }

    def test_the_stored_answer_is_the_one_that_the_plugin_gave(self) -> None:
        (found,) = (each for each in entries(CONTAINERD) if each.container == "probe")

        host_dir = "/var/run/contiv/memif/5bc6447384b40608e048"
        assert found.answer.envs == {"MEMIF_SECRET": "5bc6447384b40608e048", "MEMIF_SOCKET": "/run/vpp/memif.sock"}
        assert [(each.host_path, each.container_path) for each in found.answer.mounts] == [(host_dir, "/run/vpp")]
        assert found.answer.annotations == {
            "io.contivpp.memif.secret": "5bc6447384b40608e048",
            "io.contivpp.memif.socket.host": f"{host_dir}/memif.sock",
            "io.contivpp.memif.socket.container": "/run/vpp/memif.sock",
        }

    def test_every_entry_is_a_complete_claim_of_the_default_pool(self) -> None:
        found = [claim(Pool(resource=MEMIF), each.answer) for each in (*entries(CONTAINERD), *entries(DOCKER))]

        assert [each.id if each else None for each in found] == [
            "82d6541fd4a674e2aa1e",
            "6f3f994a7460d5640f05",
            "d8716212f3a4c76ccd7c",
            "5bc6447384b40608e048",
            "a5095f5795ecce5e9f0a",
        ]

    def test_the_recording_on_docker_is_read_right(self) -> None:
        (found,) = entries(DOCKER)

        assert (found.uid, found.container) == ("7840b51d898d27c456e56dab9e2d30f8", "a")
        assert set(found.devices) == {f"{MEMIF}/42", f"{MEMIF}/39"}


class TestForms:
    """Both forms in which kubelets write the file, and what Go makes of empty things."""

    def test_devices_stand_by_numa_node_since_kubernetes_1_20(self) -> None:
        (found,) = entries(a_file(an_entry(DeviceIDs={"0": ["x/1"], "1": ["x/2", "x/3"]})))

        assert found.devices == ("x/1", "x/2", "x/3")

    def test_devices_stand_in_a_flat_list_up_to_kubernetes_1_19(self) -> None:
        (found,) = entries(a_file(an_entry(DeviceIDs=["x/1", "x/2"])))

        assert found.devices == ("x/1", "x/2")

    def test_a_device_with_several_numa_nodes_is_one_device(self) -> None:
        (found,) = entries(a_file(an_entry(DeviceIDs={"0": ["x/1", "x/2"], "1": ["x/2", "x/1"]})))

        assert found.devices == ("x/1", "x/2")

    @pytest.mark.parametrize("ids", [None, {}, [], {"-1": None}, {"-1": []}])
    def test_no_devices_are_none_in_whatever_way_they_are_written(self, ids: object) -> None:
        (found,) = entries(a_file(an_entry(DeviceIDs=ids)))

        assert found.devices == ()

    def test_go_writes_an_empty_list_of_entries_as_null(self) -> None:
        document = {"Data": {"PodDeviceEntries": None, "RegisteredDevices": {}}, "Checksum": 1}

        assert entries(json.dumps(document).encode()) == ()

    def test_a_plugin_may_have_answered_nothing(self) -> None:
        (nothing, empty) = entries(a_file(an_entry(AllocResp=None), an_entry(AllocResp="")))

        assert nothing.answer == empty.answer == Answer()

    def test_entries_of_other_plugins_are_there_too(self) -> None:
        found = entries(a_file(an_entry(ResourceName="nvidia.com/gpu"), an_entry()))

        assert [each.resource for each in found] == ["nvidia.com/gpu", MEMIF]

    def test_fields_that_later_kubelets_may_add_do_no_harm(self) -> None:
        (found,) = entries(a_file(an_entry(Topology={"x": 1}, NumaNodes=[0])))

        assert found.container == "a"

    def test_the_checksum_does_not_matter(self) -> None:
        """It is taken over Go's own print of the data, and cannot be reckoned elsewhere."""
        document = json.loads(a_file(an_entry()))
        del document["Checksum"]

        assert len(entries(json.dumps(document).encode())) == 1


class TestNotUnderstood:
    """An entry overlooked would be a directory lost: one flaw makes the whole file unknown."""

    @pytest.mark.parametrize(
        "content",
        [b"", b"{", b"\xff\xfe", b"\0" * 100, CONTAINERD[:-2], b"1" * 100_000, b"[" * 200_000, b'{"a":' * 200_000],
        ids=["empty", "begun", "not text", "zeros", "cut off", "a long number", "deep lists", "deep objects"],
    )
    def test_what_is_not_json_is_unknown(self, content: bytes) -> None:
        assert "it is not JSON" in reason(content)

    @pytest.mark.parametrize("document", [None, 7, "text", [], [{}]])
    def test_a_document_that_is_no_object_is_unknown(self, document: object) -> None:
        assert "the document is no object" in reason(json.dumps(document).encode())

    @pytest.mark.parametrize(
        "document, why",
        [
            ({}, "the document has no Data"),
            ({"Data": None}, "Data is no object"),
            ({"Data": []}, "Data is no object"),
            ({"Data": {}}, "Data has no PodDeviceEntries"),
            ({"Data": {"PodDeviceEntries": {}}}, "PodDeviceEntries is no list"),
            ({"Data": {"PodDeviceEntries": "none"}}, "PodDeviceEntries is no list"),
        ],
    )
    def test_without_its_list_of_entries_it_is_unknown(self, document: Json, why: str) -> None:
        assert why in reason(json.dumps(document).encode())

    @pytest.mark.parametrize("member", ["PodUID", "ContainerName", "ResourceName", "DeviceIDs", "AllocResp"])
    def test_an_entry_without_one_of_its_members_is_named(self, member: str) -> None:
        assert f"an entry has no {member}" in reason(a_file(an_entry(), an_entry(**{member: ...})))

    @pytest.mark.parametrize("member", ["PodUID", "ContainerName", "ResourceName"])
    @pytest.mark.parametrize("value", [None, "", 7, True, ["uid"], {}])
    def test_a_name_that_is_no_text_is_named(self, member: str, value: object) -> None:
        assert f"{member} is no text" in reason(a_file(an_entry(**{member: value})))

    @pytest.mark.parametrize("value", [7, "x/1", True, {"-1": "x/1"}, {"-1": {"x/1": 1}}])
    def test_devices_in_another_form_are_named(self, value: object) -> None:
        assert "DeviceIDs is no list" in reason(a_file(an_entry(DeviceIDs=value)))

    @pytest.mark.parametrize("value", [[7], [None], {"-1": ["x/1", 7]}, {"-1": [["x/1"]]}])
    def test_a_device_that_is_no_text_is_named(self, value: object) -> None:
        assert "a device id is no text" in reason(a_file(an_entry(DeviceIDs=value)))

    @pytest.mark.parametrize("value", [7, True, [], {"envs": {"MEMIF_SECRET": SECRET}}])
    def test_a_stored_answer_that_is_no_text_is_named(self, value: object) -> None:
        assert "AllocResp is no text" in reason(a_file(an_entry(AllocResp=value)))

    @pytest.mark.parametrize(
        "value",
        [
            SECRET + "!",
            "Ä",
            "AAA",
            base64.b64encode(b"\xff\xff\xff").decode(),
            base64.b64encode(SECRET.encode()).decode(),
            stored()[:-8],
        ],
        ids=["no base64", "no ascii", "bad padding", "no protobuf", "a bare secret", "cut off"],
    )
    def test_a_stored_answer_that_cannot_be_decoded_is_named(self, value: str) -> None:
        assert "an AllocResp is no stored answer" in reason(a_file(an_entry(AllocResp=value)))

    @pytest.mark.parametrize("entry", [None, 7, "text", []])
    def test_an_entry_that_is_no_object_is_named(self, entry: object) -> None:
        assert "an entry is no object" in reason(a_file(an_entry(), entry))

    def test_the_reason_names_the_file(self) -> None:
        with tempfile.TemporaryDirectory(prefix="c") as directory:
            path = Path(directory) / FILE_NAME
            path.write_bytes(b"{}")
            view = KubeletCheckpoint(directory=directory, clock=ManualClock()).read()

        assert view == Unknown(f"{path} is not understood: the document has no Data")


# -- any deformation of a real file ------------------------------------------------------------------------------

Path_ = tuple[str | int, ...]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from([SECRET, stored()]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def _places(document: object, here: Path_ = ()) -> Iterator[Path_]:
    """Every place below the document's root."""
    members: list[tuple[str | int, object]] = []
    if isinstance(document, dict):
        members = list(document.items())
    elif isinstance(document, list):
        members = list(enumerate(document))
    for key, value in members:
        yield (*here, key)
        yield from _places(value, (*here, key))


def _recorded() -> Json:
    document: Json = json.loads(CONTAINERD)
    document["Data"]["RegisteredDevices"] = {}  # nobody reads it, and most deformations would fall there
    return document


PLACES: Final = tuple(_places(_recorded()))


@st.composite
def deformed(draw: st.DrawFn) -> Json:
    """A recorded checkpoint in which something was replaced, removed, doubled, wrapped or renamed."""
    document = _recorded()
    for place in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3, unique=True)):
        holder: Any = document
        try:
            for key in place[:-1]:
                holder = holder[key]
            value = holder[place[-1]]
            holder[place[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier deformation took it away, or made a text of what holds it
        match draw(st.sampled_from(["replace", "remove", "double", "wrap", "cut"])):
            case "replace":
                holder[place[-1]] = draw(values)
            case "remove":
                del holder[place[-1]]
            case "double":
                holder[place[-1]] = [value, copy.deepcopy(value)]
            case "wrap":
                holder[place[-1]] = {str(place[-1]): value}
            case _:
                holder[place[-1]] = value[: len(value) // 2] if isinstance(value, str | list) else None
    return document


def _private(content: bytes) -> set[str]:
    """What must not show: every stored answer, every secret in it, every uid."""
    texts = {each["AllocResp"] for each in json.loads(content)["Data"]["PodDeviceEntries"]}
    texts |= {each.answer.envs["MEMIF_SECRET"] for each in entries(content)}
    return texts | {SECRET, stored(), POD}


PRIVATE: Final = _private(CONTAINERD)


@given(document=deformed())
def test_no_deformation_raises_hides_an_entry_or_shows_a_secret(document: Json) -> None:
    view = read(json.dumps(document).encode())

    if isinstance(view, Unknown):
        assert not [text for text in PRIVATE if text in view.reason]
    else:
        assert len(view.entries) == len(document["Data"]["PodDeviceEntries"] or ())


@given(at=st.integers(0, len(DOCKER) - 1), flip=st.integers(1, 255), cut=st.booleans())
def test_no_damaged_byte_raises_or_shows_a_secret(at: int, flip: int, cut: bool) -> None:  # noqa: FBT001 -- drawn
    content = bytearray(DOCKER)
    content[at] ^= flip
    view = read(bytes(content[:at] if cut else content))

    if isinstance(view, Unknown):
        assert not [text for text in _private(DOCKER) if text in view.reason]
    else:
        assert len(view.entries) == 1
