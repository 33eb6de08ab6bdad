"""Uninstalling in the test's own process: what may be removed, what may not, and what is left of it."""
# ruff: noqa: ASYNC240 -- nobody waits while a test looks at the disk

import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adapters.memory.node import ContainerSpec, Pod, PodSpec
from adapters.memory.node.front import leave_stale_socket
from app import uninstall
from app.settings import RuntimeKind, RuntimeSettings, Settings
from app.uninstall import NotNow, StillUsed
from tests.integration.daemon import RESOURCE, Stand, a_stand
from tests.integration.filesystem import mounts_below, needs_root, run
from tests.unit.cri_server import CriServer, a_cri_server

CNF = PodSpec(namespace="telco", name="cnf", containers=(ContainerSpec(name="app", limits={RESOURCE: 2}),))


class Site:
    """A node on which the daemon ran, and a runtime that shows another's pod."""

    def __init__(self, stand: Stand, runtime: CriServer) -> None:
        self.stand = stand
        self.runtime = runtime
        runtime.sandbox("bystander")

    def settings(self, **pool: Any) -> Settings:
        """Return the daemon's configuration; ``pool`` are keys of its pool that differ."""
        there = RuntimeSettings(kind=RuntimeKind.CRI, endpoint=f"unix://{self.runtime.path}")
        return self.stand.settings(**pool).model_copy(update={"runtime": there})

    async def left_behind(self, *, delete: bool = True) -> Pod:
        """Let a daemon serve a pod and stop; the pod is deleted afterwards, when it cannot notice."""
        house = await self.stand.serve(self.settings())
        pod = await self.stand.node.start(CNF)
        await house.stop()
        if delete:
            await self.stand.node.delete(pod)
        return pod

    @property
    def traces(self) -> set[str]:
        """The paths of everything that a daemon made."""
        places = (self.stand.host_dir, self.stand.state_dir, self.stand.root / "info")
        return {str(path) for place in places for path in (place, *place.rglob("*")) if path.exists()}


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    # Logging is the whole process', and other tests have theirs.
    monkeypatch.setattr(uninstall, "configure", lambda **_: None)
    async with a_stand() as stand, a_cri_server() as runtime:
        yield Site(stand, runtime)


async def test_everything_goes_and_a_second_time_there_is_nothing_to_do(site: Site) -> None:
    pod = await site.left_behind()
    first = await uninstall.clean(site.settings())
    second = await uninstall.clean(site.settings())

    assert site.traces == set()
    assert pod.container("app").mounts["/run/vpp"] in first.removed
    assert {str(site.stand.host_dir), str(site.stand.state_dir), site.settings().lock} <= set(first.removed)
    assert (second.removed, second.left, second.obstacles) == ((), (), ())


async def test_what_a_look_promises_is_what_happens(site: Site) -> None:
    await site.left_behind()
    before = site.traces
    found = await uninstall.look(site.settings())

    assert site.traces == before
    assert set(found.survey.paths) <= {*(await uninstall.clean(site.settings())).removed}


async def test_a_pod_of_which_only_the_kubelet_tells_keeps_everything(site: Site) -> None:
    await site.left_behind(delete=False)
    before = site.traces

    with pytest.raises(StillUsed, match="by pod telco/cnf"):
        await uninstall.clean(site.settings())
    assert site.traces == before


async def test_a_runtime_that_is_away_keeps_everything(site: Site) -> None:
    await site.left_behind()
    await site.runtime.stop()
    before = site.traces

    with pytest.raises(NotNow, match="who mounts what is unknown: "):
        await uninstall.clean(site.settings())
    assert site.traces == before


async def test_a_runtime_that_hangs_is_not_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uninstall, "PATIENCE", 0.2)
    await site.left_behind()
    site.runtime.hanging.add("ListContainers")

    with pytest.raises(NotNow, match=r"has not answered within 0\.2 s"):
        await uninstall.clean(site.settings())


async def test_a_record_that_is_not_understood_keeps_everything(site: Site) -> None:
    await site.left_behind()
    site.stand.node.checkpoint_path.write_text("{", encoding="utf-8")
    before = site.traces

    with pytest.raises(NotNow, match="what the kubelet would mount is unknown: "):
        await uninstall.clean(site.settings())
    assert site.traces == before


async def test_a_refusal_leaves_nothing_where_nothing_was(site: Site) -> None:
    await site.runtime.stop()

    with pytest.raises(NotNow):
        await uninstall.clean(site.settings())
    assert site.traces == set()


async def test_another_plugin_under_our_name_is_not_disturbed(site: Site) -> None:
    await site.left_behind()
    path = site.stand.node.plugin_dir / "contiv-vpp.sock"
    before = site.traces
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(path))
        agent.listen()
        with pytest.raises(NotNow, match=f"another plugin is at work: {path} answers; stop it first"):
            await uninstall.clean(site.settings())

    assert site.traces == before


async def test_what_is_not_ours_is_left_and_named(site: Site) -> None:
    await site.left_behind()
    foreign = site.stand.host_dir / "README"
    foreign.touch()
    other = site.stand.node.plugin_dir / "other.sock"
    leave_stale_socket(other)

    cleaned = await uninstall.clean(site.settings())

    assert cleaned.left == (str(foreign), str(site.stand.host_dir))
    assert site.traces == {str(site.stand.host_dir), str(foreign)}
    assert other.exists()


async def test_directories_of_an_earlier_pool_go_too(site: Site) -> None:
    await site.left_behind()
    await uninstall.clean(site.settings(host_dir=f"{site.stand.root}/new"))

    assert site.traces == set()


async def test_without_its_journal_what_only_that_names_is_said_to_be_left(site: Site) -> None:
    await site.left_behind()
    (site.stand.state_dir / "state.db").write_bytes(b"no journal at all")

    cleaned = await uninstall.clean(site.settings())

    (left,) = cleaned.left
    assert left.startswith("directories of earlier pools, which only the journal names: ")
    assert site.traces == set()


async def test_device_information_goes_too(site: Site) -> None:
    info = site.stand.root / "info"
    info.mkdir(mode=0o755)
    for name in ("contivpp.io-memif-contivpp.io-memif-3-device.json", "example.com-nic-1-device.json"):
        (info / name).touch()

    await uninstall.clean(site.settings(device_info_dir=str(info)))

    assert os.listdir(info) == ["example.com-nic-1-device.json"]  # noqa: PTH208 -- names are what it is about


@needs_root
async def test_what_cannot_be_removed_keeps_the_journal_and_is_done_by_the_next_one(site: Site) -> None:
    stuck = Path((await site.left_behind()).container("app").mounts["/run/vpp"], "stuck")
    stuck.mkdir()
    run("mount", "-t", "tmpfs", "tmpfs", str(stuck))

    cleaned = await uninstall.clean(site.settings())

    (obstacle,) = cleaned.obstacles
    assert obstacle.endswith("find it with findmnt and unmount it")
    assert (site.stand.state_dir / "state.db").exists()

    for each in mounts_below(str(site.stand.root)):  # what is mounted went along when its directory was renamed
        run("umount", each)
    assert (await uninstall.clean(site.settings())).obstacles == ()
    assert site.traces == set()
