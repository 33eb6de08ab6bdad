"""What the documents tell a reader to type: it is typed here, or it is marked and says why not.

A ``console`` block is run, in the order of its document, on a node where the pod ``telco/cnf`` runs; what it shows as
output must come.  A comment in the line before a block may say how it ends (``exit code 2``), that it is a file
(``file: plugin.yaml``) or why it is not run (``not run: …``).
"""

import asyncio
import os
import re
import shlex
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from adapters.memory.node import ContainerSpec, PodSpec
from app.cli import main
from tests.documents import CHECKOUT, Block, Command, blocks, commands, documents
from tests.e2e.daemon import RESOURCE, Stand, a_stand

PROGRAM = "memif-device-plugin"
NO_SHELL = {"yaml", "json", "python", "ini", "promql", "dockerfile", "text", "vpp", "c", "toml"}
CNF = PodSpec(namespace="telco", name="cnf", containers=(ContainerSpec(name="app", limits={RESOURCE: 1}),))

_PLACEHOLDER = re.compile(r"<[^>]*>|[A-Z]+(/[A-Z]+)*|…")


def test_every_block_is_run_or_says_why_not() -> None:
    unmarked = [
        each.where
        for document in documents()
        for each in blocks(document)
        if each.language not in NO_SHELL | {"console"} and not each.remark.startswith("not run: ")
    ]

    assert unmarked == []


def test_every_link_between_documents_leads_somewhere() -> None:
    links = [
        (document, target.partition("#")[0])
        for document in documents()
        for target in re.findall(r"\]\(([^)\s]+)\)", (CHECKOUT / document).read_text(encoding="utf-8"))
        if "://" not in target and not target.startswith("#")
    ]

    assert len(links) > 50
    assert [(str(where), to) for where, to in links if not (CHECKOUT / where).parent.joinpath(to).exists()] == []


def environment(stand: Stand) -> dict[str, str]:
    """A reader's shell on the stand's node, whose places are not the usual ones."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MEMIF_DP_")}
    kubelet, control = stand.configuration["kubelet"], stand.configuration["control"]
    return clean | {
        "PATH": f"{Path(sys.executable).parent}:{clean['PATH']}",
        "MEMIF_DP_CONTROL_SOCKET": control["socket"],
        "MEMIF_DP_STATE": stand.configuration["state"],
        "MEMIF_DP_RUNTIME__KIND": "memory",
        "MEMIF_DP_KUBELET__PLUGIN_DIR": kubelet["plugin_dir"],
        "MEMIF_DP_KUBELET__POD_RESOURCES": kubelet["pod_resources"],
    }


async def typed(command: str, stand: Stand, place: Path) -> tuple[int, str]:
    """Run a line as a shell does; return its exit code and what it showed."""
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", command), cwd=place, env=environment(stand), stdout=PIPE, stderr=STDOUT
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


def shown(line: str, output: str) -> bool:
    """Whether a line of a document came, with ``…`` for anything."""
    pattern = ".*".join(re.escape(part) for part in line.strip().split("…"))
    return any(re.fullmatch(pattern, each.strip()) for each in output.splitlines())


async def follow(block: Block, stand: Stand, place: Path) -> None:
    """Type a block, and compare what comes with what it shows."""
    code = int(block.remark.removeprefix("exit code ")) if block.remark.startswith("exit code ") else 0
    for command in commands(block):
        ended, output = await typed(command.text, stand, place)
        assert ended == code, f"{block.where}: {command.text} ended with {ended}:\n{output}"
        missing = [line for line in command.output if not shown(line, output)]
        assert missing == [], f"{block.where}: {command.text} showed:\n{output}"


@pytest.mark.parametrize(
    "document", [each for each in documents() if any(b.language == "console" for b in blocks(each))], ids=str
)
async def test_what_it_says_can_be_typed(document: Path, tmp_path: Path) -> None:
    async with a_stand() as stand:
        await stand.registered()
        await stand.node.start(CNF)
        for block in blocks(document):
            if block.remark.startswith("file: "):
                (tmp_path / block.remark.removeprefix("file: ")).write_text("\n".join(block.lines), encoding="utf-8")
            elif block.language == "console" and not block.remark.startswith("not run: "):
                await follow(block, stand, tmp_path)


def invocations() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield every command line of the program that any document shows, with its place."""
    for document in documents():
        text = (CHECKOUT / document).read_text(encoding="utf-8")
        for match in re.finditer(
            rf"`{PROGRAM} ([^`\n]+)`|^ *(?:\$ )?(?:[A-Z_]+=\S+ )*{PROGRAM} ([^#\n]+)", text, re.MULTILINE
        ):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{document}:{line}", tuple(shlex.split(match[1] or match[2]))


def fault(words: tuple[str, ...]) -> str | None:
    """Return why a command line cannot be right, without running it; placeholders stand for any argument."""
    command: click.Command = main
    names = {"--help", "-h", "--version"} | {name for each in main.params for name in each.opts}
    for word in words:
        if word.startswith("-"):
            if word.partition("=")[0] not in names:
                return f"no flag {word}"
        elif isinstance(command, click.Group):
            if _PLACEHOLDER.fullmatch(word):
                return None
            found = command.get_command(click.Context(command), word)
            if found is None:
                return f"no command {word}"
            command = found
            names |= {name for each in command.params for name in each.opts}
    return None


@pytest.mark.parametrize("where, words", list(invocations()))
def test_every_command_line_in_a_document_exists(where: str, words: tuple[str, ...]) -> None:
    assert fault(words) is None, f"{where}: {PROGRAM} {' '.join(words)}"


@pytest.mark.parametrize("words", [("statsu",), ("status", "--jsno"), ("run", "--uid", "x")])
def test_a_command_line_that_does_not_exist_is_found(words: tuple[str, ...]) -> None:
    assert fault(words) is not None


def test_a_block_is_read_as_a_shell_reads_it() -> None:
    block = Block("x:1", "console", "", ("$ one \\", "  more", "shown", "$ two"))

    assert commands(block) == (Command("one \\\n  more", ("shown",)), Command("two", ()))
