"""Histories of a node: what they are, how they are written down, and how a failing one is made short.

A history is a list of steps, each a word with arguments that mean something in any circumstances, so that any part of
a history is a history too.  It is written down as text, a line a step, and lived again from that text.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens."""

    verb: str
    arguments: tuple[int, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.verb, *map(str, self.arguments)))


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Everything that happens on one node; ``delivery`` is how its pool hands over secrets."""

    seed: int
    delivery: str = "env"
    steps: tuple[Step, ...]


def written(history: History) -> str:
    """Return a history as text."""
    head = (f"seed {history.seed}", f"delivery {history.delivery}")
    return "\n".join((*head, *map(str, history.steps))) + "\n"


def read(text: str) -> History:
    """Return the history that a text tells; empty lines and those that begin with ``#`` say nothing."""
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    (_, seed), (_, delivery) = lines[:2]
    steps = tuple(Step(verb, tuple(map(int, arguments))) for verb, *arguments in lines[2:])
    return History(seed=int(seed), delivery=delivery, steps=steps)


async def shortened(history: History, fails: Callable[[History], Awaitable[bool]]) -> History:
    """Return a part of a failing history that still fails, and of which no single step can be left out.

    Larger parts are tried first, then smaller ones down to single steps.
    """
    steps = history.steps
    size = max(1, len(steps) // 2)
    while True:
        begin, shorter = 0, False
        while begin < len(steps):
            fewer: Sequence[Step] = steps[:begin] + steps[begin + size :]
            if await fails(replace(history, steps=tuple(fewer))):
                steps, shorter = tuple(fewer), True
            else:
                begin += size
        if size == 1 and not shorter:
            return replace(history, steps=steps)
        if not shorter or size > len(steps):
            size = max(1, size // 2)
