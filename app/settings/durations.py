"""Durations as operators write them: a whole number and a unit, such as ``30s``."""

import re
from typing import Final

_DURATION: Final = re.compile(r"(\d{1,9})(ms|s|m|h)", re.ASCII)
_MILLISECONDS: Final = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


def parse(value: object) -> float:
    """Return a duration in seconds.

    A number without a unit is refused, because Go programs read it as nanoseconds and people as seconds; only zero
    is the same in every unit.

    Raises:
        ValueError: with the reason, in words for the operator.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value == 0:
            return 0.0
        raise ValueError("must have a unit, as in 30s, 500ms, 2m or 1h")
    if not isinstance(value, str):
        message = "must be a duration such as 30s, 500ms, 2m or 1h"
        raise ValueError(message)  # noqa: TRY004 - pydantic collects ValueErrors only
    if value == "0":
        return 0.0
    match = _DURATION.fullmatch(value)
    if match is None:
        raise ValueError(f"must be a whole number and a unit, as in 30s, 500ms, 2m or 1h, not {value[:40]!r}")
    return int(match[1]) * _MILLISECONDS[match[2]] / 1000


def show(seconds: float) -> str:
    """Return a duration in its largest unit that keeps it whole: ``2m``, ``90s``, ``1500ms``."""
    milliseconds = round(seconds * 1000)
    if milliseconds == 0:
        return "0s"
    unit = next(unit for unit, size in _MILLISECONDS.items() if milliseconds % size == 0)
    return f"{milliseconds // _MILLISECONDS[unit]}{unit}"
