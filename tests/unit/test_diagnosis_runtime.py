from dataclasses import replace

import pytest

from domain.diagnosis import runtime
from domain.diagnosis.findings import Verdict
from domain.diagnosis.runtime import Tried
from domain.identity import PodUid
from tests.unit.domain_values import a_runtime, a_sandbox, an_owner

ONE, TWO = PodUid("uid-1"), PodUid("uid-2")
NOBODY: frozenset[PodUid] = frozenset()

DOCKER = Tried(kind="docker", place="docker at /docker.sock", path="/docker.sock", there=True, silence="Docker hangs")
CONTAINERD = Tried(
    kind="containerd", place="containerd at /c.sock", path="/c.sock", there=True, silence="containerd is frozen"
)


def showing(tried: Tried, *uids: PodUid) -> Tried:
    """Let a runtime answer and show pods."""
    return replace(tried, view=a_runtime(*(a_sandbox(an_owner(uid=uid)) for uid in uids)), silence="")


def test_the_one_that_shows_pods_is_found() -> None:
    docker = showing(DOCKER, ONE, TWO)
    found = runtime.judge((showing(CONTAINERD), docker), (), NOBODY)

    assert (found.finding.verdict, found.finding.what) == (Verdict.OK, "docker at /docker.sock shows 2 pods")
    assert found.view is docker.view


def test_a_rival_is_named() -> None:
    found = runtime.judge((showing(CONTAINERD, ONE), showing(DOCKER, TWO)), (), frozenset({TWO}))

    assert found.finding.verdict is Verdict.WARN
    assert found.finding.what == "docker at /docker.sock shows 1 pod; containerd at /c.sock shows pods, too"


def test_of_two_with_pods_none_is_chosen_where_nothing_tells() -> None:
    found = runtime.judge((showing(CONTAINERD, ONE), showing(DOCKER, TWO)), (), NOBODY)

    assert found.finding.verdict is Verdict.FAIL
    assert "several runtimes hold pods" in found.finding.what
    assert found.view is None


@pytest.mark.parametrize("configured, state", [(DOCKER, "does not answer"), (showing(DOCKER), "shows no pod")])
def test_the_pods_are_in_a_runtime_of_another_kind(configured: Tried, state: str) -> None:
    found = runtime.judge((configured,), (showing(CONTAINERD, ONE),), NOBODY)

    assert found.finding.verdict is Verdict.FAIL
    assert found.finding.what == f"docker at /docker.sock {state}, but containerd at /c.sock shows 1 pod"
    assert str(found.finding.cure).startswith("set runtime.kind to containerd")


def test_there_is_none() -> None:
    absent = (replace(DOCKER, there=False, silence=""), replace(CONTAINERD, there=False, silence=""))
    found = runtime.judge(absent, (), NOBODY)

    assert found.finding.verdict is Verdict.FAIL
    assert found.finding.what == "there is no container runtime's socket at /docker.sock, /c.sock"


def test_what_answers_elsewhere_without_a_pod_is_named() -> None:
    found = runtime.judge((replace(DOCKER, there=False),), (showing(CONTAINERD),), NOBODY)

    assert found.finding.what.endswith("what answers is containerd at /c.sock")


def test_one_that_does_not_answer_says_why() -> None:
    found = runtime.judge((DOCKER, replace(CONTAINERD, there=False)), (), NOBODY)

    assert (found.finding.verdict, found.finding.what) == (Verdict.FAIL, "Docker hangs")


@pytest.mark.parametrize("stored, verdict", [(NOBODY, Verdict.WARN), (frozenset({ONE}), Verdict.FAIL)])
def test_one_without_pods(stored: frozenset[PodUid], verdict: Verdict) -> None:
    docker = showing(DOCKER)
    found = runtime.judge((docker,), (), stored)

    assert found.finding.verdict is verdict
    assert "shows no pod of a kubelet" in found.finding.what
    assert found.view is docker.view


def test_two_without_pods_are_no_view() -> None:
    assert runtime.judge((showing(DOCKER), showing(CONTAINERD)), (), NOBODY).view is None


def test_the_runtime_of_demonstrations_is_no_runtime() -> None:
    assert runtime.imaginary().verdict is Verdict.WARN
