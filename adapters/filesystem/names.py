"""Names on disk: the ones that we give, and how foreign ones are shown."""

import os
import re
from typing import Final

from domain.identity import ALLOCATION_ID_LENGTH, is_allocation_id

LONGEST_SHOWN: Final = 120
"""Characters of a foreign name that get into a message."""

_GONE: Final = re.compile(r"\.gone-([a-z0-9]{20})-[0-9a-f]{16}", re.ASCII)
_UNFINISHED: Final = re.compile(r"\.new-[0-9a-f]{16}", re.ASCII)


def gone(allocation: str, random: str) -> str:
    """Return the name under which a removed directory waits for its deletion; ``random`` is 16 hex digits."""
    return f".gone-{allocation}-{random}"


def gone_allocation(name: str) -> str | None:
    """Return whose directory waits under this name, ``None`` if the name is not one of ours."""
    match = _GONE.fullmatch(name)
    return match.group(1) if match and is_allocation_id(match.group(1)) else None


def again(name: str, random: str) -> str:
    """Return another waiting name for the allocation of a waiting name."""
    return gone(name[len(".gone-") : len(".gone-") + ALLOCATION_ID_LENGTH], random)


def unfinished(random: str) -> str:
    """Return the name under which a file is written before it gets its own; ``random`` is 16 hex digits."""
    return f".new-{random}"


def is_unfinished(name: str) -> bool:
    """Tell whether a name is one of ours for a file that is being written."""
    return _UNFINISHED.fullmatch(name) is not None


def is_plain(name: str) -> bool:
    """Tell whether a name stays in the directory in which it is used."""
    return name not in {"", ".", ".."} and "/" not in name and "\0" not in name


def shown(name: str) -> str:
    """Return a foreign name fit for a log line: printable ASCII, everything else escaped, cut.

    Tenants choose names; they need not be UTF-8 and may hold line breaks or terminal sequences.
    """
    text = repr(os.fsencode(name))[2:-1]
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."
