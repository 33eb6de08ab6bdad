"""Code blocks of the documents: what is shown to a reader as something to type."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[1]

_FENCE: Final = re.compile(r"^(?P<indent> *)```(?P<language>\w*)$")
_REMARK: Final = re.compile(r"^ *<!-- (?P<text>[^>]*) -->$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes:
        where: file and line, for messages.
        language: what stands behind the fence; empty = nothing.
        remark: the comment in the line before; empty = none.
        lines: the content without the block's indentation.
    """

    where: str
    language: str
    remark: str
    lines: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Command:
    """What a reader types, with what is shown as its output; ``…`` in that stands for anything."""

    text: str
    output: tuple[str, ...]


def documents() -> tuple[Path, ...]:
    """Return every document of the project."""
    found = [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md"), *CHECKOUT.glob("deploy/**/*.md")]
    return tuple(sorted(each.relative_to(CHECKOUT) for each in found))


def blocks(document: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a document in their order."""
    lines = (CHECKOUT / document).read_text(encoding="utf-8").splitlines()
    opened: tuple[int, re.Match[str]] | None = None
    for number, line in enumerate(lines):
        match = _FENCE.match(line)
        if match is None:
            continue
        if opened is None:
            opened = (number, match)
            continue
        start, fence = opened
        opened = None
        remark = _REMARK.match(lines[start - 1]) if start else None
        yield Block(
            where=f"{document}:{start + 1}",
            language=fence["language"],
            remark=remark["text"] if remark else "",
            lines=tuple(each.removeprefix(fence["indent"]) for each in lines[start + 1 : number]),
        )


def named(document: Path, name: str) -> Block:
    """Return the block of a document whose remark ends by saying that a test runs it under a name."""
    (found,) = (each for each in blocks(document) if each.remark.endswith(f" runs it as {name}"))
    return found


def commands(block: Block) -> tuple[Command, ...]:
    """Return what a ``console`` block types; a line that ends in a backslash goes on."""
    found: list[tuple[str, list[str]]] = []
    continued = False
    for line in block.lines:
        if continued:
            text, output = found[-1]
            found[-1] = (f"{text}\n{line}", output)
        elif line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
            continue
        continued = line.endswith("\\")
    return tuple(Command(text=text, output=tuple(output)) for text, output in found)
