"""Whatever the node went through and however much of it is seen: no pod is ever told another pod's socket.

What must hold of an answer:

* It is of one incarnation of the name that was asked for, and of the uid, if one was asked for.
* If it is not stale, it is of the incarnation that the kubelet spoke of, and exactly what the kubelet's record names of
  it.  That is everything, except in the instants in which the pod is still being admitted: then the record holds its
  first containers.
* Without a readable record, what plain init containers hold is known only if the ledger knows the pod's name.  There,
  and in stale answers, a part of the truth will do: nothing that is not the pod's, and, unless stale, all that the
  kubelet lists.
* One gap is left, because the kubelet's answer carries no uid: where it lists no devices, and the present incarnation
  has none, an earlier one of the same name, of which only init containers held memif, passes for it until the kubelet
  forgets it.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.evidence import Unknown
from domain.lookup import NoMemif, NoPod, PodMemif, UnknownNow
from tests.unit.lookup_worlds import INIT, Pod, Seen, look

seeds = st.integers(0, 2**40)
"""Each makes a world of its own."""


def owner_of(found: PodMemif, seen: Seen) -> Pod:
    """Return the one pod to which everything in an answer was granted, container by container."""
    ids = {each.allocation.id for each in found.containers}
    (owner,) = (pod for pod in seen.pods.values() if ids & pod.ids)
    containers = {allocation.id: container for container, allocation in owner.granted}

    assert ids <= owner.ids
    assert all(each.name in {None, containers[each.allocation.id]} for each in found.containers)
    return owner


def is_gap(owner: Pod, seen: Seen) -> bool:
    """Whether this is the one thing that cannot be told; see above."""
    now = seen.asked.pods.get(seen.question.name)
    return owner.only_init and now is not None and not seen.asked.named(now.uid)


def check(seen: Seen) -> str:
    """Look up, compare with the truth, and say which kind of answer it was."""
    now = seen.asked.pods.get(seen.question.name)
    try:
        found = seen.answer()
    except UnknownNow:
        return "unknown"
    except NoMemif:
        assert not seen.reading.disturbed
        assert now is not None
        assert seen.question.uid not in {None, now.uid} or not now.granted
        return "no memif"
    except NoPod:
        assert now is None or seen.question.uid not in {None, now.uid}
        return "no pod"
    owner = owner_of(found, seen)
    ids = {each.allocation.id for each in found.containers}

    assert found.name == seen.question.name == owner.name
    assert found.uid in {None, owner.uid}
    assert seen.question.uid in {None, owner.uid}
    if found.stale:
        return "stale"
    if isinstance(seen.reading.checkpoint, Unknown):
        listed = {allocation.id for container, allocation in owner.granted if container != INIT}
        assert seen.asked.named(owner.uid) & listed <= ids
    else:
        assert ids == seen.file.named(owner.uid)
        assert ids == owner.ids or seen.reading.disturbed
    if owner in seen.present:
        return "current"
    assert is_gap(owner, seen)
    return "gap"


@settings(max_examples=1000)
@given(seeds)
def test_no_pod_is_ever_told_anothers_socket(seed: int) -> None:
    check(look(seed))


@settings(max_examples=200)
@given(seeds)
def test_who_sees_everything_can_tell(seed: int) -> None:
    """So that the other test is not passed by knowing nothing."""
    seen = look(seed, clear=True)
    now = seen.asked.pods.get(seen.question.name)

    kind = check(seen)

    if seen.question.uid is None and now is not None:
        assert kind in {"current" if now.granted else "no memif", "gap"}
    if now is not None and seen.question.uid == now.uid:
        assert kind == ("current" if now.granted else "no memif")


def test_every_kind_of_answer_occurs() -> None:
    kinds = {check(look(seed)) for seed in range(300)} - {"gap"}

    assert kinds == {"current", "stale", "no memif", "no pod", "unknown"}
