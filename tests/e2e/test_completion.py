"""Completion of commands and flags in a shell."""

import asyncio
import sys
from pathlib import Path

import pytest

from app.cli import main
from tests.e2e.commands import ran


@pytest.mark.parametrize(
    "typed, offered",
    [
        ("al", {"allocations"}),
        ("", set(main.commands)),
        ("doctor --pl", {"--plugin-dir"}),
        ("cleanup --", {"--all", "--yes", "--json", "--config", "--runtime", "--state", "--help"}),
    ],
)
async def test_completion_offers_commands_and_flags(typed: str, offered: set[str]) -> None:
    words = ["memif-device-plugin", *typed.split(" ")]
    done = await ran(
        environment={
            "_MEMIF_DEVICE_PLUGIN_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
    )

    assert offered <= {line.partition(",")[2] for line in done.out.splitlines()}
    assert done.error == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_completion_comes_as_a_script_for_each_shell(shell: str) -> None:
    done = await ran(environment={"_MEMIF_DEVICE_PLUGIN_COMPLETE": f"{shell}_source"})

    assert (done.code, done.error) == (0, "")
    assert f"_MEMIF_DEVICE_PLUGIN_COMPLETE={shell}_complete" in done.out


async def test_bash_takes_the_script() -> None:
    program = Path(sys.executable).with_name("memif-device-plugin")
    script = f"""
        PATH={program.parent}:$PATH
        eval "$(_MEMIF_DEVICE_PLUGIN_COMPLETE=bash_source memif-device-plugin)"
        COMP_WORDS=(memif-device-plugin val) COMP_CWORD=1
        _memif_device_plugin_completion memif-device-plugin
        echo "${{COMPREPLY[@]}}"
    """
    process = await asyncio.create_subprocess_exec("bash", "-c", script, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()

    assert out.decode() == "validate\n"
