"""Uninstalling with the installed command, on the embedded node."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters._pb.cri.runtime.v1 import api_pb2 as cri
from adapters.memory.node import ContainerSpec, Pod, PodSpec
from tests.e2e.commands import Ran, ran
from tests.e2e.daemon import ANYBODY, RESOURCE, Stand, a_stand, needs_root
from tests.unit.cri_server import CriServer, a_cri_server

CNF = PodSpec(namespace="telco", name="cnf", containers=(ContainerSpec(name="app", limits={RESOURCE: 2}),))
REALLY = ("--all", "--yes")


class Site:
    """A node on which the daemon ran, and a runtime that speaks the CRI and shows what a test puts there."""

    def __init__(self, stand: Stand, runtime: CriServer) -> None:
        self.stand = stand
        self.runtime = runtime
        stand.configuration["runtime"] = {"kind": "cri", "endpoint": f"unix://{runtime.path}"}
        runtime.sandbox("bystander")

    async def left_behind(self) -> Pod:
        """Let a daemon serve a pod, delete the pod, and kill the daemon before it notices."""
        daemon = await self.stand.registered()
        pod = await self.stand.node.start(CNF)
        await daemon.kill()
        return pod

    def show(self, pod: Pod) -> cri.Container:
        """Let the runtime show the pod's container as the kubelet made it."""
        given = pod.container("app")
        shown = self.runtime.container("cnf", "app", annotations=given.annotations)
        shown.labels["io.kubernetes.pod.uid"] = pod.uid
        self.runtime.mounts[shown.id] = [
            cri.Mount(container_path=inside, host_path=outside) for inside, outside in given.mounts.items()
        ]
        return shown

    async def cleanup(self, *arguments: str, through: tuple[str, ...] = ()) -> Ran:
        """Run the command with the daemon's configuration."""
        return await ran("cleanup", "--config", str(self.stand.root / "plugin.yaml"), *arguments, through=through)

    @property
    def traces(self) -> set[str]:
        """The paths of everything that a daemon made."""
        places = (self.stand.host_dir, self.stand.state_dir)
        below = {str(path) for place in places for path in (place, *place.rglob("*")) if path.exists()}
        sockets = {str(self.stand.node.plugin_dir / name) for name in self.stand.sockets}
        control = self.stand.root / "control.sock"
        return below | sockets | ({str(control)} if control.exists() else set())


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with a_stand() as stand, a_cri_server() as runtime:
        yield Site(stand, runtime)


async def test_nothing_is_left(site: Site) -> None:
    pod = await site.left_behind()
    directory = Path(pod.container("app").mounts["/run/vpp"])
    (directory / "cli.sock").touch()
    await site.stand.node.delete(pod)
    (site.stand.state_dir / "state.db.20300102T030405Z.bad").touch()
    (site.stand.host_dir / f".gone-{'b' * 20}-{'0' * 16}").mkdir()
    before = site.traces

    done = await site.cleanup(*REALLY)

    assert (done.code, done.error) == (0, "")
    assert site.traces == set()
    assert {f"removed {path}" for path in before if "cli.sock" not in path and ".gone-" not in path} <= {
        *done.out.splitlines(),
        # SQLite removes these itself when it closes the database that was read.
        f"removed {site.stand.state_dir}/state.db-shm",
        f"removed {site.stand.state_dir}/state.db-wal",
    }
    assert site.stand.node.plugin_dir.is_dir()


async def test_what_a_container_mounts_is_left_and_so_is_everything_else(site: Site) -> None:
    pod = await site.left_behind()
    shown = site.show(pod)
    name = pod.container("app").mounts["/run/vpp"].rpartition("/")[2]
    before = site.traces

    done = await site.cleanup(*REALLY, "--json")

    assert (done.code, done.json["error"]["reason"]) == (7, "IN_USE")
    assert f"{name} by container:{shown.id}" in done.error
    assert done.error.count("\n") == 1
    assert site.traces == before


async def test_while_the_daemon_runs_it_is_refused(site: Site) -> None:
    daemon = await site.stand.registered()
    before = site.traces

    done = await site.cleanup(*REALLY)

    assert (done.code, done.out) == (3, "")
    assert done.error.startswith(f"Error: the daemon runs (process {daemon.process.pid} holds ")
    assert site.traces == before


async def test_without_being_asked_twice_it_only_says_what_it_would_do(site: Site) -> None:
    pod = await site.left_behind()
    site.show(pod)
    directory = pod.container("app").mounts["/run/vpp"]
    before = site.traces

    people, hesitant, programs = await asyncio.gather(
        site.cleanup(), site.cleanup("--all"), site.cleanup("--yes", "--json")
    )

    assert [people.code, hesitant.code, programs.code] == [2, 2, 2]
    assert people.error == "Error: nothing was removed: that takes --all and --yes, both of them.\n"
    assert people.out == hesitant.out
    assert f"would remove {directory}" in people.out.splitlines()
    assert directory in programs.json["would_remove"]
    assert len(programs.json["in_use"]) == 1
    assert site.traces == before


@needs_root
async def test_without_rights_it_says_so(site: Site) -> None:
    await site.stand.node.delete(await site.left_behind())
    site.stand.root.chmod(0o755)
    before = site.traces

    done = await site.cleanup(*REALLY, through=ANYBODY)

    assert done.code == 3
    assert done.error.startswith("Error: the lock ")
    assert done.error.count("\n") == 1
    assert site.traces == before
