"""The doctor at a node whose container runtime, or whose containers, have a trouble for real."""

from collections.abc import AsyncIterator

import pytest

from adapters.memory.node.front import leave_stale_socket
from app.doctor import gathering
from app.settings import RuntimeKind, RuntimeSettings
from tests.integration.filesystem import needs_root
from tests.integration.ward import Ward, a_ward, line

pytestmark = needs_root


@pytest.fixture
async def ward() -> AsyncIterator[Ward]:
    async with a_ward() as made:
        yield made


class TestTheRuntime:
    async def test_there_is_none(self, ward: Ward) -> None:
        absent = RuntimeSettings(kind=RuntimeKind.DOCKER, endpoint="unix:///nowhere/docker.sock")

        found = await line(ward.settings(runtime=absent), "container runtime")

        assert found.startswith(
            "fail  container runtime: there is no container runtime's socket at /nowhere/docker.sock"
        )

    async def test_it_is_dead(self, ward: Ward) -> None:
        path = ward.stand.root / "docker.sock"
        leave_stale_socket(path)
        dead = RuntimeSettings(kind=RuntimeKind.DOCKER, endpoint=f"unix://{path}")

        assert "nothing listens there: start dockerd" in await line(ward.settings(runtime=dead), "container runtime")

    async def test_it_is_of_another_kind(self, ward: Ward) -> None:
        ward.runtime.sandbox("cnf")
        wrong = RuntimeSettings(kind=RuntimeKind.DOCKER, endpoint=f"unix://{ward.runtime.path}")

        found = await line(ward.settings(runtime=wrong), "container runtime")

        assert f"does not answer, but cri at {ward.runtime.path} shows 1 pod. Cure: set runtime.kind to cri" in found

    async def test_it_shows_no_pods(self, ward: Ward) -> None:
        assert (await line(ward.settings(), "container runtime")).startswith(
            f"warn  container runtime: cri at {ward.runtime.path} shows no pod of a kubelet. Cure: none is needed"
        )

    async def test_it_shows_no_pods_and_the_kubelet_has_some(self, ward: Ward) -> None:
        await ward.admitted()
        ward.runtime.sandboxes.clear()
        ward.runtime.containers.clear()

        assert (await line(ward.settings(), "container runtime")).startswith("fail  container runtime: ")

    async def test_it_hangs(self, ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gathering, "PATIENCE", 0.2)
        ward.runtime.hanging.add("ListPodSandbox")

        assert f"cri at {ward.runtime.path} has not answered within 0.2 s" in await line(
            ward.settings(), "container runtime"
        )

    async def test_it_is_the_one_of_demonstrations(self, ward: Ward) -> None:
        demonstration = RuntimeSettings(kind=RuntimeKind.MEMORY)

        found = await line(ward.settings(runtime=demonstration), "container runtime")

        assert "runtime.kind is memory, which shows no container of this node" in found


class TestContainers:
    async def test_one_that_asks_for_memif_and_has_none_in_the_record(self, ward: Ward) -> None:
        pod = await ward.admitted()
        name = pod.container("app").mounts["/run/vpp"].rpartition("/")[2]
        ward.stand.node.checkpoint_path.write_text('{"Data": {"PodDeviceEntries": []}}', encoding="utf-8")

        found = await line(ward.settings(), "recorded containers")

        assert f"are not in the kubelet's record: telco/cnf/app with {name}. Cure: delete these pods" in found

    async def test_a_volume_that_shadows_the_directory(self, ward: Ward) -> None:
        await ward.admitted(mounts={"/run/vpp": "/var/lib/kubelet/pods/x/volumes/scratch"})

        found = await line(ward.settings(), "mounts of containers")

        assert "telco/cnf/app: /run/vpp is /var/lib/kubelet/pods/x/volumes/scratch. Cure: give the volume" in found
