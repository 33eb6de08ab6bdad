"""SIGHUP: a changed configuration is taken over by the process that runs, as a whole or not at all."""

import copy
import json
import secrets
import signal
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpc import aio

from adapters.control.client import ControlClient
from tests.e2e.daemon import CAPACITY, PATIENCE, RESOURCE, Daemon, Stand, a_stand, asking, dev, plugin, soon
from tests.integration.nodes import app, pod
from tests.integration.web import LOCALHOST, free_port, metrics

OTHER = "example.com/other"
RELOADED = "the configuration was reloaded"
REFUSED = "the configuration was not reloaded; the one before stays in force"
DROPPED = "a drained pool is empty and not served any more"
STANDBY = "standby: another process serves this node"


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        yield made


def other(stand: Stand, **keys: Any) -> dict[str, Any]:
    """Return a second pool that goes with the first."""
    return {
        "resource": OTHER,
        "capacity": 3,
        "host_dir": str(stand.root / "other"),
        "container_dir": "/run/other",
        "env_suffix": "_OTHER",
        "annotation_prefix": "com.example.other",
        **keys,
    }


def write(stand: Stand, text: str | None = None) -> None:
    """Put the configuration as it is now, or some other text, where the daemon was told to find it."""
    content = json.dumps(stand.configuration) if text is None else text
    fresh = stand.root / "plugin.yaml.new"
    fresh.write_text(content, encoding="utf-8")
    fresh.rename(stand.root / "plugin.yaml")  # a file that is half written may be read


def hang_up(daemon: Daemon) -> None:
    daemon.process.send_signal(signal.SIGHUP)


async def reloaded(stand: Stand, daemon: Daemon, times: int = 1) -> dict[str, Any]:
    """Have the configuration taken over, and return what was said of it."""
    write(stand)
    hang_up(daemon)
    return await daemon.says(RELOADED, times)


async def refused(stand: Stand, daemon: Daemon, text: str | None = None, times: int = 1) -> str:
    """Have the configuration refused, and return why."""
    write(stand, text)
    hang_up(daemon)
    return str((await daemon.says(REFUSED, times))["reason"])


def listed(stand: Stand, resource: str) -> tuple[int, int]:
    """Return how many devices the kubelet has of a resource, healthy and not."""
    found = stand.node.resources()[resource]
    return found.capacity, found.allocatable


async def shows(stand: Stand, resource: str, capacity: int, healthy: int) -> None:
    """Wait until the kubelet has so many devices of a resource, and so many healthy ones."""
    await soon(lambda: resource in stand.node.resources() and listed(stand, resource) == (capacity, healthy))


async def status(stand: Stand) -> dict[str, Any]:
    """Return what the control API tells of the daemon."""
    return await ControlClient(str(stand.root / "control.sock")).status()


class TestPools:
    async def test_a_new_pool_appears_and_the_others_keep_their_streams(self, stand: Stand) -> None:
        daemon = await stand.registered()
        endpoint = await daemon.registered()
        stand.configuration["pools"].append(other(stand))
        said = await reloaded(stand, daemon)
        await shows(stand, OTHER, 3, 3)
        one = await stand.node.start(pod("one", app("a", 1, RESOURCE), app("b", 1, OTHER)))

        assert said["changed"] == ["pools"]
        assert one.container("b").env["MEMIF_SOCKET_OTHER"] == "/run/other/memif.sock"
        assert len(daemon.said("registered with the kubelet", resource=RESOURCE)) == 1
        assert str(endpoint) in stand.sockets
        assert daemon.warnings == []

    async def test_a_removed_pool_drains_and_goes_with_its_last_allocation(self, stand: Stand) -> None:
        stand.configuration["pools"].append(other(stand))
        stand.configuration["reconcile"] = {"interval": "1s", "grace": "0s"}
        daemon = await stand.registered()
        await stand.node.wait_registered(OTHER, within=PATIENCE)
        one = await stand.node.start(pod("one", app("a", 2, OTHER)))
        stand.configuration["pools"].pop()
        await reloaded(stand, daemon)
        await shows(stand, OTHER, 3, 0)
        await stand.node.restart_container(one, "a")  # which PreStartContainer has to agree to
        pools = {each["resource"]: each for each in (await status(stand))["pools"]}
        assert pools[OTHER]["reason"] == "not configured any more; served until its last allocation is gone"
        assert daemon.said(DROPPED) == []
        await stand.node.delete(one)
        await daemon.says(DROPPED, resource=OTHER)
        await soon(lambda: len(stand.sockets) == 1)

        assert list((stand.root / "other").iterdir()) == []
        assert len(daemon.said("registered with the kubelet", resource=RESOURCE)) == 1
        assert daemon.warnings == []

    async def test_a_removed_pool_without_allocations_goes_at_once(self, stand: Stand) -> None:
        stand.configuration["pools"].append(other(stand))
        daemon = await stand.registered()
        await stand.node.wait_registered(OTHER, within=PATIENCE)
        before = len(stand.sockets)
        kept = stand.configuration["pools"].pop()
        await reloaded(stand, daemon)
        await daemon.says(DROPPED, resource=OTHER)
        await soon(lambda: len(stand.sockets) == before - 1)
        assert [each["resource"] for each in (await status(stand))["pools"]] == [RESOURCE]

        stand.configuration["pools"].append(kept)
        await reloaded(stand, daemon, 2)
        await shows(stand, OTHER, 3, 3)
        assert len(daemon.said("registered with the kubelet", resource=RESOURCE)) == 1
        assert len(daemon.said("registered with the kubelet", resource=OTHER)) == 2

    async def test_a_lower_capacity_lists_the_higher_ids_as_unhealthy_until_the_next_start(self, stand: Stand) -> None:
        daemon = await stand.registered()
        stand.pool["capacity"] = 3
        await reloaded(stand, daemon)
        await shows(stand, RESOURCE, CAPACITY, 3)
        stand.pool["capacity"] = 5
        await reloaded(stand, daemon, 2)
        await shows(stand, RESOURCE, CAPACITY, 5)
        await daemon.stop()
        again = await stand.registered()
        await shows(stand, RESOURCE, 5, 5)

        assert len(daemon.said("registered with the kubelet")) == 1
        assert daemon.warnings == again.warnings == []

    async def test_an_allocation_keeps_what_it_was_made_with(self, stand: Stand) -> None:
        daemon = await stand.registered()
        one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
        (name,) = stand.directories
        before = one.container("a").env
        stand.pool.update(host_dir=str(stand.root / "elsewhere"), container_dir="/run/memif", env_suffix="_NEW")
        await reloaded(stand, daemon)
        two = await stand.node.start(pod("two", app("a", 1, RESOURCE)))
        (stand.host_dir / name).rmdir()
        await stand.node.restart_container(one, "a")

        assert one.container("a").env == before
        assert stand.directories == {name}
        assert two.container("a").env["MEMIF_SOCKET_NEW"] == "/run/memif/memif.sock"
        assert len(list((stand.root / "elsewhere").iterdir())) == 1

    async def test_device_ids_cannot_change_while_something_lives_and_nothing_else_does_then(
        self, stand: Stand
    ) -> None:
        daemon = await stand.registered()
        await stand.node.start(pod("one", app("a", 1, RESOURCE)))
        stand.configuration["pools"].append(other(stand))
        stand.pool.update(device_id="memif-{index}", capacity=2)
        reason = await refused(stand, daemon)

        assert reason.startswith(f"device_id of {RESOURCE} cannot change from '{{resource}}/{{index}}' to ")
        assert listed(stand, RESOURCE) == (CAPACITY, CAPACITY)
        assert OTHER not in stand.node.resources()
        assert (await status(stand))["config"]["error"] == reason

    async def test_without_allocations_the_ids_of_before_stay_listed_and_the_new_ones_can_be_had(
        self, stand: Stand
    ) -> None:
        daemon = await stand.registered()
        stand.pool["device_id"] = "memif-{index}"
        await reloaded(stand, daemon)
        await shows(stand, RESOURCE, 2 * CAPACITY, CAPACITY)
        async with plugin(stand.node.plugin_dir / next(iter(stand.sockets))) as client:
            await client.Allocate(asking(["memif-3"]))
        again = await stand.run()
        await again.says(STANDBY)
        await daemon.stop()
        await again.registered()

        assert again.warnings == []


class TestRefusals:
    async def test_a_broken_file_changes_nothing_and_every_attempt_says_why(self, stand: Stand) -> None:
        stand.configuration["http"] = {"listen": f"{LOCALHOST}:{free_port()}"}
        daemon = await stand.registered()
        port = int(stand.configuration["http"]["listen"].rpartition(":")[2])
        loaded = (await status(stand))["config"]["loaded"]
        first = await refused(stand, daemon, "pools: [")
        second = await refused(stand, daemon, "pools: [", times=2)
        told = (await status(stand))["config"]
        counted = await metrics(port)
        assert "plugin.yaml" in first
        assert first == second == told["error"]
        assert told["loaded"] == loaded
        assert (counted["config_reloads_total", "error"], counted["config_reloads_total", "ok"]) == (2, 0)

        await reloaded(stand, daemon)
        mended = (await status(stand))["config"]
        assert (mended["error"], mended["loaded"] > loaded) == (None, True)
        assert (await metrics(port))["config_reloads_total", "ok"] == 1

    async def test_what_cannot_change_while_it_runs_is_named_with_its_key(self, stand: Stand) -> None:
        daemon = await stand.registered()
        before = copy.deepcopy(stand.configuration)
        stand.configuration["runtime"]["kind"] = "docker"
        stand.configuration["state"] = str(stand.root / "elsewhere.db")
        stand.configuration["control"]["mode"] = "0660"
        stand.pool["capacity"] = 2
        reason = await refused(stand, daemon)

        named = [each.partition(": ")[0] for each in reason.split("; ")]
        assert named == ["runtime.kind", "state", "control.mode"]
        assert "runtime.kind: needs a restart to change from 'memory' to 'docker' (" in reason
        assert "control.mode: needs a restart to change from '0600' to '0660' (" in reason
        assert listed(stand, RESOURCE) == (CAPACITY, CAPACITY)
        stand.configuration = before
        assert (await reloaded(stand, daemon))["changed"] == []

    async def test_a_base_directory_that_cannot_be_had_is_a_reason_too(self, stand: Stand) -> None:
        daemon = await stand.registered()
        (stand.root / "taken").write_text("a file", encoding="utf-8")
        stand.configuration["pools"].append(other(stand, host_dir=str(stand.root / "taken")))
        reason = await refused(stand, daemon)

        assert f"{stand.root}/taken is not a directory" in reason
        assert [each["resource"] for each in (await status(stand))["pools"]] == [RESOURCE]

    async def test_a_file_that_is_gone_is_no_reason_to_use_the_defaults(self, stand: Stand) -> None:
        daemon = await stand.registered()
        (stand.root / "plugin.yaml").unlink()
        hang_up(daemon)

        assert "plugin.yaml" in str((await daemon.says(REFUSED))["reason"])


async def test_flags_and_environment_still_override_the_file(stand: Stand) -> None:
    daemon = await stand.run("--log-level", "debug", environment={"MEMIF_DP_DRAIN_ON_EXIT": "false"})
    await daemon.registered()
    stand.configuration["log"] = {"level": "error"}
    stand.configuration["drain_on_exit"] = True

    assert (await reloaded(stand, daemon))["changed"] == []


async def test_the_log_follows_its_configuration(stand: Stand) -> None:
    stand.configuration["log"] = {"level": "error"}
    daemon = await stand.run()
    await stand.node.wait_registered(RESOURCE, within=PATIENCE)
    await stand.node.start(pod("one", app("a", 1, RESOURCE)))
    stand.configuration["log"] = {"level": "info"}
    await reloaded(stand, daemon)
    await stand.node.start(pod("two", app("a", 1, RESOURCE)))
    await daemon.says("allocated")
    await daemon.stop()

    assert len(daemon.said("allocated")) == 1


async def test_a_standby_takes_it_over_and_uses_it_when_its_time_comes(stand: Stand) -> None:
    active = await stand.registered()
    standby = await stand.run()
    await standby.says(STANDBY)
    stand.configuration["pools"].append(other(stand))
    assert (await reloaded(stand, standby))["changed"] == ["pools"]
    assert OTHER not in stand.node.resources()
    assert "plugin.yaml" in await refused(stand, standby, "pools: [")
    await active.stop()
    await standby.registered()
    await shows(stand, OTHER, 3, 3)


async def test_many_at_once_are_one_after_the_other_and_harm_no_allocate(stand: Stand) -> None:
    daemon = await stand.registered()
    stand.configuration["pools"].append(other(stand))
    extra = stand.configuration["pools"][1]
    for number in range(30):
        stand.configuration["pools"] = [stand.pool, *([extra] if number % 2 else [])]
        write(stand)
        for _ in range(3):
            hang_up(daemon)
        async with plugin(stand.node.plugin_dir / str(await daemon.registered())) as client:
            await client.Allocate(asking([dev(number % CAPACITY)]))
    done = len(daemon.said(RELOADED))
    await reloaded(stand, daemon, done + 1)
    await shows(stand, OTHER, 3, 3)

    assert len(daemon.said("registered with the kubelet", resource=RESOURCE)) == 1
    assert daemon.warnings == []


async def test_a_pool_that_is_gone_answers_nobody_any_more(stand: Stand) -> None:
    """Whoever still holds its socket is refused, and the daemon goes on."""
    stand.configuration["pools"].append(other(stand))
    daemon = await stand.registered()
    await stand.node.wait_registered(OTHER, within=PATIENCE)
    endpoint = str((await daemon.says("registered with the kubelet", resource=OTHER))["endpoint"])
    async with plugin(stand.node.plugin_dir / endpoint) as client:
        stand.configuration["pools"].pop()
        await reloaded(stand, daemon)
        await daemon.says(DROPPED)
        with pytest.raises(aio.AioRpcError) as refusal:
            await client.Allocate(asking([f"{OTHER}/0"]))

    assert refusal.value.code().name == "UNAVAILABLE"
    assert daemon.running


async def test_the_service_manager_hears_of_it(stand: Stand) -> None:
    """As Type=notify-reload wants it: RELOADING with the time, then READY, whether it was taken over or refused."""
    name = f"\0memif-test-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listener:
        listener.bind(name)
        told: list[dict[str, str]] = []

        def hear() -> list[dict[str, str]]:
            while True:
                try:
                    text = listener.recv(4096).decode()
                except BlockingIOError:
                    return told
                told.append(dict(line.split("=", 1) for line in text.splitlines()))

        def readies() -> int:
            return sum("READY" in each for each in hear())

        daemon = await stand.run(environment={"NOTIFY_SOCKET": f"@{name[1:]}"})
        await daemon.registered()
        await soon(lambda: readies() == 1)
        await reloaded(stand, daemon)
        await soon(lambda: readies() == 2)
        await refused(stand, daemon, "nonsense")
        await soon(lambda: readies() == 3)
        await daemon.stop()
        hear()

    order = [next(iter(each)) for each in told if "STATUS" not in each or "READY" in each]
    assert order == ["READY", "RELOADING", "READY", "RELOADING", "READY", "STOPPING"]
    assert all(int(each["MONOTONIC_USEC"]) > 0 for each in told if "RELOADING" in each)
