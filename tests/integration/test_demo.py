"""The demo: everything that it shows is a check, and nothing of it stays."""

import asyncio
import os
import re
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.memory.node import EmbeddedNode
from adapters.memory.node.devices import Resources
from app import demo

CHECKOUT = Path(__file__).parents[2]
SCENES = ["The plugin registers", "A pod asks", "A dataplane agent asks", "The kubelet restarts", "The pod is deleted"]
"""What is shown at least, in this order."""


@asynccontextmanager
async def playing(*arguments: str, place: str) -> AsyncIterator[Process]:
    """Run the demo as a process of its own, with a place of its own for temporary files."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "app", "demo", *arguments),
        cwd=CHECKOUT,
        env={**os.environ, "TMPDIR": place, "PYTHONUNBUFFERED": "1"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def place() -> tempfile.TemporaryDirectory[str]:
    """Make a directory with a short path, for sockets."""
    return tempfile.TemporaryDirectory(prefix="d", dir="/tmp")


def left_in(here: str) -> list[str]:
    """Return every path below a directory."""
    return sorted(map(str, Path(here).rglob("*")))


async def test_it_shows_everything_succeeds_and_leaves_nothing() -> None:
    with place() as here:
        async with playing(place=here) as process:
            out, error = await process.communicate()
        text = out.decode()

        assert (process.returncode, error.decode()) == (0, "")
        assert left_in(here) == []
        scenes = re.findall(r"^(\d+)\. (.*)$", text, re.MULTILINE)
        assert [int(number) for number, _ in scenes] == list(range(1, len(scenes) + 1))
        shown = [next(place for place, (_, title) in enumerate(scenes) if title.startswith(each)) for each in SCENES]
        assert shown == sorted(shown)
        assert "  NO " not in text
        assert text.rstrip().endswith("ok everything shown was true")
        assert len(re.findall(r"^  ok ", text, re.MULTILINE)) >= 14
        assert set(re.findall(r"MEMIF_SECRET=(\S+)", text)) == {"***"}


async def test_it_stays_up_when_it_is_asked_to_and_ends_cleanly() -> None:
    with place() as here:
        async with playing("--serve", place=here) as process:
            assert process.stdout is not None
            lines: list[str] = []
            async with asyncio.timeout(60):
                while not any("--control-socket" in line for line in lines):
                    line = (await process.stdout.readline()).decode()
                    assert line, lines
                    lines.append(line)
            assert any("contiv-vpp." in path for path in left_in(here))
            process.send_signal(signal.SIGTERM)
            await process.communicate()

        assert process.returncode == 0
        assert left_in(here) == []


def test_it_fails_when_something_that_it_shows_is_not_true(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A demo that cannot fail shows nothing: here the kubelet lacks a device."""
    resources = EmbeddedNode.resources

    def one_short(self: EmbeddedNode) -> Mapping[str, Resources]:
        return {name: replace(found, allocatable=found.allocatable - 1) for name, found in resources(self).items()}

    monkeypatch.setattr(EmbeddedNode, "resources", one_short)

    assert not demo.run(serve=False)
    out = capsys.readouterr().out
    assert "NO the kubelet offers 99 x contivpp.io/memif" in out
    assert "NO something shown was not true" in out
