"""Which of several container runtimes is the kubelet's."""

from domain.identity import PodUid
from domain.selection import Selected, Sight, Undecided, select

A, B = PodUid("uid-a"), PodUid("uid-b")


def sight(kind: str, *uids: PodUid, place: str | None = None) -> Sight:
    return Sight(kind=kind, place=place or f"{kind} at /run/{kind}.sock", uids=frozenset(uids))


def test_the_only_one_that_holds_pods_is_it() -> None:
    docker = sight("docker", A)

    assert select([sight("containerd"), docker], frozenset()) == Selected(sight=docker)


def test_dockers_own_containerd_answers_and_knows_no_pods() -> None:
    docker = sight("docker", A)

    assert select([sight("containerd"), docker, sight("cri", A)], frozenset({A})) == Selected(sight=docker)


def test_cri_shows_the_same_pods_again_and_never_competes() -> None:
    containerd = sight("containerd", A)

    assert select([containerd, sight("cri", A)], frozenset()) == Selected(sight=containerd)


def test_cri_is_chosen_where_nothing_else_holds_pods() -> None:
    """As on a node with CRI-O."""
    cri = sight("cri", A)

    assert select([sight("containerd"), cri], frozenset()) == Selected(sight=cri)


def test_of_two_that_hold_pods_the_one_with_a_uid_of_the_checkpoint_is_chosen_and_the_other_named() -> None:
    containerd, docker = sight("containerd", A), sight("docker", B)

    assert select([containerd, docker], frozenset({B})) == Selected(sight=docker, rivals=(containerd.place,))


def test_two_that_both_hold_pods_of_the_checkpoint_are_left_to_the_operator() -> None:
    verdict = select([sight("containerd", A), sight("docker", B)], frozenset({A, B}))

    assert isinstance(verdict, Undecided)
    assert "runtime.kind" in verdict.reason
    assert "containerd at /run/containerd.sock" in verdict.reason


def test_so_are_two_of_which_neither_does() -> None:
    assert isinstance(select([sight("containerd", A), sight("docker", B)], frozenset()), Undecided)


def test_a_node_without_pods_tells_nothing() -> None:
    verdict = select([sight("containerd"), sight("docker")], frozenset({A}))

    assert isinstance(verdict, Undecided)
    assert "no runtime shows a pod" in verdict.reason
    assert "docker at /run/docker.sock" in verdict.reason


def test_nor_does_a_node_on_which_none_answers() -> None:
    verdict = select([], frozenset())

    assert isinstance(verdict, Undecided)
    assert "none answers" in verdict.reason


def test_two_places_of_one_kind_compete_too() -> None:
    k3s, own = sight("containerd", A, place="k3s"), sight("containerd", B, place="own")

    assert select([own, k3s], frozenset({A})) == Selected(sight=k3s, rivals=("own",))
