"""No secret in anything that the daemon prints, at any level, in any format, whatever fails."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2
from adapters.memory.node import EmbeddedNode
from domain.allocation import Allocation
from tests.e2e.daemon import PATIENCE, RESOURCE, Daemon, Stand, a_stand, asking, dev, plugin, soon
from tests.e2e.silence import like_secrets
from tests.integration.nodes import app, init, pod
from tests.unit.house import House


def test_the_search_at_the_end_of_every_test_here_finds_them() -> None:
    """In any of the forms in which one might be printed, whatever surrounds it."""
    world = House().world
    for _ in range(300):
        secret = world.entropy.secret(20).reveal()
        line = f'{{"allocation": "bcdfghjklmnpqrstvwxz", "fault": "DirectoryUnusable", "reason": "said {secret!r}"}}'
        assert like_secrets([line], b"..." + secret.encode()) == [secret]
        assert like_secrets([line.replace(secret, "***")], secret.encode()) == []


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        made.pool["secret_delivery"] = "both"
        made.pool["pod_file"] = True
        yield made


class Handed:
    """Every secret that was handed out, as the kubelet and the journal know them."""

    def __init__(self) -> None:
        self.secrets: set[str] = set()

    def by(self, node: EmbeddedNode) -> None:
        """Note what the kubelet has stored."""
        for entry in node.kubelet.devices.entries.values():
            self.secrets.add(entry.answer.envs["MEMIF_SECRET"])

    def in_journal(self, allocations: tuple[Allocation, ...]) -> None:
        """Note what the journal holds."""
        self.secrets.update(each.secret.reveal() for each in allocations)

    def assert_silent(self, daemon: Daemon) -> None:
        """Look for every secret in everything that was printed."""
        printed = "\n".join((*daemon.stdout, *daemon.stderr))
        assert printed
        assert [secret for secret in self.secrets if secret in printed] == []


async def life(stand: Stand, daemon: Daemon, handed: Handed) -> None:
    """Let a node live through everything that is logged: grants, starts, refusals, restarts, damage, ends."""
    node = stand.node
    one = await node.start(pod("one", init("setup", 1, RESOURCE), app("a", 2, RESOURCE)))
    handed.by(node)
    for each in stand.host_dir.iterdir():  # a directory as a container runtime would have made it
        each.chmod(0o755)
        (each / "secret").write_text("overwritten by a tenant", encoding="utf-8")
    await node.restart_container(one, "a")
    await node.restart_kubelet()
    await node.wait_registered(RESOURCE, within=PATIENCE)
    await node.wait_ready()
    await node.start(pod("two", app("a", 1, RESOURCE)))
    handed.by(node)
    stand.host_dir.chmod(0o777)
    await node.admit(pod("refused", app("a", 1, RESOURCE)))
    stand.host_dir.chmod(0o711)
    await node.delete(one)
    async with plugin(stand.node.plugin_dir / next(iter(stand.sockets))) as client:
        for request in (asking([dev(99)]), asking([dev(1), dev(1)]), asking()):
            with pytest.raises(aio.AioRpcError):
                await client.Allocate(request)
        with pytest.raises(aio.AioRpcError):
            await client.PreStartContainer(api_pb2.PreStartContainerRequest(devices_ids=[dev(98)]))
    assert daemon.running


def damage(state: Path) -> None:
    """Overwrite a number of the journal with a text that holds what stands beside it."""
    content = state.read_bytes()
    state.write_bytes(content[:100] + bytes(byte ^ 0x55 for byte in content[100:2000]) + content[2000:])


@pytest.mark.parametrize("log_format", ["json", "console"])
async def test_through_a_nodes_whole_life_at_level_debug(stand: Stand, log_format: str) -> None:
    handed = Handed()
    daemon = await stand.run("--log-level", "debug", log_format=log_format)
    await stand.node.wait_registered(RESOURCE, within=PATIENCE)
    await life(stand, daemon, handed)
    await daemon.stop()
    handed.in_journal(tuple(allocation for allocation, _ in stand.journal().allocations))
    damage(stand.state_dir / "state.db")
    second = await stand.run("--log-level", "debug", log_format=log_format)
    await soon(lambda: any("the kubelet's checkpoint names it" in line for line in second.stderr))
    await second.stop()
    handed.in_journal(tuple(allocation for allocation, _ in stand.journal().allocations))

    assert len(handed.secrets) >= 3
    for each in (daemon, second):
        handed.assert_silent(each)
    assert any("a call of the kubelet was refused" in line for line in daemon.stderr)
    assert any("a directory was not as it must be and was mended" in line for line in daemon.stderr)
    assert any("set aside" in line for line in second.stderr)


async def test_when_it_ends_by_a_fault(stand: Stand) -> None:
    """A traceback's frames may hold answers; neither a crash nor a refusal to start shows them."""
    handed = Handed()
    daemon = await stand.run("--log-level", "debug")
    await stand.node.wait_registered(RESOURCE, within=PATIENCE)
    await stand.node.start(pod("one", app("a", 1, RESOURCE)))
    handed.by(stand.node)
    (stand.state_dir / "lock").unlink()
    assert await daemon.ended() == 3
    stand.pool["device_id"] = "memif-{index}"
    second = await stand.run("--log-level", "debug")
    assert await second.ended() == 2

    assert len(handed.secrets) == 1
    handed.assert_silent(daemon)
    handed.assert_silent(second)


async def test_when_the_kubelets_record_is_not_understood(stand: Stand) -> None:
    """The file holds every answer, so no parser's own words about it may be shown."""
    handed = Handed()
    daemon = await stand.run("--log-level", "debug")
    endpoint = await daemon.registered()
    await stand.node.wait_registered(RESOURCE, within=PATIENCE)
    one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
    handed.by(stand.node)
    (held,) = stand.node.devices_of(one)["a"][RESOURCE]
    text = stand.node.checkpoint_path.read_text(encoding="utf-8")
    async with plugin(stand.node.plugin_dir / endpoint) as client:
        for broken in (
            text[: len(text) // 2],
            text.replace('"DeviceIDs"', '"DeviceIdentities"'),
            text.replace('"AllocResp":"', '"AllocResp":"!'),
        ):
            assert broken != text
            stand.node.checkpoint_path.write_text(broken, encoding="utf-8")
            await client.PreStartContainer(api_pb2.PreStartContainerRequest(devices_ids=[held]))
        asked = "the kubelet was asked to forget dead pods"
        await daemon.until(lambda: any("is not understood" in line["reason"] for line in daemon.said(asked)))
    await daemon.stop()

    assert len(handed.secrets) == 1
    handed.assert_silent(daemon)
