"""Leaving with every device withdrawn, if the configuration says so."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2, api_pb2_grpc
from app.settings import Settings
from tests.integration.daemon import CAPACITY, RESOURCE, House, Stand, a_stand
from tests.integration.nodes import app, pod

DRAINED = "drained: the kubelet was told that every device is unhealthy"


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        yield made


def draining(stand: Stand, **keys: object) -> Settings:
    """Return the usual configuration, with draining."""
    return Settings.model_validate({**stand.settings(**keys).model_dump(mode="json"), "drain_on_exit": True})


def last_list(stand: Stand) -> list[str]:
    """Return the health of each device in the last list that the kubelet got, whatever became of it."""
    return [device.health for device in stand.node.kubelet.devices.known[RESOURCE].values()]


async def left(stand: Stand, house: House) -> None:
    """Stop the daemon, and wait until the kubelet has noticed."""
    await house.stop()
    await stand.node.until(lambda: stand.node.streams(RESOURCE) == 0)


async def test_by_default_the_devices_stay_as_they_are(stand: Stand) -> None:
    """For an upgrade: the next process serves the same ones a moment later."""
    house = await stand.serve()
    await left(stand, house)

    assert last_list(stand) == ["Healthy"] * CAPACITY
    assert DRAINED not in house.heard.noted


async def test_every_device_is_unhealthy_before_the_stream_ends(stand: Stand) -> None:
    house = await stand.serve(draining(stand))
    await left(stand, house)

    assert last_list(stand) == ["Unhealthy"] * CAPACITY
    assert [call.what for call in stand.node.calls if call.rpc == "ListAndWatch"][-2:] == ["list", "end"]
    assert house.heard.noted[-2:] == [DRAINED, "stopped"]
    assert house.heard.warned == []


async def test_pods_that_run_keep_what_they_have_and_the_next_process_serves_them(stand: Stand) -> None:
    house = await stand.serve(draining(stand))
    one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
    before = stand.directories
    await left(stand, house)
    assert stand.directories == before
    again = await stand.serve(draining(stand), instance="two")
    await stand.node.restart_container(one, "a")

    assert stand.directories == before
    assert [each.id for each in again.live] == list(before)
    assert stand.node.resources()[RESOURCE].allocatable == CAPACITY


async def test_without_a_kubelet_there_is_nobody_to_tell(stand: Stand) -> None:
    await stand.node.stop_kubelet()
    house = stand.begin(draining(stand))
    await house.heard_of("not registered with the kubelet")
    await house.stop()

    assert house.heard.noted[-1] == "stopped"


async def test_told_to_leave_while_it_starts_it_has_nothing_to_withdraw(stand: Stand) -> None:
    house = stand.begin(draining(stand))
    await house.stop()

    assert house.heard.noted[-1] == "stopped"
    assert list(stand.node.plugin_dir.glob("contiv*")) == []


async def test_a_standby_has_nothing_to_withdraw(stand: Stand) -> None:
    first = await stand.serve()
    second = stand.begin(draining(stand), instance="two")
    await second.heard_of("standby: another process serves this node")
    await second.stop()

    assert stand.node.resources()[RESOURCE].allocatable == CAPACITY
    assert DRAINED not in (*first.heard.noted, *second.heard.noted)


async def test_a_kubelet_that_does_not_read_is_not_waited_for_long(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Played by a second reader, so that the node can go on; it is told when the stream ends."""
    monkeypatch.setattr("app.daemon._LAST_LISTS", 0.1)
    house = await stand.serve(draining(stand, capacity=50_000, device_id="memif-{index}"))
    (path,) = stand.node.plugin_dir.glob("contiv*")
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with aio.insecure_channel(f"unix:{path}", options=options) as channel:
        call = api_pb2_grpc.DevicePluginStub(channel).ListAndWatch(api_pb2.Empty())
        async with asyncio.timeout(10):
            await call.read()
        await left(stand, house)
        call.cancel()

    assert house.heard.warned == ["leaving although the kubelet has not taken every last device list"]
    assert set(last_list(stand)) == {"Unhealthy"}
