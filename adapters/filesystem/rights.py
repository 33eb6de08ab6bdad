"""What root may do here: inside a container, or under a service manager, not everything."""

import os
from pathlib import Path
from typing import Final

NEEDED: Final = {"CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_FOWNER": 3, "CAP_FSETID": 4}
"""The capabilities that are used here, with their numbers in the kernel: to give directories to a group, to remove what
pods leave in directories of other users and in their sticky ones, and to keep the set-group-ID bit of a group that is
not our own."""

TO_REMOVE: Final = "CAP_FOWNER"
"""What it takes to remove an entry that is not ours from a directory that is not ours."""

_STATUS: Final = Path("/proc/self/status")
_EFFECTIVE: Final = "CapEff:"


def missing() -> tuple[str, ...]:
    """Return the needed capabilities that this process does not have; none where the kernel does not tell."""
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
        (mask,) = (int(line.removeprefix(_EFFECTIVE), base=16) for line in lines if line.startswith(_EFFECTIVE))
    except (OSError, ValueError):
        return ()
    return tuple(name for name, number in NEEDED.items() if not mask & 1 << number)


def cure() -> str:
    """Say what to do where something is not permitted."""
    lacking = missing()
    if not lacking or os.geteuid() != 0:
        return "run the daemon as root with CAP_CHOWN, CAP_FOWNER, CAP_FSETID and CAP_DAC_OVERRIDE"
    return (
        f"the daemon lacks {' and '.join(lacking)}: add that to the capabilities of its container, or to"
        " CapabilityBoundingSet of its unit"
    )
