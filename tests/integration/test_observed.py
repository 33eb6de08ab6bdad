"""What the running daemon tells a scraper, a probe and the service manager; time stands still here."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app import daemon
from app.settings import HttpSettings, Settings
from domain.resource import ResourceName
from tests.integration import web
from tests.integration.daemon import CAPACITY, RESOURCE, House, Stand, a_stand
from tests.integration.nodes import app, pod

LOCAL = HttpSettings(listen="127.0.0.1:0")


@pytest.fixture(autouse=True)
def _quick_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the loops turn often: they do so by real time, and are judged by the clock that stands still."""
    monkeypatch.setattr(daemon, "BEAT", 0.01)
    monkeypatch.setattr(daemon, "LOOK", 0.01)


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        yield made


def observed(stand: Stand, **changes: Any) -> Settings:
    """Return the usual configuration, with HTTP on a free port."""
    return stand.settings().model_copy(update={"http": LOCAL, **changes})


async def port(house: House) -> int:
    """Return the port on which a daemon serves, as soon as it does."""
    server = house.container.http()
    await house.until(lambda: server.port is not None)
    assert server.port is not None
    return server.port


async def get(house: House, path: str) -> tuple[int, str]:
    """Return status and body of a page."""
    return await web.get(await port(house), path)


async def page(house: House, path: str) -> tuple[int, dict[str, Any]]:
    """Return status and content of a page in JSON."""
    return await web.page(await port(house), path)


async def metrics(house: House) -> dict[tuple[str, ...], float]:
    """Return our metrics; see :func:`tests.integration.web.metrics`."""
    return await web.metrics(await port(house))


class TestMetrics:
    async def test_an_allocate_shows_in_them(self, stand: Stand) -> None:
        house = await stand.serve(observed(stand))
        before = await metrics(house)
        await stand.node.start(pod("one", app("a", 1, RESOURCE), app("b", 2, RESOURCE)))
        pending = await metrics(house)
        await house.reconcile()
        bound = await metrics(house)

        calls = "allocate_seconds_count", RESOURCE, "ok"
        assert (before[calls], pending[calls]) == (0, 2)
        states = [(each["allocations", RESOURCE, "pending"], each["allocations", RESOURCE, "bound"]) for each in
                  (before, pending, bound)]  # fmt: skip
        assert states == [(0, 0), (2, 0), (0, 2)]
        assert before["devices", "healthy", RESOURCE] == bound["devices", "healthy", RESOURCE] == CAPACITY
        assert bound["reconcile_runs_total", "ok"] > before["reconcile_runs_total", "ok"]

    async def test_a_kubelet_that_restarts_shows_in_them(self, stand: Stand) -> None:
        house = await stand.serve(observed(stand))
        before = await metrics(house)
        await stand.node.stop_kubelet()
        await house.until(lambda: not registered(house))
        between = await metrics(house)
        await stand.restart_kubelet(house)
        after = await metrics(house)

        names = ("registered", RESOURCE), ("watch_streams", RESOURCE), ("kubelet_restarts_total",)
        assert [[each[name] for name in names] for each in (before, between, after)] == [
            [1, 1, 0],
            [0, 0, 0],
            [1, 1, 1],
        ]
        assert before["registrations_total", RESOURCE, "ok"] == 1
        assert after["registrations_total", RESOURCE, "ok"] >= 2

    async def test_a_view_that_is_unknown_shows_in_them_and_after_five_minutes_in_the_log(self, stand: Stand) -> None:
        house = await stand.serve(observed(stand))
        stand.runtime.cut("connection refused")
        await house.reconcile()
        stand.clock.advance(300)
        found = await metrics(house)
        house.container.unknown_views()()

        assert (found["view_unknown_seconds", "runtime"], found["view_unknown_seconds", "checkpoint"]) == (300, 0)
        (event,) = [each for each in house.heard.warned if "unknown for long" in each]
        assert house.heard.facts(event)["reason"] == "connection refused"

    async def test_nothing_of_a_pod_is_in_them(self, stand: Stand) -> None:
        house = await stand.serve(observed(stand))
        one = await stand.node.start(pod("tell-tale", app("dataplane", 1, RESOURCE)))
        await house.reconcile()
        _, text = await get(house, "/metrics")

        (given,) = one.containers
        (name,) = stand.directories
        for hidden in (one.uid, "tell-tale", "telco", "dataplane", name, given.env["MEMIF_SECRET"], f"{RESOURCE}/"):
            assert hidden not in text


class TestHealthz:
    async def test_it_is_well_while_everything_turns(self, stand: Stand) -> None:
        house = await stand.serve(observed(stand))

        assert await page(house, "/healthz") == (200, {"healthy": True, "reasons": []})

    async def test_storage_that_hangs_fails_it_until_it_does_not(self, stand: Stand) -> None:
        house = await stand.serve(observed(stand))
        async with hanging(house):
            stand.clock.advance(8)
            await turn()
            before = await page(house, "/healthz")
            stand.clock.advance(1)
            status, found = await page(house, "/healthz")
        await turn()

        assert before[0] == 200
        assert (status, found["healthy"]) == (503, False)
        assert "a storage job has been running for 9 s; a disk or mount does not answer" in found["reasons"]
        assert (await page(house, "/healthz"))[0] == 200

    async def test_a_reconciler_that_hangs_fails_it(self, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
        house = await stand.serve(observed(stand))
        go_on = asyncio.Event()

        async def hang(*, dry_run: bool = False) -> None:
            del dry_run
            await go_on.wait()

        with monkeypatch.context() as patch:
            patch.setattr(house.container.reconciler(), "once", hang)
            house.container.reconciler().trigger()
            await turn()
            stand.clock.advance(120)
            await turn()
            status, found = await page(house, "/healthz")
        go_on.set()

        assert (status, found["reasons"]) == (503, ["the reconciler does not turn any more"])

    async def test_a_heartbeat_that_hangs_fails_it(self, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
        house = await stand.serve(observed(stand))
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(house.container.lock_worker(), "run", lambda *_, **__: never)
        await turn()
        stand.clock.advance(10)
        status, found = await page(house, "/healthz")
        monkeypatch.undo()
        never.set_result(None)

        assert status == 503
        assert "the heartbeat does not turn any more" in found["reasons"]


class TestReadyz:
    async def test_from_the_start_to_a_kubelet_that_is_gone(self, stand: Stand) -> None:
        await stand.node.stop_kubelet()
        house = stand.begin(observed(stand))
        await house.heard_of("not registered with the kubelet")
        waiting = await page(house, "/readyz")
        await stand.node.start_kubelet()
        await house.heard_of("registered with the kubelet")
        served = await page(house, "/readyz")
        await stand.node.stop_kubelet()
        await house.until(lambda: not registered(house))
        gone = await page(house, "/readyz")

        reason = f"nobody listens on {stand.node.kubelet_socket}; waiting for the kubelet to start"
        assert waiting == (
            503,
            {
                "ready": False,
                "role": "active",
                "phase": "serving",
                "instance": "one",
                "reasons": [f"{RESOURCE}: {reason}"],
                "obstacle": None,
                "pools": [{"resource": RESOURCE, "registered": False, "watched": False, "reason": reason}],
                "active": None,
            },
        )
        assert (served[0], served[1]["ready"], served[1]["reasons"]) == (200, True, [])
        assert served[1]["pools"] == [{"resource": RESOURCE, "registered": True, "watched": True, "reason": None}]
        assert (gone[0], gone[1]["ready"]) == (503, False)

    async def test_without_pools_it_is_ready(self, stand: Stand) -> None:
        house = stand.begin(observed(stand, pools=()))
        await house.heard_of("no pool is configured: there is nothing to serve")

        status, found = await page(house, "/readyz")
        assert (status, found["ready"], found["pools"]) == (200, True, [])

    async def test_a_standby_is_ready_while_the_active_process_beats(self, stand: Stand) -> None:
        await stand.serve(observed(stand))
        other = stand.begin(observed(stand), instance="two")
        await other.heard_of("standby: another process serves this node")
        behind = await page(other, "/readyz")
        assert set(await metrics(other)) == {("build_info", *next(iter(await metrics(other)))[1:])}
        await stand.houses[0].stop()
        await other.heard_of("registered with the kubelet")
        active = await page(other, "/readyz")

        assert behind[0] == 200
        assert (behind[1]["role"], behind[1]["phase"], behind[1]["active"]["instance"]) == ("standby", "standby", "one")
        assert (active[0], active[1]["role"], active[1]["active"]) == (200, "active", None)

    async def test_a_standby_behind_a_process_that_hangs_is_not(
        self, stand: Stand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = await stand.serve(observed(stand))
        other = stand.begin(observed(stand), instance="two")
        await other.heard_of("standby: another process serves this node")
        monkeypatch.setattr(first.container.lock(), "beat", lambda: None)
        stand.clock.advance(10.5)
        status, found = await page(other, "/readyz")

        assert (status, found["ready"]) == (503, False)
        assert "heartbeat" in found["reasons"][0]


class TestServiceManager:
    @pytest.fixture
    def listener(self, stand: Stand) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as made:
            made.bind(str(stand.root / "notify"))
            yield made

    @pytest.fixture(autouse=True)
    def _listened_to(self, stand: Stand, listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let every process that begins have been started by a service manager."""
        begin = stand.begin

        def begun(settings: Settings | None = None, *, instance: str = "one") -> House:
            house = begin(settings, instance=instance)
            house.container.service_manager()._address = listener.getsockname()
            house.container.service_manager().wanted = True
            return house

        monkeypatch.setattr(stand, "begin", begun)

    async def test_the_plugins_socket_answers_when_it_is_told_that_we_are_ready(
        self, stand: Stand, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await stand.node.stop_kubelet()
        house = stand.begin()
        manager, answered = house.container.service_manager(), []
        ready = manager.ready

        def connecting_first(status: str) -> None:
            for path in stand.node.plugin_dir.glob("contiv*"):
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(str(path))
                answered.append(path.name)
            ready(status)

        monkeypatch.setattr(manager, "ready", connecting_first)
        told = await until_told(house, listener, bool)

        assert told[0].startswith("READY=1\nSTATUS=")
        assert len(answered) == 1

    async def test_a_fresh_node_without_the_kubelets_directory_is_ready(
        self, stand: Stand, listener: socket.socket
    ) -> None:
        await stand.node.stop_kubelet()
        remove(stand.node.plugin_dir)
        house = stand.begin()
        told = await until_told(house, listener, bool)

        assert told[0].startswith("READY=1\nSTATUS=")

    async def test_signs_of_life_stop_while_storage_hangs(self, stand: Stand, listener: socket.socket) -> None:
        house = stand.begin()
        house.container.service_manager().watchdog = 0.04
        await house.heard_of("registered with the kubelet")
        await until_told(house, listener, lambda all_of: "WATCHDOG=1" in all_of)
        async with hanging(house):
            stand.clock.advance(10)
            heard(listener)
            await asyncio.sleep(0.1)
            during = heard(listener)
        after = await until_told(house, listener, lambda all_of: "WATCHDOG=1" in all_of)

        assert "WATCHDOG=1" not in during
        assert "WATCHDOG=1" in after


@asynccontextmanager
async def hanging(house: House) -> AsyncIterator[None]:
    """Let the storage worker hang in a job for the length of a block."""
    go_on = threading.Event()
    job = asyncio.create_task(house.container.worker().run("hanging", go_on.wait))
    await house.until(lambda: house.container.worker().busy_since is not None)
    try:
        yield
    finally:
        go_on.set()
        await job


async def turn() -> None:
    """Wait until the loops have turned, which they do very often here."""
    await asyncio.sleep(0.1)


def registered(house: House) -> bool:
    """Tell whether the pool is registered."""
    return house.container.plugins().registrations()[ResourceName(RESOURCE)].registered


def heard(listener: socket.socket) -> list[str]:
    """Return the datagrams that have come."""
    found = []
    while True:
        try:
            found.append(listener.recv(65536).decode())
        except BlockingIOError:
            return found


async def until_told(house: House, listener: socket.socket, enough: Callable[[list[str]], bool]) -> list[str]:
    """Wait for datagrams and return them."""
    told: list[str] = []

    def more() -> bool:
        told.extend(heard(listener))
        return enough(told)

    await house.until(more)
    return told


def remove(directory: Path) -> None:
    """Remove a directory of sockets."""
    for each in directory.iterdir():
        each.unlink()
    directory.rmdir()
