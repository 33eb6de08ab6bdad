from dataclasses import replace
from typing import Any

import pytest

from domain.diagnosis import containers
from domain.diagnosis.containers import ContainerFacts
from domain.diagnosis.findings import Finding, Verdict
from domain.evidence import Absent, ObjectKind, ObjectState, Unknown
from tests.unit.domain_values import a_base, a_checkpoint, a_pool, a_runtime, an_entry, an_object, an_owner, numbered

POOL = a_pool()
ALLOCATION = numbered(1, owner=an_owner())
PATH = ALLOCATION.directory.path
CONTAINER = an_object(ALLOCATION)
FACTS = ContainerFacts(
    runtime=a_runtime(CONTAINER),
    checkpoint=a_checkpoint(an_entry(ALLOCATION)),
    pools=(POOL,),
    directories=(a_base(ALLOCATION),),
)


def finding(check: str, **changes: Any) -> Finding:
    """Return the one finding of a check."""
    (found,) = [each for each in containers.judge(replace(FACTS, **changes)) if each.check == check]
    return found


def test_a_container_that_has_what_it_was_given_is_fine() -> None:
    assert {each.verdict for each in containers.judge(FACTS)} == {Verdict.OK}


@pytest.mark.parametrize(
    "view, verdict",
    [(Unknown("the file is not understood: it is not JSON"), Verdict.FAIL), (Absent("there is no file"), Verdict.WARN)],
)
def test_a_record_that_cannot_be_had(view: Unknown, verdict: Verdict) -> None:
    found = list(containers.judge(replace(FACTS, checkpoint=view)))

    assert (found[0].verdict, found[0].what) == (verdict, view.reason)
    assert [each.what for each in found[1:]] == ["cannot be told without the kubelet's record"] * 2


def test_without_a_runtime_nothing_is_said_of_containers() -> None:
    found = finding("mounts of containers", runtime=Unknown("there is none"))

    assert (found.verdict, found.what) == (Verdict.WARN, "cannot be told without the container runtime")


@pytest.mark.parametrize(
    "container",
    [
        CONTAINER,
        replace(CONTAINER, mounts={}, claimed={"io.contivpp.memif.socket.host": f"{PATH}/memif.sock"}),
    ],
)
def test_a_container_that_asks_for_memif_and_is_not_recorded(container: Any) -> None:
    found = finding("recorded containers", checkpoint=a_checkpoint(), runtime=a_runtime(container))

    assert found.verdict is Verdict.FAIL
    assert found.what.endswith(f"telco/cnf/dataplane with {ALLOCATION.id}")
    assert "delete these pods" in str(found.cure)


def test_a_container_without_a_name_is_told_by_its_id() -> None:
    nameless = replace(CONTAINER, id="0123456789abcdef", name=None)
    found = finding("recorded containers", checkpoint=a_checkpoint(), runtime=a_runtime(nameless))

    assert "container 0123456789ab with" in found.what


@pytest.mark.parametrize("changes", [{"state": ObjectState.EXITED}, {"kind": ObjectKind.SANDBOX}])
def test_what_does_not_run_any_more_is_no_trouble(changes: dict[str, Any]) -> None:
    over = a_runtime(replace(CONTAINER, **changes))

    assert finding("recorded containers", checkpoint=a_checkpoint(), runtime=over).verdict is Verdict.OK
    assert finding("mounts of containers", runtime=over).verdict is Verdict.OK


@pytest.mark.parametrize(
    "mounts, trouble",
    [
        ({"/run/vpp": "/var/lib/kubelet/pods/x/volumes/empty"}, "/run/vpp is /var/lib/kubelet/pods/x/volumes/empty"),
        ({"/etc/hosts": "/x"}, "/run/vpp is not mounted"),
        ({"/run/vpp": PATH, "/run/vpp/memif.sock": "/y"}, "/run/vpp/memif.sock is /y"),
    ],
)
def test_a_volume_that_shadows(mounts: dict[str, str], trouble: str) -> None:
    found = finding("mounts of containers", runtime=a_runtime(replace(CONTAINER, mounts=mounts)))

    assert found.verdict is Verdict.FAIL
    assert found.what.endswith(f"telco/cnf/dataplane: {trouble}")


def test_a_path_without_end_is_cut() -> None:
    endless = replace(CONTAINER, mounts={"/run/vpp": PATH, f"/run/vpp/{'x' * 4000}": "/y"})

    assert len(finding("mounts of containers", runtime=a_runtime(endless)).what) < 400


@pytest.mark.parametrize(
    "mounts", [{}, {"/run/vpp": f"/run/contiv/memif/{ALLOCATION.id}"}, {"/run/vpp": PATH, "/": "/x"}]
)
def test_what_shadows_nothing(mounts: dict[str, str]) -> None:
    found = finding("mounts of containers", runtime=a_runtime(replace(CONTAINER, mounts=mounts)))

    assert found.verdict is Verdict.OK


def test_what_others_mount_is_theirs() -> None:
    entry = an_entry(ALLOCATION)
    mount = replace(entry.answer.mounts[0], host_path="/dev/vfio", container_path="/dev/vfio")
    other = replace(entry, answer=replace(entry.answer, mounts=(*entry.answer.mounts, mount)))

    assert finding("mounts of containers", checkpoint=a_checkpoint(other)).verdict is Verdict.OK


def test_of_many_a_few_are_named() -> None:
    many = a_runtime(*(an_object(numbered(number), id=f"c{number}") for number in range(9)))
    found = finding("recorded containers", checkpoint=a_checkpoint(), runtime=many)

    assert found.what.count(" with ") == 5
    assert found.what.endswith("; and 4 more")
