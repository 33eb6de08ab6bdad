from dataclasses import replace
from typing import Any

import pytest

from domain.diagnosis import places
from domain.diagnosis.findings import Finding, Verdict
from domain.diagnosis.places import BaseFacts, MountFacts, RoomFacts, SelinuxFacts

HOST_DIR = "/run/contiv/memif"
MOUNT = MountFacts(kind="tmpfs", point="/run/contiv", root="/", options=frozenset({"rw", "nosuid", "nodev"}))
FACTS = BaseFacts(
    host_dir=HOST_DIR,
    there=True,
    trouble=None,
    hidden=False,
    mount=MOUNT,
    room=RoomFacts(space=0.9, inodes=0.8),
    selinux=None,
    spellings=frozenset({HOST_DIR}),
)
ENFORCING = SelinuxFacts(enforcing=True, rule="auto", labelled=True, bare=())


def finding(check: str, **changes: Any) -> Finding:
    """Return the one finding of a check."""
    (found,) = [each for each in places.judge(replace(FACTS, **changes)) if each.check == check]
    return found


def test_a_directory_on_a_file_system_of_its_own_is_fine() -> None:
    found = list(places.judge(FACTS))

    assert {each.verdict for each in found} == {Verdict.OK}
    assert [each.check for each in found] == [
        "base directory",
        "file system",
        "mount options",
        "limits",
        "room",
        "SELinux",
    ]


def test_what_is_not_there_yet_is_fine() -> None:
    found = finding("base directory", there=False)

    assert (found.verdict, found.what) == (Verdict.OK, f"{HOST_DIR} is made when the daemon starts")


def test_an_error_is_told_with_its_way_out() -> None:
    found = finding("base directory", trouble=f"{HOST_DIR} is a symbolic link; put a real directory there; or so")

    assert (found.verdict, found.what) == (Verdict.FAIL, f"{HOST_DIR} is a symbolic link")
    assert found.cure == "put a real directory there; or so"


def test_an_error_that_says_no_way_out_leads_somewhere_all_the_same() -> None:
    assert finding("base directory", trouble="it is broken").cure == "see docs/troubleshooting.md"


def test_what_cannot_be_judged_is_no_trouble() -> None:
    found = finding("base directory", hidden=True)

    assert (found.verdict, found.cure) == (Verdict.WARN, "run as root")


def test_where_nothing_can_be_seen_nothing_is_said() -> None:
    found = list(places.judge(replace(FACTS, mount=None, room=None)))

    assert [each.check for each in found] == ["base directory", "SELinux"]


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "ceph", "fuse.sshfs", "9p"])
def test_a_network_s_file_system(kind: str) -> None:
    found = finding("file system", mount=replace(MOUNT, kind=kind))

    assert found.verdict is Verdict.FAIL
    assert f"{HOST_DIR} lies on {kind}" in found.what
    assert "set host_dir to a local file system" in str(found.cure)


def test_a_container_s_own_file_system() -> None:
    found = finding("file system", mount=replace(MOUNT, kind="overlay", point="/"))

    assert found.verdict is Verdict.FAIL
    assert "mount the node's /run/contiv into the daemon's container" in str(found.cure)


def test_a_disk_is_fine_and_outlives_a_reboot() -> None:
    found = finding("file system", mount=replace(MOUNT, kind="xfs"))

    assert found.verdict is Verdict.OK
    assert "outlives a reboot" in found.what


@pytest.mark.parametrize(
    "point, cure", [("/run/contiv", "remount it with nosuid,nodev"), ("/", "mount a tmpfs of its own on it")]
)
def test_a_mount_without_nosuid_and_nodev(point: str, cure: str) -> None:
    found = finding("mount options", mount=replace(MOUNT, point=point, options=frozenset({"rw"})))

    assert found.verdict is Verdict.WARN
    assert "without nosuid and nodev" in found.what
    assert str(found.cure).startswith(cure)


@pytest.mark.parametrize(
    "changes, what",
    [
        ({"mount": replace(MOUNT, point="/run")}, "shares its file system"),
        ({"mount": replace(MOUNT, root="/contiv")}, "shares its file system"),
        ({"room": RoomFacts(space=None, inodes=0.5)}, "has no size limit"),
        ({"room": RoomFacts(space=0.5, inodes=None)}, "has no limit of inodes"),
    ],
)
def test_a_file_system_without_limits_of_its_own(changes: dict[str, Any], what: str) -> None:
    found = finding("limits", **changes)

    assert found.verdict is Verdict.WARN
    assert what in found.what
    assert "nr_inodes=" in str(found.cure)


@pytest.mark.parametrize(
    "changes", [{"room": RoomFacts(space=0.5, inodes=None), "mount": replace(MOUNT, kind="btrfs")}, {"room": None}]
)
def test_limits_that_are_no_question(changes: dict[str, Any]) -> None:
    assert finding("limits", **changes).verdict is Verdict.OK


@pytest.mark.parametrize(
    "room, what",
    [
        (RoomFacts(space=0.04, inodes=0.5), "4.0% of the space is left"),
        (RoomFacts(space=0.5, inodes=0.001), "0.1% of the inodes is left"),
        (RoomFacts(space=0.01, inodes=0.02), "1.0% of the space and 2.0% of the inodes is left"),
    ],
)
def test_no_room(room: RoomFacts, what: str) -> None:
    found = finding("room", room=room)

    assert found.verdict is Verdict.FAIL
    assert found.what.startswith(what)


def test_room_without_end() -> None:
    assert finding("room", room=RoomFacts(space=None, inodes=None)).what.endswith("no limit that could be reached")


@pytest.mark.parametrize(
    "selinux, verdict, what",
    [
        (replace(ENFORCING, enforcing=False, rule="none"), Verdict.OK, "not enforcing"),
        (ENFORCING, Verdict.OK, "is labelled for containers"),
        (replace(ENFORCING, rule="none"), Verdict.FAIL, "selinux_label of /run/contiv/memif is none"),
        (replace(ENFORCING, labelled=False), Verdict.FAIL, "holds no labels"),
        (replace(ENFORCING, bare=("aaaa",)), Verdict.FAIL, "lack their label: aaaa"),
    ],
)
def test_selinux(selinux: SelinuxFacts, verdict: Verdict, what: str) -> None:
    found = finding("SELinux", selinux=selinux)

    assert found.verdict is verdict
    assert what in found.what
