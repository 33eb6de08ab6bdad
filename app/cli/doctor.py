"""The command that says what is wrong with a node."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from app.cli import text
from app.cli.base import ExitCode, main
from app.cli.configuration import Given, configured
from app.cli.control import AS_JSON

if TYPE_CHECKING:  # these cost more than everything that is answered without them
    from domain.diagnosis.findings import Finding

_COLOURS: Final[Mapping[str, str]] = {"ok": "green", "warn": "yellow", "fail": "red"}


@main.command()
@configured()
@AS_JSON
def doctor(given: Given, *, as_json: bool) -> None:
    """Check the node: one line a check, and what to do where something is wrong.

    Changes nothing, and works whether the daemon runs or not. Fails if a check does; warnings do not count.
    """
    findings = _examined(given)
    from domain.diagnosis.findings import Verdict  # noqa: PLC0415 - see the package's docstring

    healthy = all(each.verdict is not Verdict.FAIL for each in findings)
    if as_json:
        click.echo(json.dumps({"ok": healthy, "findings": [_shape(each) for each in findings]}, ensure_ascii=False))
    else:
        for each in findings:
            click.echo(line(each))
    sys.exit(ExitCode.OK if healthy else ExitCode.FAILED)


def _examined(given: Given) -> "Sequence[Finding]":
    """Return what is found; a configuration that cannot be read is a finding, and the only one."""
    import asyncio  # noqa: PLC0415 - see the package's docstring

    from app.doctor import examine  # noqa: PLC0415
    from app.settings import InvalidSettings, read  # noqa: PLC0415
    from domain.diagnosis.findings import wrong  # noqa: PLC0415

    try:
        settings = read(given.config, flags=given.flags).settings
    except InvalidSettings as error:
        cure = "mend it; docs/configuration.md describes every key"
        return [wrong("configuration", str(fault), cure) for fault in error.faults]
    return asyncio.run(examine(settings))


def _shape(finding: "Finding") -> dict[str, str | None]:
    return {"check": finding.check, "verdict": finding.verdict, "what": finding.what, "cure": finding.cure}


def line(finding: "Finding") -> str:
    """Return a finding as one line for people."""
    cure = "" if finding.cure is None else f". Cure: {text.plain(finding.cure)}"
    verdict = click.style(f"{finding.verdict:<4}", fg=_COLOURS[finding.verdict])
    return f"{verdict}  {finding.check}: {text.plain(finding.what)}{cure}"
