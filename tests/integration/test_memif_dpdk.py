"""Both of our ends with DPDK at the other one."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from adapters.memif.client import connect, probe
from adapters.memif.codec import Mode
from adapters.memif.errors import Refused
from adapters.memif.handshake import Interface
from adapters.memif.server import MemifServer
from tests.integration.memif import SECRET, WRONG, workdir
from tests.integration.testpmd import missing, running_testpmd


@pytest.fixture
def place() -> Iterator[str]:
    """A path for a socket, where DPDK can run; in continuous integration it must."""
    reason = missing()
    if reason is not None and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)
    with workdir() as directory:
        yield f"{directory}/memif.sock"


async def test_dpdk_as_the_dataplane_reports_our_link_up_and_says_why_it_refuses(place: str) -> None:
    async with running_testpmd("server", place, SECRET) as dataplane:
        await dataplane.until(f"Memif listener socket {place} created")
        await dataplane.until("Checking link statuses")  # its port is started
        accepted = await probe(place, secret=SECRET)
        await dataplane.until("Disconnect received: the probe is done")
        refusals = [
            (await probe(place, secret=WRONG)).refusal,
            (await probe(place)).refusal,
            (await probe(place, interface=9, secret=SECRET)).refusal,
            (await probe(place, secret=SECRET, mode=Mode.IP)).refusal,
        ]
        async with await connect(place, secret=SECRET, name="memif1") as link:
            await dataplane.until("Remote interface memif1 connected")
            assert link.up
            assert link.peer_interface == "net_memif0"
            with pytest.raises(Refused, match="Already connected"):
                await connect(place, secret=SECRET)
        await dataplane.until("Disconnect received: the client ends")

    assert accepted.accepted
    assert accepted.hello.name.startswith("DPDK ")
    assert refusals == ["Incorrect secret", "Secret required", "ID not found", "Only ethernet mode supported"]


async def test_dpdk_as_the_client_comes_up_on_our_server(place: str) -> None:
    async with (
        MemifServer(place, [Interface(id=1, secret=SECRET, name="memif0/1")]) as server,
        running_testpmd("client", place, SECRET) as client,
    ):
        await client.until("Remote interface memif0/1 connected")
        links = server.links
        await client.stop()
        async with asyncio.timeout(10):
            await server.until(lambda now: not now.links)

    assert links == {1: "net_memif0"}
    assert list(server.turned) == []


async def test_dpdk_with_another_secret_is_turned_away_by_our_server(place: str) -> None:
    async with (
        MemifServer(place, [Interface(id=1, secret=SECRET)]) as server,
        running_testpmd("client", place, WRONG) as client,
    ):
        await client.until("Disconnect received: incorrect secret")

    assert server.links == {}
