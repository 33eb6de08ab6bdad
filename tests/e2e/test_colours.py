"""Colours are for people in front of a terminal, unless they do not want any."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

import pytest

from tests.e2e.daemon import CHECKOUT, RESOURCE, Stand, a_stand
from tests.integration.nodes import app, pod

ESCAPE = "\x1b"


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    async with a_stand() as made:
        await made.registered()
        await made.node.start(pod("one", app("a", 1, RESOURCE)))
        yield made


async def shown(stand: Stand, *arguments: str, **environment: str) -> str:
    """Run a command on a terminal, and return what appears there."""
    ours, theirs = os.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app", *arguments, "--control-socket", str(stand.root / "control.sock")),
            cwd=CHECKOUT,
            env={**{name: value for name, value in os.environ.items() if name != "NO_COLOR"}, **environment},
            stdout=theirs,
            stderr=theirs,
        )
        assert await process.wait() == 0
        return os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("command", ["status", "allocations"])
async def test_on_a_terminal(stand: Stand, command: str) -> None:
    coloured = await shown(stand, command)
    plain = await shown(stand, command, NO_COLOR="1")

    assert ESCAPE in coloured
    assert ESCAPE not in plain
    assert RESOURCE in plain


async def test_never_in_what_programs_read(stand: Stand) -> None:
    assert ESCAPE not in await shown(stand, "status", "--json")
