"""What is logged of one call has one id, so that its lines are found together."""

from collections.abc import AsyncIterator

import pytest
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2
from adapters.control.client import ControlClient
from tests.e2e.daemon import Stand, a_stand, asking, dev, granted_name, plugin

MENDED = "a missing directory was made again"
REFUSED = "a call of the kubelet was refused"


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        made.configuration["reconcile"] = {"interval": "1h", "grace": "1h"}  # or one might mend what a call has to
        yield made


async def test_each_call_of_the_kubelet_has_one_of_its_own(stand: Stand) -> None:
    daemon = await stand.registered()
    # The registration has triggered a reconcile; this one comes after it.
    await ControlClient(str(stand.root / "control.sock")).reconcile(dry_run=False)
    async with plugin(stand.node.plugin_dir / next(iter(stand.sockets))) as client:
        answer = await client.Allocate(asking([dev(1)], [dev(2)]))
        one = granted_name_of_first(answer)
        (stand.host_dir / one).rmdir()
        await client.PreStartContainer(api_pb2.PreStartContainerRequest(devices_ids=[dev(1)]))
        with pytest.raises(aio.AioRpcError):
            await client.Allocate(asking([dev(99)]))
    await daemon.says(REFUSED)

    allocated = [line["request"] for line in daemon.said("allocated")]
    others = [daemon.said(event)[0]["request"] for event in (MENDED, REFUSED)]
    assert allocated[0] == allocated[1]
    assert len({allocated[0], *others}) == 3


async def test_what_a_client_of_the_control_api_changes_has_one_too(stand: Stand) -> None:
    daemon = await stand.registered()
    await ControlClient(str(stand.root / "control.sock")).reconcile(dry_run=False)
    asked = await daemon.says("a reconcile was asked for")

    assert asked["request"]


async def test_what_the_daemon_does_by_itself_has_none(stand: Stand) -> None:
    daemon = await stand.registered()

    assert all("request" not in line for line in daemon.lines)


def granted_name_of_first(answer: api_pb2.AllocateResponse) -> str:
    """Return the directory of the first container's answer."""
    return granted_name(api_pb2.AllocateResponse(container_responses=answer.container_responses[:1]))
