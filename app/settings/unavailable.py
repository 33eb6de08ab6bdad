"""Keys whose feature this version does not have yet.

They are part of the format and can be written with their defaults, but nothing that was asked for is silently left
undone.  Whoever adds a feature takes its line out of the table.
"""

from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel

from app.settings.faults import Fault, KeyPath, shown

NOT_YET: Final[dict[tuple[str, ...], object]] = {
    ("pools", "*", "device_info_dir"): None,
}
"""The one value that each of them may have."""


def unavailable(settings: BaseModel) -> Iterator[Fault]:
    """Yield a fault for everything that is asked for and not there."""
    for pattern, off in NOT_YET.items():
        for key, value in _matches(settings, pattern, ()):
            if value != off:
                yield Fault(key=key, text=f"not available in this version, leave it at {shown(off)}")


def _matches(value: object, pattern: tuple[str, ...], above: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    if not pattern:
        yield above, value
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _matches(item, pattern[1:], (*above, index))
    else:
        yield from _matches(getattr(value, pattern[0]), pattern[1:], (*above, pattern[0]))
