"""What the daemon as a process tells a scraper, a probe and the service manager that started it."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import CAPACITY, PATIENCE, RESOURCE, Daemon, Stand, a_stand, needs_root
from tests.e2e.hang import hanging
from tests.integration.nodes import app, pod
from tests.integration.plugin import ScriptedPlugin
from tests.integration.web import LOCALHOST, free_port, metrics, page

STANDBY = "standby: another process serves this node"
SERVING = "serving HTTP"
TAKEN = "the address for HTTP is taken; waiting until it is free"


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        made.configuration["http"] = {"listen": f"{LOCALHOST}:{free_port()}"}
        yield made


@pytest.fixture
async def bare() -> AsyncIterator[Stand]:
    """A stand whose kubelet does not run."""
    async with a_stand(kubelet=False) as made:
        made.configuration["http"] = {"listen": f"{LOCALHOST}:{free_port()}"}
        yield made


def port(stand: Stand) -> int:
    """Return the port that is configured."""
    return int(stand.configuration["http"]["listen"].rpartition(":")[2])


async def ready(stand: Stand) -> tuple[int, dict[str, Any]]:
    """Return what the readiness probe gets to see."""
    return await page(port(stand), "/readyz")


async def becomes(stand: Stand, path: str, status: int) -> dict[str, Any]:
    """Ask for a page until it has a status, and return it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found, content = await page(port(stand), path)
            if found == status:
                return content
            await asyncio.sleep(0.05)


class TestMetrics:
    async def test_allocations_and_restarts_of_the_kubelet_show_in_them(self, stand: Stand) -> None:
        daemon = await stand.registered()
        before = await metrics(port(stand))
        await stand.node.start(pod("one", app("a", 1, RESOURCE), app("b", 2, RESOURCE)))
        after = await metrics(port(stand))
        await stand.node.restart_kubelet()
        await daemon.registered(2)
        restarted = await metrics(port(stand))

        calls = "allocate_seconds_count", RESOURCE, "ok"
        assert (before[calls], after[calls]) == (0, 2)
        assert sum(after["allocations", RESOURCE, state] for state in ("pending", "bound")) == 2
        assert after["devices", "healthy", RESOURCE] == CAPACITY
        names = ("registered", RESOURCE), ("watch_streams", RESOURCE), ("kubelet_restarts_total",)
        assert [before[name] for name in names] == [1, 1, 0]
        assert [restarted[name] for name in names] == [1, 1, 1]

    async def test_clients_that_mean_no_good_do_not_disturb_an_allocate(self, stand: Stand) -> None:
        daemon = await stand.registered()

        async def nuisance() -> None:
            loop = asyncio.get_running_loop()
            while True:
                with suppress(OSError), socket.socket() as client:
                    client.setblocking(False)  # noqa: FBT003 -- the standard library's form
                    await loop.sock_connect(client, (LOCALHOST, port(stand)))
                    await loop.sock_sendall(client, secrets.token_bytes(2000))
                    await asyncio.sleep(0.02)

        nuisances = [asyncio.create_task(nuisance()) for _ in range(60)]
        try:
            for number in range(5):
                one = await stand.node.start(pod(f"pod-{number}", app("a", 1, RESOURCE)))
                assert one.running
        finally:
            for each in nuisances:
                each.cancel()
            await asyncio.wait(nuisances)
        found = await metrics(port(stand))

        assert found["allocate_seconds_count", RESOURCE, "ok"] == 5
        assert daemon.running
        assert daemon.warnings == []


class TestReadyz:
    async def test_it_is_ready_when_the_kubelet_watches(self, bare: Stand) -> None:
        daemon = await bare.run()
        await daemon.says(SERVING)
        await daemon.says("not registered with the kubelet")
        status, found = await ready(bare)
        assert (status, found["ready"], found["role"]) == (503, False, "active")
        assert str(bare.node.plugin_dir) in found["pools"][0]["reason"]
        await bare.node.start_kubelet()
        await daemon.registered()
        status, found = await ready(bare)

        assert (status, found["ready"], found["reasons"]) == (200, True, [])
        assert (await page(port(bare), "/healthz"))[0] == 200

    async def test_a_foreign_plugin_keeps_it_from_that_and_is_named(self, stand: Stand) -> None:
        async with ScriptedPlugin(stand.node.plugin_dir, resource=RESOURCE, count=2, endpoint="contiv-vpp.sock"):
            daemon = await stand.run()
            await daemon.says("not registering")
            status, found = await ready(stand)
        await daemon.registered()

        obstacle = f"another device plugin serves contiv-vpp.sock in {stand.node.plugin_dir}"
        assert (status, found["obstacle"], found["reasons"]) == (503, obstacle, [obstacle])
        assert (await ready(stand))[1]["obstacle"] is None

    async def test_a_standby_is_ready_while_the_other_lives(self, stand: Stand) -> None:
        first = await stand.registered()
        stand.configuration["http"] = {"listen": f"{LOCALHOST}:{free_port()}"}
        second = await stand.run()
        await second.says(STANDBY)
        await second.says(SERVING)
        status, found = await ready(stand)
        assert (status, found["role"], found["active"]["pid"]) == (200, "standby", first.process.pid)
        assert await metrics(port(stand)) == {
            key: value for key, value in (await metrics(port(stand))).items() if key[0] == "build_info"
        }
        await first.kill()
        await second.registered()
        status, found = await ready(stand)

        assert (status, found["role"], found["active"]) == (200, "active", None)

    async def test_two_processes_share_one_address(self, stand: Stand) -> None:
        """On a host's network they must: what a probe asks is then answered by the one that was first."""
        first = await stand.registered()
        second = await stand.run()
        await second.says(TAKEN)
        _, before = await ready(stand)
        await asyncio.sleep(2.5)  # two attempts more
        assert len(second.said(TAKEN)) == 1
        await first.stop()
        await second.says(SERVING)
        await second.registered()
        _, after = await ready(stand)

        assert before["instance"] != after["instance"] == second.said("starting")[0]["instance"]
        assert second.warnings == []


@needs_root
async def test_storage_that_hangs_fails_the_liveness_probe_and_the_pages_still_come(stand: Stand) -> None:
    daemon = await stand.registered()
    assert (await page(port(stand), "/healthz"))[0] == 200
    # To be made anew, it has to be opened.
    stand.host_dir.rmdir()
    stand.host_dir.mkdir(mode=0o711)
    loop = asyncio.get_running_loop()
    with hanging(stand.host_dir):
        began = loop.time()
        found = await becomes(stand, "/healthz", 503)
        took = loop.time() - began
    await becomes(stand, "/healthz", 200)
    one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
    print(f"\nit took {took:.1f} s")  # noqa: T201

    assert "a disk or mount does not answer" in " ".join(found["reasons"])
    assert one.running
    assert daemon.running


class Manager:
    """The service manager's end."""

    def __init__(self, address: str, name: str) -> None:
        self.environment = {"NOTIFY_SOCKET": address}
        self.told: list[str] = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind(name)

    async def run(self) -> None:
        """Listen for ever."""
        while True:
            self.told.append((await asyncio.get_running_loop().sock_recv(self.socket, 65536)).decode())

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is true of what was told."""
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110 -- what is waited for may be true of more than one datagram
                await asyncio.sleep(0.01)

    async def ended(self, daemon: Daemon) -> None:
        """Stop a daemon and wait until everything that it told has been heard."""
        assert await daemon.stop() == 0
        await self.until(lambda: "STOPPING=1" in self.told)


class TestServiceManager:
    @pytest.fixture(params=["path", "abstract"])
    def addressed(self, request: pytest.FixtureRequest, bare: Stand) -> Iterator[Manager]:
        if request.param == "path":
            path = str(Path(bare.root) / "notify")
            made = Manager(path, path)
        else:
            name = f"memif-test-{secrets.token_hex(8)}"
            made = Manager(f"@{name}", f"\0{name}")
        yield made
        made.socket.close()

    @pytest.fixture
    async def manager(self, addressed: Manager) -> AsyncIterator[Manager]:
        listening = asyncio.create_task(addressed.run())
        yield addressed
        listening.cancel()
        await asyncio.wait((listening,))

    async def test_is_told_in_order_from_the_start_to_the_end(self, bare: Stand, manager: Manager) -> None:
        """A unit may be ordered before the kubelet, so ready does not mean registered."""
        daemon = await bare.run(environment=manager.environment)
        await manager.until(lambda: manager.told)
        assert bare.state_dir.joinpath("state.db").exists()
        assert bare.host_dir.is_dir()
        assert daemon.said("registered with the kubelet") == []
        await bare.node.start_kubelet()
        await daemon.registered()
        await manager.until(lambda: f"STATUS=registered with the kubelet: {RESOURCE}" in manager.told)
        await manager.ended(daemon)

        assert manager.told[0].startswith(f"READY=1\nSTATUS={RESOURCE}: ")
        assert all(each.startswith("STATUS=") for each in manager.told[1:-1])
        assert manager.told[-1] == "STOPPING=1"

    async def test_is_told_once_that_a_process_is_ready_which_was_a_standby(
        self, bare: Stand, manager: Manager
    ) -> None:
        await bare.node.start_kubelet()
        await bare.node.wait_ready()
        first = await bare.registered()
        second = await bare.run(environment=manager.environment)
        await manager.until(lambda: manager.told)
        assert manager.told == [f"READY=1\nSTATUS=standby behind process {first.process.pid}"]
        await first.stop()
        await second.registered()
        await manager.until(lambda: f"STATUS=registered with the kubelet: {RESOURCE}" in manager.told)
        await manager.ended(second)

        assert [each for each in manager.told if "READY=1" in each] == manager.told[:1]

    async def test_gets_signs_of_life_twice_in_the_time_in_which_it_wants_one(
        self, bare: Stand, manager: Manager
    ) -> None:
        manager.environment["WATCHDOG_USEC"] = "200000"
        daemon = await bare.run(environment=manager.environment)
        await manager.until(lambda: manager.told.count("WATCHDOG=1") >= 5)
        await manager.ended(daemon)

        assert daemon.running is False

    async def test_that_is_gone_hurts_nobody(self, bare: Stand) -> None:
        await bare.node.start_kubelet()
        await bare.node.wait_ready()
        daemon = await bare.run(environment={"NOTIFY_SOCKET": str(bare.root / "nobody"), "WATCHDOG_USEC": "100000"})
        await daemon.registered()
        line = await daemon.says("the service manager cannot be told anything")

        assert line["reason"] == "No such file or directory"
        assert await daemon.stop() == 0
        assert len(daemon.warnings) == 1


async def test_who_has_started_it_is_nobodys_business_where_nobody_asks(bare: Stand) -> None:
    daemon = await bare.run(environment={"WATCHDOG_USEC": "100000"})
    await daemon.says(SERVING)

    assert await daemon.stop() == 0
    assert [each for each in daemon.warnings if "service manager" in each["event"]] == []
