"""Two processes on one node, and other plugins that serve under our names."""

import json
import time
from collections.abc import AsyncIterator

import pytest

from adapters.memory.node.front import leave_stale_socket
from tests.e2e.daemon import RESOURCE, Daemon, Stand, a_stand
from tests.integration.nodes import app, pod
from tests.integration.plugin import ScriptedPlugin

STANDBY = "standby: another process serves this node"
CONTIV = "contiv-vpp.sock"


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        yield made


async def standby(stand: Stand) -> Daemon:
    """Start another process, and wait until it waits."""
    daemon = await stand.run()
    await daemon.says(STANDBY)
    return daemon


class TestStandby:
    async def test_the_second_process_says_so_and_touches_nothing(self, stand: Stand) -> None:
        first = await stand.registered()
        sockets = stand.sockets
        second = await standby(stand)
        one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))

        holder = json.loads((stand.state_dir / "lock").read_text(encoding="utf-8"))
        (line,) = second.said(STANDBY)
        assert (line["active_pid"], line["active_instance"]) == (first.process.pid, holder["instance"])
        assert one.running
        assert stand.sockets == sockets
        assert second.events == ["starting", STANDBY]
        assert first.running
        assert first.warnings == []
        assert stand.node.streams(RESOURCE) == 1

    @pytest.mark.parametrize("how", ["stopped", "killed"])
    async def test_it_serves_as_soon_as_the_first_is_gone(self, stand: Stand, how: str) -> None:
        """Within a second on an idle node; what it took here is printed and not asserted."""
        first = await stand.registered()
        one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
        given, before, (socket,) = dict(one.container("a").env), stand.directories, stand.sockets
        second = await standby(stand)
        began = time.monotonic()
        if how == "stopped":
            assert await first.stop() == 0
        else:
            await first.kill()
        await second.registered()
        print(f"\nregistered {time.monotonic() - began:.2f} s after the first process was {how}")  # noqa: T201

        await stand.node.wait_registered(RESOURCE)
        await stand.node.restart_container(one, "a")
        assert (one.container("a").running, dict(one.container("a").env)) == (True, given)
        assert stand.directories == before
        assert socket not in stand.sockets
        assert len(stand.sockets) == 1
        assert bool(second.said("the socket of a dead process was removed", socket=socket)) is (how == "killed")
        assert not any("adopted" in event for event in second.events)

    async def test_one_that_is_told_to_stop_while_it_waits_stops(self, stand: Stand) -> None:
        first = await stand.registered()
        second = await standby(stand)

        assert await second.stop() == 0
        assert first.running
        assert stand.node.registered(RESOURCE)


class TestACrash:
    async def test_a_process_that_starts_after_it_keeps_everything(self, stand: Stand) -> None:
        first = await stand.registered()
        one = await stand.node.start(pod("one", app("a", 1, RESOURCE), app("b", 2, RESOURCE)))
        before = {name: (stand.host_dir / name).stat().st_ino for name in stand.directories}
        given = [dict(each.env) for each in one.containers]
        await first.kill()
        second = await stand.registered()
        await stand.node.restart_container(one, "b")

        assert {name: (stand.host_dir / name).stat().st_ino for name in stand.directories} == before
        assert [dict(each.env) for each in one.containers] == given
        assert second.warnings == []
        assert len(stand.sockets) == 1


class TestForeignPlugins:
    """An old Contiv agent serves as ``contiv-vpp.sock``: two plugins of one resource take the devices in turns."""

    @pytest.fixture
    async def agent(self, stand: Stand) -> AsyncIterator[ScriptedPlugin]:
        plugin = ScriptedPlugin(stand.node.plugin_dir, resource=RESOURCE, count=2, endpoint=CONTIV)
        async with plugin:
            await stand.node.wait_registered(RESOURCE)
            yield plugin

    async def test_it_waits_unregistered_and_says_why_until_the_agent_is_gone(
        self, stand: Stand, agent: ScriptedPlugin
    ) -> None:
        daemon = await stand.run()
        line = await daemon.says("not registering")
        assert line["reason"] == f"another device plugin serves {CONTIV} in {stand.node.plugin_dir}"
        assert line["cure"] == "stop it, or start this plugin with --take-over"
        assert stand.sockets == {CONTIV}
        assert agent.seen.count("ListAndWatch open") == 1
        assert "ListAndWatch end" not in agent.seen
        await agent.stop()
        await daemon.registered()
        await stand.node.wait_registered(RESOURCE)

        assert len(daemon.said("not registering")) == 1
        assert stand.node.resources()[RESOURCE].allocatable == 8

    async def test_it_stops_cleanly_while_it_waits(self, stand: Stand, agent: ScriptedPlugin) -> None:
        daemon = await stand.run()
        await daemon.says("not registering")

        assert await daemon.stop() == 0
        assert agent.path.exists()

    async def test_with_take_over_it_registers_at_once(self, stand: Stand, agent: ScriptedPlugin) -> None:
        daemon = await stand.run("--take-over")
        line = await daemon.says("other device plugins are overridden")
        await daemon.registered()

        assert line["sockets"] == [CONTIV]
        assert agent.path.exists()
        assert daemon.said("not registering") == []

    async def test_a_socket_that_an_agent_left_behind_is_nobody(self, stand: Stand) -> None:
        leave_stale_socket(stand.node.plugin_dir / CONTIV)
        daemon = await stand.registered()

        assert daemon.said("not registering") == []
