"""The doctor asks a real containerd, where the configuration expects something else."""

from collections.abc import AsyncIterator

import pytest

from app.doctor import examine, gathering
from app.settings import RuntimeKind, RuntimeSettings
from domain.diagnosis.findings import Finding, Verdict
from domain.diagnosis.runtime import RUNTIME
from tests.integration.daemon import Stand, a_stand
from tests.rig.containerd import PrivateContainerd
from tests.rig.pods import PodName, Pods, pods_of


@pytest.fixture
async def pods(containerd_rig: PrivateContainerd) -> AsyncIterator[Pods]:
    async with pods_of(containerd_rig.socket, containerd_rig.home) as made:
        yield made


@pytest.fixture
async def stand(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stand]:
    monkeypatch.setattr(gathering, "PATIENCE", 10.0)  # whether it is quick is another question
    async with a_stand() as made:
        yield made


async def finding(stand: Stand, kind: RuntimeKind, socket: str) -> Finding:
    """Return what is found of the runtime when it is configured so."""
    runtime = RuntimeSettings(kind=kind, endpoint=f"unix://{socket}")
    (found,) = [
        each
        for each in await examine(stand.settings().model_copy(update={"runtime": runtime}))
        if each.check == RUNTIME
    ]
    return found


@pytest.mark.parametrize("kind", [RuntimeKind.AUTO, RuntimeKind.CONTAINERD, RuntimeKind.CRI])
async def test_it_is_found_by_either_of_its_apis(
    containerd_rig: PrivateContainerd, pods: Pods, stand: Stand, kind: RuntimeKind
) -> None:
    await pods.run_sandbox(PodName(uid="uid-1", namespace="telco", name="cnf"))

    found = await finding(stand, kind, containerd_rig.socket)

    assert found.verdict is Verdict.OK
    assert found.what.endswith(f" at {containerd_rig.socket} shows 1 pod")


async def test_it_is_no_docker(containerd_rig: PrivateContainerd, pods: Pods, stand: Stand) -> None:
    await pods.run_sandbox(PodName(uid="uid-1", namespace="telco", name="cnf"))

    found = await finding(stand, RuntimeKind.DOCKER, containerd_rig.socket)

    assert found.verdict is Verdict.FAIL
    assert (
        f"docker at {containerd_rig.socket} does not answer, but containerd at {containerd_rig.socket} shows 1 pod"
        in (found.what)
    )
    assert str(found.cure).startswith("set runtime.kind to containerd")


async def test_it_is_frozen(containerd_rig: PrivateContainerd, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "PATIENCE", 0.5)
    containerd_rig.freeze()
    try:
        found = await finding(stand, RuntimeKind.CONTAINERD, containerd_rig.socket)
    finally:
        containerd_rig.thaw()

    assert found.verdict is Verdict.FAIL
    assert "has not answered within 0.5 s" in found.what
