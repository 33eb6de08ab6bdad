"""Docker, a real one, keeps the port's promises."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from adapters.docker.runtime import DockerRuntime
from adapters.system.clock import SystemClock
from domain.evidence import ObjectKind, ObjectState
from domain.ports.runtime import RuntimeUnavailable
from tests.contract.runtime import RuntimeContract
from tests.contract.runtime_stage import PATIENCE, PREFIX, hint, listening
from tests.rig.dockerd import PrivateDockerd


class DockerStage:
    """A real dockerd, with the containers that cri-dockerd makes of a pod."""

    kind = "docker"

    def __init__(self, rig: PrivateDockerd) -> None:
        self.rig = rig
        self.host_dir = str(rig.home / "memif")
        self.clock = SystemClock()
        self.runtime = DockerRuntime(endpoint=f"unix://{rig.socket}", prefixes=(PREFIX,), clock=self.clock, deadline=2)

    async def sandbox(self, uid: str, namespace: str, name: str, annotations: Mapping[str, str]) -> str:
        return self.rig.run_sandbox(uid, namespace, name, annotations)

    async def container(
        self, sandbox: str, name: str, *, mounts: Mapping[str, str], annotations: Mapping[str, str]
    ) -> str:
        return self.rig.create_container(sandbox, name, mounts=mounts, annotations=annotations)

    async def start(self, container: str) -> None:
        self.rig.start_container(container)

    async def end(self, container: str) -> None:
        self.rig.end_container(container)

    async def remove(self, container: str) -> None:
        self.rig.remove_container(container)

    async def cut(self) -> None:
        self.rig.stop()

    async def hang(self) -> None:
        self.rig.freeze()

    async def restore(self) -> None:
        self.rig.thaw()
        self.rig.start()


@pytest.fixture
async def stage(docker_rig: PrivateDockerd) -> AsyncIterator[DockerStage]:
    stage = DockerStage(docker_rig)
    yield stage
    await stage.runtime.aclose()
    await stage.restore()
    docker_rig.clear()


class TestDockerRuntime(RuntimeContract):
    """Everything is inherited."""


class TestDocker:
    """What is Docker's own."""

    async def test_labels_of_an_image_are_claims_only_where_they_are_spelt_like_annotations(
        self, stage: DockerStage
    ) -> None:
        """Docker merges an image's labels into those of its containers.  No mount comes of them."""
        labels = {f"{PREFIX}.socket.host": "/etc/victim2/s", f"annotation.{PREFIX}.socket.host": "/etc/victim/s"}
        image = stage.rig.build("localhost/evil:1", labels)
        sandbox = await stage.sandbox("uid-1", "telco", "evil", {})
        container = stage.rig.create_container(sandbox, "a", image=image)

        found = {thing.id: thing for thing in (await stage.runtime.snapshot()).objects}

        assert found[container].claimed == {f"{PREFIX}.socket.host": "/etc/victim/s"}
        assert not found[container].mounts

    async def test_an_image_cannot_pass_a_container_off_as_a_sandbox_or_as_another_pods(
        self, stage: DockerStage
    ) -> None:
        labels = {"io.kubernetes.docker.type": "podsandbox", "io.kubernetes.pod.uid": "uid-of-another"}
        image = stage.rig.build("localhost/evil:2", labels)
        sandbox = await stage.sandbox("uid-1", "telco", "evil", {})
        container = stage.rig.create_container(sandbox, "a", image=image)

        found = {thing.id: thing for thing in (await stage.runtime.snapshot()).objects}

        assert (found[container].kind, found[container].uid) == (ObjectKind.CONTAINER, "uid-1")

    async def test_a_container_that_is_no_pods_shows_what_it_mounts(self, stage: DockerStage) -> None:
        container = stage.rig.create(mounts={"/run/vpp": f"{stage.host_dir}/x"})

        (thing,) = (await stage.runtime.snapshot()).objects

        assert (thing.id, thing.kind, thing.uid) == (container, ObjectKind.CONTAINER, None)
        assert thing.mounts == {"/run/vpp": f"{stage.host_dir}/x"}

    async def test_a_paused_container_exists(self, stage: DockerStage) -> None:
        container = stage.rig.create()
        stage.rig.start_container(container)
        stage.rig.pause_container(container)

        (thing,) = (await stage.runtime.snapshot()).objects

        assert thing.state is ObjectState.PAUSED

    async def test_megabytes_of_labels_and_environment_are_read(self, stage: DockerStage) -> None:
        stage.rig.create(labels={"example.com/big": "x" * 3_000_000}, environment={"BIG": "x" * 3_000_000})

        (thing,) = (await stage.runtime.snapshot()).objects

        assert thing.claimed == {}

    async def test_megabytes_of_labels_in_an_event_are_a_hint(self, stage: DockerStage) -> None:
        async with listening(stage) as feed:
            stage.rig.create(labels={"example.com/big": "x" * 3_000_000})

            await hint(feed)

    async def test_a_feed_of_a_daemon_that_hangs_can_be_let_go(self, stage: DockerStage) -> None:
        async with asyncio.timeout(PATIENCE):
            async with listening(stage):
                await stage.hang()
            with pytest.raises(RuntimeUnavailable, match="does not answer within"):
                await hint(stage.runtime.changes())

    async def test_a_container_that_is_removed_by_force_is_hinted_at(self, stage: DockerStage) -> None:
        container = stage.rig.create()
        async with listening(stage) as feed:
            stage.rig.remove_container(container)
            await hint(feed)

            assert (await stage.runtime.snapshot()).objects == ()

    async def test_the_socket_of_its_containerd_is_not_taken_for_docker(self, stage: DockerStage) -> None:
        docker = DockerRuntime(endpoint=stage.rig.containerd, prefixes=(), clock=stage.clock, deadline=2)

        with pytest.raises(RuntimeUnavailable, match="the connection broke"):
            await docker.snapshot()
