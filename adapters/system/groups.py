"""The node's groups."""

import grp
from collections.abc import Iterable


def unknown(groups: Iterable[str | int | None]) -> tuple[str, ...]:
    """Return those of some groups, given by name or number, that have a name which the node does not know."""
    return tuple(sorted({each for each in groups if isinstance(each, str) and not _is_known(each)}))


def _is_known(name: str) -> bool:
    if name.isdecimal():
        return True
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True
