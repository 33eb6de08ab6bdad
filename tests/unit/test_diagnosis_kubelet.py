from dataclasses import replace

import pytest

from domain.diagnosis import kubelet, rights
from domain.diagnosis.findings import Finding, Verdict
from domain.diagnosis.kubelet import KubeletFacts
from domain.diagnosis.rights import RightsFacts
from domain.reply import Reply

FACTS = KubeletFacts(
    plugin_dir="/kubelet/device-plugins",
    obstacle=None,
    socket="/kubelet/device-plugins/kubelet.sock",
    reply=Reply.ANSWERS,
    elsewhere=(),
    pod_resources="/kubelet/pod-resources/kubelet.sock",
    pod_resources_reply=Reply.ANSWERS,
    pod_resources_elsewhere=(),
    inotify=None,
)


def finding(check: str, **changes: object) -> Finding:
    """Return the one finding of a check."""
    (found,) = [each for each in kubelet.judge(replace(FACTS, **changes)) if each.check == check]  # type: ignore[arg-type]
    return found


def test_a_kubelet_that_answers_is_fine() -> None:
    found = list(kubelet.judge(FACTS))

    assert [each.check for each in found] == [
        "kubelet socket",
        "plugin directory",
        "pod-resources socket",
        "inotify",
    ]
    assert {each.verdict for each in found} == {Verdict.OK}
    assert {each.cure for each in found} == {None}


@pytest.mark.parametrize(
    "reply, what, cure",
    [
        (Reply.ABSENT, "there is no kubelet socket", "start the kubelet, or set kubelet.plugin_dir"),
        (Reply.REFUSES, "is stale: nobody listens on it", "start the kubelet, which replaces it"),
        (Reply.DENIED, "no permission to connect", "run as root"),
    ],
)
def test_a_kubelet_that_does_not_answer(reply: Reply, what: str, cure: str) -> None:
    found = finding("kubelet socket", reply=reply)

    assert found.verdict is Verdict.FAIL
    assert what in found.what
    assert FACTS.socket in found.what
    assert cure in str(found.cure)


@pytest.mark.parametrize("reply", [Reply.ABSENT, Reply.REFUSES])
def test_a_kubelet_that_answers_elsewhere_is_named(reply: Reply) -> None:
    found = finding("kubelet socket", reply=reply, elsewhere=("/other/device-plugins",))

    assert found.verdict is Verdict.FAIL
    assert found.cure == "set kubelet.plugin_dir to /other/device-plugins"


def test_a_directory_in_which_no_socket_can_be_made() -> None:
    found = finding("plugin directory", obstacle="its file system is read-only")

    assert found.verdict is Verdict.FAIL
    assert found.what.endswith("its file system is read-only")


def test_a_missing_directory_is_told_once() -> None:
    absent = replace(FACTS, reply=Reply.ABSENT, obstacle="it does not exist")

    assert "plugin directory" not in [each.check for each in kubelet.judge(absent)]


@pytest.mark.parametrize("reply", [Reply.ABSENT, Reply.REFUSES])
def test_pod_resources_that_do_not_answer(reply: Reply) -> None:
    here = finding("pod-resources socket", pod_resources_reply=reply)
    there = finding("pod-resources socket", pod_resources_reply=reply, pod_resources_elsewhere=("/other/kubelet.sock",))

    assert here.verdict is there.verdict is Verdict.FAIL
    assert "--root-dir" in str(here.cure)
    assert there.cure == "set kubelet.pod_resources to /other/kubelet.sock"


def test_pod_resources_that_may_not_be_asked() -> None:
    found = finding("pod-resources socket", pod_resources_reply=Reply.DENIED)

    assert (found.verdict, "run as root" in str(found.cure)) == (Verdict.FAIL, True)


def test_without_inotify_it_works_and_costs() -> None:
    found = finding("inotify", inotify="Too many open files")

    assert found.verdict is Verdict.WARN
    assert "Too many open files" in found.what
    assert "fs.inotify.max_user_instances" in str(found.cure)


@pytest.mark.parametrize(
    "facts, verdict, what",
    [
        (RightsFacts(uid=0, lacking=(), groups=()), Verdict.OK, "root"),
        (RightsFacts(uid=0, lacking=("CAP_CHOWN",), groups=()), Verdict.WARN, "CAP_CHOWN"),
        (RightsFacts(uid=1000, lacking=("CAP_CHOWN",), groups=()), Verdict.FAIL, "uid 1000"),
    ],
)
def test_rights(facts: RightsFacts, verdict: Verdict, what: str) -> None:
    (found,) = rights.judge(facts)

    assert found.verdict is verdict
    assert what in found.what


def test_groups_that_the_node_does_not_know() -> None:
    *_, found = rights.judge(RightsFacts(uid=0, lacking=(), groups=("vpp", "dpdk")))

    assert found.verdict is Verdict.FAIL
    assert found.what == "no such group on this node: vpp, dpdk"
