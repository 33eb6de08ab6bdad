"""What an entry of the kubelet's checkpoint names."""

from domain.answer import Answer, Mount
from domain.evidence import Unknown
from tests.unit.domain_values import an_allocation, an_entry, an_id


def mounting(*paths: str) -> frozenset[str]:
    """Return what an entry names whose answer mounts some paths."""
    mounts = tuple(Mount(host_path=path, container_path=f"/mnt/{number}") for number, path in enumerate(paths))
    return frozenset(an_entry(an_allocation(), answer=Answer(mounts=mounts)).named())


def test_an_entry_names_the_allocation_whose_directory_its_answer_mounts() -> None:
    assert an_entry(an_allocation(an_id(7))).named() == {an_id(7)}


def test_an_entry_may_name_none() -> None:
    assert mounting() == frozenset()
    assert mounting("/dev/vfio", "/", "", "/var/run/contiv/memif/README") == frozenset()


def test_an_entry_names_what_any_of_its_mounts_shows() -> None:
    named = mounting(f"/var/run/contiv/memif/{an_id(1)}", "/dev/shm", f"/elsewhere/{an_id(2)}")

    assert named == {an_id(1), an_id(2)}


def test_a_path_below_an_allocation_s_directory_does_not_name_it() -> None:
    """Our answers mount the directory itself."""
    assert mounting(f"/var/run/contiv/memif/{an_id(1)}/memif.sock") == frozenset()


def test_a_view_that_cannot_be_had_says_why() -> None:
    assert Unknown("no such file").reason == "no such file"
    assert Unknown("no such file") != Unknown("permission denied")
