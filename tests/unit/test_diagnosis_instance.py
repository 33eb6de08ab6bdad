from dataclasses import replace
from typing import Any

import pytest

from domain.diagnosis import instance
from domain.diagnosis.findings import Finding, Verdict
from domain.diagnosis.instance import Answering, InstanceFacts, LockState

OURS = "contiv-vpp.abcdefgh-0.sock"
OTHERS = "contiv-vpp.22222222-0.sock"
ANSWERING = Answering(instance="one", words="daemon 1 (instance one)", endpoints=frozenset({OURS}), waiting=())
DOWN = InstanceFacts(
    lock="/state/lock",
    state=LockState.FREE,
    holder=None,
    holder_words="process 7",
    control="/run/control.sock",
    answering=None,
    silence="no daemon answers",
    denied=False,
    living=(),
    dead=(),
    endpoint="contiv-vpp.sock",
    plugin_dir="/kubelet/device-plugins",
)
UP = replace(DOWN, state=LockState.HELD, holder="one", answering=ANSWERING, silence="", living=(OURS,))


def found(facts: InstanceFacts, check: str, **changes: Any) -> list[Finding]:
    """Return the findings of a check."""
    return [each for each in instance.judge(replace(facts, **changes)) if each.check == check]


def test_a_daemon_that_serves_is_fine() -> None:
    assert {each.verdict for each in instance.judge(UP)} == {Verdict.OK}


def test_a_node_without_a_daemon_is_fine() -> None:
    assert next(iter(instance.judge(DOWN))).what == "no daemon runs"
    assert {each.verdict for each in instance.judge(DOWN)} == {Verdict.OK}


@pytest.mark.parametrize(
    "facts, changes, verdict, what",
    [
        (UP, {"answering": None, "silence": "it hangs"}, Verdict.FAIL, "not to be reached: it hangs"),
        (
            UP,
            {"answering": None, "denied": True, "silence": "no permission"},
            Verdict.WARN,
            "/state/lock; no permission",
        ),
        (UP, {"holder": "two"}, Verdict.FAIL, "process 7 holds /state/lock, while daemon 1"),
        (UP, {"holder": None}, Verdict.OK, "serves"),
        (UP, {"state": LockState.FREE, "holder": None}, Verdict.FAIL, "does not hold /state/lock"),
        (UP, {"state": LockState.HIDDEN, "holder": None}, Verdict.OK, "serves"),
        (DOWN, {"state": LockState.HIDDEN}, Verdict.WARN, "cannot be seen; no daemon answers"),
    ],
)
def test_the_lock_and_who_answers(facts: InstanceFacts, changes: dict[str, Any], verdict: Verdict, what: str) -> None:
    (only,) = found(facts, "daemon", **changes)

    assert only.verdict is verdict
    assert what in only.what
    assert (only.cure is None) is (verdict is Verdict.OK)


def test_a_pool_that_is_not_served_is_named() -> None:
    waiting = replace(ANSWERING, waiting=(("contivpp.io/memif", "there is no kubelet.sock yet"),))
    (only,) = found(UP, "registration", answering=waiting)

    assert only.verdict is Verdict.WARN
    assert "contivpp.io/memif is not served: there is no kubelet.sock yet" in only.what


@pytest.mark.parametrize("facts", [UP, DOWN])
def test_a_contiv_agent_that_lives(facts: InstanceFacts) -> None:
    (only,) = found(facts, "plugin sockets", living=(*facts.living, "contiv-vpp.sock"))

    assert only.verdict is Verdict.FAIL
    assert "a Contiv agent" in only.what
    assert "--take-over" in str(only.cure)


def test_a_contiv_agent_that_died() -> None:
    (only,) = found(DOWN, "plugin sockets", dead=("contiv-vpp.sock", OURS))

    assert only.verdict is Verdict.WARN
    assert str(only.cure).startswith("rm /kubelet/device-plugins/contiv-vpp.sock")


@pytest.mark.parametrize("facts, living", [(UP, (OURS, OTHERS)), (DOWN, (OTHERS,))])
def test_another_process_of_this_plugin(facts: InstanceFacts, living: tuple[str, ...]) -> None:
    (only,) = found(facts, "plugin sockets", living=living)

    assert only.verdict is Verdict.FAIL
    assert only.what.endswith(f"serves in /kubelet/device-plugins: {OTHERS}")


def test_sockets_of_a_daemon_that_is_silent_are_taken_for_its_own() -> None:
    (only,) = found(UP, "plugin sockets", answering=None)

    assert only.verdict is Verdict.OK
