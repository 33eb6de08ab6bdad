"""What is wrong with a configuration, one fault a line."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from domain.errors import MemifError

KeyPath = tuple[str | int, ...]
"""Where a value stands: ``("pools", 0, "capacity")`` is written ``pools.0.capacity``."""

CONFIG: Final[KeyPath] = ("--config",)
"""What stands for the file as a whole."""

_PLAIN: Final = re.compile(r"[-A-Za-z0-9_]+", re.ASCII)
_LONGEST_SHOWN: Final = 120
_LARGEST_SHOWN: Final = 10**18


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        key: the value that must change, or the flag or variable that could not be read.
        text: what is wrong and what would be right.
        place: where the value was written (file and line, variable, flag), ``None`` for a default.
        others: further values that took part; if one of them is faulty itself, this fault may be a mere consequence.
    """

    key: KeyPath
    text: str
    place: str | None = None
    others: tuple[KeyPath, ...] = ()

    def follows_from(self, broken: Collection[KeyPath]) -> bool:
        """Tell whether a value that took part is among, or lies below, values that are known to be faulty."""
        return any(path[: len(each)] == each for path in (self.key, *self.others) for each in broken)

    def written_at(self, place: str | None) -> "Fault":
        """Return the fault with the place where the value was written."""
        return replace(self, place=place)

    def __str__(self) -> str:
        where = "" if self.place is None else f" ({self.place})"
        return f"{dotted(self.key)}: {self.text}{where}"


class InvalidSettings(MemifError):
    """A configuration that cannot be used, with everything that is wrong with it."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(dict.fromkeys(faults))
        super().__init__("\n".join(map(str, self.faults)))


class Contradictions(ValueError):  # the kind of exception that pydantic collects
    """Values that are each possible, and impossible together."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(map(str, self.faults)))


def dotted(key: KeyPath) -> str:
    """Return a key path as people write it; what an operator mistyped is escaped, so that it stays one line."""
    return ".".join(part if isinstance(part, str) and _PLAIN.fullmatch(part) else shown(part) for part in key)


def shown(value: object) -> str:
    """Return a value as a fault shows it: in YAML's words, on one line, not too long."""
    match value:
        case None:
            text = "null"
        case bool():
            text = "true" if value else "false"
        case int() if abs(value) > _LARGEST_SHOWN:
            text = "a number of more than 18 digits"
        case int() | float():
            text = str(value)
        case str() if len(value) > _LONGEST_SHOWN:
            text = f"{value[:_LONGEST_SHOWN]!r}…"
        case str():
            text = repr(value)
        case list() | tuple():
            text = "a list"
        case dict():
            text = "a mapping"
        case _:
            text = f"a {type(value).__name__}"
    return text
