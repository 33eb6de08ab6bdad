"""Whether the daemon, started as this command was, may do what it has to."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from domain.diagnosis.findings import Finding, doubtful, fine, wrong

RIGHTS: Final = "rights"
GROUPS: Final = "groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsFacts:
    """What this process may do.

    Attributes:
        uid: effective user.
        lacking: capabilities that the daemon needs and this process does not have.
        groups: configured groups that the node does not know.
    """

    uid: int
    lacking: tuple[str, ...]
    groups: tuple[str, ...]


def judge(facts: RightsFacts) -> Iterator[Finding]:
    """Yield what the facts say of rights."""
    if facts.uid != 0:
        yield wrong(RIGHTS, f"this is uid {facts.uid}, which cannot see everything", "run as root, as the daemon does")
    elif facts.lacking:
        yield doubtful(
            RIGHTS,
            f"capabilities are missing: {', '.join(facts.lacking)}",
            "add them to the daemon's container or unit if this is how it runs",
        )
    else:
        yield fine(RIGHTS, "root with the capabilities that are needed")
    if facts.groups:
        yield wrong(
            GROUPS,
            f"no such group on this node: {', '.join(facts.groups)}",
            "make it, or configure its number; in a container, the container's /etc/group counts",
        )
