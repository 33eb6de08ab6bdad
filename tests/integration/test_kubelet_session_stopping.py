"""Whatever a session is doing when it is stopped, nothing of it stays."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from tests.integration.kubelet import NEVER, QUICK, ScriptedKubelet, Side, a_directory, a_side, things, until

PATIENT = replace(QUICK, shortest_pause=NEVER, longest_pause=NEVER)

StoppedWhile = Callable[[Path], Awaitable[None]]


async def _without_kubelet(directory: Path) -> None:
    async with a_side(directory) as side:
        await side.until(lambda: bool(side.told.warnings))

    assert (side.sockets(), side.status().reason) == ([], "stopped")


async def _registering(directory: Path) -> None:
    async with ScriptedKubelet(directory) as kubelet:
        kubelet.hold.clear()
        async with a_side(directory) as side:
            await side.until(lambda: bool(kubelet.requests))
        await until(lambda: kubelet.given_up == 1)
        kubelet.hold.set()

        assert (side.sockets(), side.status().reason) == ([], "stopped")


async def _not_watched_yet(directory: Path) -> None:
    async with ScriptedKubelet(directory) as kubelet:
        kubelet.watches = False
        async with a_side(directory) as side:
            await side.until(lambda: side.status().registered)

        assert (side.sockets(), side.status().reason) == ([], "stopped")


async def _watched(directory: Path) -> None:
    async with ScriptedKubelet(directory) as kubelet:
        async with a_side(directory) as side:
            await side.watched()
        await until(lambda: not kubelet.watchers[0].watching)

        assert (side.sockets(), side.status().reason) == ([], "stopped")


async def _pausing(directory: Path) -> None:
    async with ScriptedKubelet(directory) as kubelet:
        kubelet.refuse = (grpc.StatusCode.UNKNOWN, "no")
        async with a_side(directory, times=PATIENT) as side:
            await side.until(lambda: bool(side.told.warnings))

        assert (side.sockets(), side.status().reason) == ([], "stopped")


async def _without_directory(directory: Path) -> None:
    async with a_side(directory / "missing", times=PATIENT) as side:
        await side.until(lambda: bool(side.told.warnings))

    assert side.status().reason == "stopped"


@pytest.mark.parametrize(
    "stopped_while", [_without_kubelet, _registering, _not_watched_yet, _watched, _pausing, _without_directory]
)
async def test_no_task_no_thread_no_descriptor_and_no_socket_stays(stopped_while: StoppedWhile) -> None:
    with a_directory() as directory:
        await stopped_while(directory)
        before = things()
        for _ in range(5):
            await stopped_while(directory)

        await until(lambda: things().within(before))


async def test_the_same_plugin_can_be_run_again_and_again() -> None:
    """Another plugin closed a channel twice when it was started anew after a restart of the kubelet."""
    with a_directory() as directory:
        side = Side(directory)
        async with ScriptedKubelet(directory) as kubelet:
            for times in range(1, 51):
                side.start()
                await side.watched()
                await side.stop()

                assert len(kubelet.requests) == times
                assert side.sockets() == []
