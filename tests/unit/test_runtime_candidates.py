"""What is tried for a configured runtime, and where."""

import pytest

from adapters.memory.clock import ManualClock
from app.runtimes import candidates
from app.settings import RuntimeKind, RuntimeSettings, Settings
from app.use_cases.runtimes import Candidate


def tried(runtime: RuntimeSettings) -> tuple[Candidate, ...]:
    return candidates(Settings(runtime=runtime), ManualClock())


def test_each_kind_that_competes_is_tried_in_its_usual_places_in_the_order_of_preference() -> None:
    found = tried(RuntimeSettings(kind=RuntimeKind.AUTO))

    assert list(dict.fromkeys(each.kind for each in found)) == ["containerd", "docker", "cri"]
    assert found[0].place == "containerd at /run/containerd/containerd.sock"


def test_an_endpoint_is_the_only_place() -> None:
    found = tried(RuntimeSettings(kind=RuntimeKind.CRI, endpoint="unix:///run/crio/crio.sock"))

    assert [each.place for each in found] == ["cri at /run/crio/crio.sock"]


def test_the_runtime_in_memory_is_nowhere() -> None:
    assert tried(RuntimeSettings(kind=RuntimeKind.MEMORY)) == ()


@pytest.mark.parametrize("namespace, substituted", [("k8s.io", True), ("moby", False)])
def test_only_where_the_cri_sees_the_same_containers_it_stands_in_for_containerds_own_api(
    namespace: str, *, substituted: bool
) -> None:
    found = tried(RuntimeSettings(kind=RuntimeKind.CONTAINERD, containerd_namespace=namespace))

    assert {each.substitute is not None for each in found} == {substituted}


@pytest.mark.parametrize("kind", [RuntimeKind.DOCKER, RuntimeKind.CRI])
def test_the_others_have_no_substitute(kind: RuntimeKind) -> None:
    assert {each.substitute for each in tried(RuntimeSettings(kind=kind))} == {None}
