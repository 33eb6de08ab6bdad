"""Findings: what a check of the node says."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    """The daemon works; something may hurt it later, or could not be seen."""
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found.

    Attributes:
        check: what was looked at, the same words each time.
        what: what is so, with the paths and names that it is about.
        cure: what to do; ``None`` where nothing is to be done.
    """

    check: str
    verdict: Verdict
    what: str
    cure: str | None = None


def fine(check: str, what: str) -> Finding:
    """Return what is as it should be."""
    return Finding(check=check, verdict=Verdict.OK, what=what)


def doubtful(check: str, what: str, cure: str) -> Finding:
    """Return what may hurt later, or could not be seen."""
    return Finding(check=check, verdict=Verdict.WARN, what=what, cure=cure)


def wrong(check: str, what: str, cure: str) -> Finding:
    """Return what keeps the daemon or its pods from working."""
    return Finding(check=check, verdict=Verdict.FAIL, what=what, cure=cure)


def told(check: str, text: str) -> Finding:
    """Return what an error of ours says is wrong; its text is the trouble, a semicolon, and the way out."""
    what, _, cure = text.partition("; ")
    return wrong(check, what, cure or "see docs/troubleshooting.md")
