"""What of a changed configuration a running daemon can take over."""

from collections.abc import Mapping
from typing import Any, Final

from app.settings.faults import Fault, KeyPath, shown
from app.settings.loading import Effective
from app.settings.model import Settings, leaves

TAKEN_OVER: Final[frozenset[KeyPath]] = frozenset(
    {("version",), ("pools",), ("log", "level"), ("log", "format"), ("drain_on_exit",)}
)
"""Keys that may change while the daemon runs.  Every other one names a place or a partner that is held open, or a time
that is being counted."""


def changed(before: Settings, after: Settings) -> tuple[KeyPath, ...]:
    """Return every key whose value is another one, in the order of the file; the list of pools is one of them."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return tuple(key for key, _ in leaves() if _value(old, key) != _value(new, key))


def restart_needed(before: Settings, after: Effective) -> tuple[Fault, ...]:
    """Return a fault for every key that has changed and cannot while the daemon runs."""
    old, new = before.model_dump(mode="json"), after.settings.model_dump(mode="json")
    return tuple(
        Fault(
            key=key,
            text=f"needs a restart to change from {shown(_value(old, key))} to {shown(_value(new, key))}",
            place=after.place(key),
        )
        for key in changed(before, after.settings)
        if key not in TAKEN_OVER
    )


def _value(dumped: Mapping[str, Any], key: KeyPath) -> object:
    *above, last = map(str, key)
    for name in above:
        dumped = dumped[name]
    return dumped[last]
