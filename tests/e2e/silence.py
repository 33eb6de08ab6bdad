"""No secret in what a daemon prints: asked of every daemon of every test here, when its stand is taken down."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from domain.secret import LONGEST_SECRET, SHORTEST_SECRET

_LIKE_A_SECRET: Final = re.compile(
    rf"(?<![A-Za-z0-9_./+-])(?=[a-z0-9]*[A-Z])(?=[A-Z0-9]*[a-z])[A-Za-z0-9]{{{SHORTEST_SECRET},{LONGEST_SECRET}}}"
    r"(?![A-Za-z0-9_./+-])"
)
"""A word as long as a secret, in both cases.  Ids of allocations, containers and pods have only one."""


def like_secrets(lines: Iterable[str], journal: bytes = b"") -> list[str]:
    """Return what looks like a secret in lines.

    A word without a digit may be the name of a class or a call, and one secret of thirty has none either: such a word
    counts if the journal has it.

    Args:
        lines: as they were printed.
        journal: the bytes of its files, which hold the secrets of a long time, also those of what is gone.
    """
    return [
        word
        for line in lines
        for word in _LIKE_A_SECRET.findall(line)
        if any(each.isdecimal() for each in word) or word.encode() in journal
    ]


def assert_silent(lines: Iterable[str], state_dir: Path) -> None:
    """Make sure that nothing in lines looks like a secret."""
    journal = b"".join(each.read_bytes() for each in sorted(state_dir.glob("state.db*")) if each.is_file())
    assert like_secrets(lines, journal) == [], "the daemon printed what looks like a secret"
