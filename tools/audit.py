"""Ask whether the locked dependencies have known vulnerabilities.

`make audit`, and `make check` with it, run pip-audit on `requirements.lock`: what is installed beside the daemon, not
what only developers have. Where its data cannot be had (no network, or a registry that mirrors packages alone) this
says so and succeeds: a change is not wrong because a feed is away. A finding fails; one that does not concern us is
named in `IGNORED`, with the reason.

Exit status: 0 nothing is known, or the data cannot be had; 1 there are findings; 2 pip-audit does not work.
"""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

IGNORED: dict[str, str] = {}
"""Findings that do not concern us, by id, each with the reason."""

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
TOOL = Path(sysconfig.get_path("scripts"), "pip-audit")

UNREACHABLE = ("your network may be blocking this service", "requests.exceptions.", "urllib3.exceptions.")
"""What pip-audit says where its data cannot be had: its advice, or the error of a library that it passes on."""


def main() -> int:
    """Run pip-audit, say what it found, and return the exit status."""
    command = [str(TOOL), "--requirement", str(LOCK), "--require-hashes", "--disable-pip", "--format", "json"]
    command += ["--progress-spinner", "off", *(f"--ignore-vuln={identity}" for identity in IGNORED)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours alone
    except OSError as error:
        print(f"audit: {TOOL}: {error.strerror}; install the dependency group `dev`", file=sys.stderr)
        return 2
    status, lines = judged(done.stdout, done.stderr)
    for line in lines:
        print(f"audit: {line}", file=sys.stderr if status else sys.stdout)
    return status


def judged(report: str, errors: str) -> tuple[int, list[str]]:
    """Return the exit status and what there is to say of what pip-audit wrote to its two streams."""
    try:
        dependencies = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return without_report(errors)
    findings = [
        f"{each['name']} {each['version']}: {found['id']}; mended in {', '.join(found['fix_versions']) or 'no release'}"
        for each in dependencies
        for found in each.get("vulns", ())
    ]
    unknown = [each["name"] for each in dependencies if "skip_reason" in each]
    if findings:
        return 1, [
            *findings,
            f"raise the lower bounds in pyproject.toml, then `make lock UPGRADE=1`; {LOCK.name} is bad",
        ]
    if len(unknown) == len(dependencies):
        return 0, [f"NOT AUDITED: the registry has no vulnerability data of any of {len(unknown)} packages"]
    known = f"nothing is known against {len(dependencies) - len(unknown)} packages of {LOCK.name}"
    return 0, [f"{known}; there is no data of {', '.join(unknown)}" if unknown else known]


def without_report(errors: str) -> tuple[int, list[str]]:
    """Return the same where there is no report."""
    last = errors.strip().rpartition("\n")[2]
    if any(sign in errors for sign in UNREACHABLE):
        return 0, [f"NOT AUDITED: the vulnerability data cannot be reached: {last}"]
    return 2, [f"pip-audit failed: {last}"]


if __name__ == "__main__":
    sys.exit(main())
