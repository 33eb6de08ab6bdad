"""Answers of the daemon as text for people."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import click

Shape: TypeAlias = dict[str, Any]

_NOTHING: Final = "-"
_GOOD: Final = frozenset({"yes", "known", "bound", "ok", "BOUND"})
_BAD: Final = frozenset({"no", "error", "RESYNC_NEEDED", "RELEASED"})
_FIELD: Final = 13
"""Columns of a field's name."""


def plain(value: object) -> str:
    """Return a value as text without anything that a terminal would obey; ``-`` for what is not known."""
    if value is None:
        return _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "".join(each if each.isprintable() else "?" for each in str(value))


def status(answer: Shape) -> None:
    """Print how the daemon is."""
    runtime, kubelet, views, reconciled = (answer[key] for key in ("runtime", "kubelet", "views", "reconcile"))
    counts, config = answer["allocations"], answer["config"]
    name = " ".join(filter(None, (runtime["kind"], runtime["version"]))) or "not found"
    reachable = "reachable" if runtime["reachable"] else "not reachable"
    _field("daemon", f"{answer['version']}, {answer['role']} since {answer['since']}, instance {answer['instance']}")
    _field("runtime", f"{name}, {reachable} since {runtime['since']}")
    _field(
        "kubelet", f"{'reachable' if kubelet['reachable'] else 'not reachable'}, restarted {kubelet['restarts']} times"
    )
    _field("views", f"runtime {views['runtime']}; checkpoint {views['checkpoint']}")
    _field("allocations", f"{counts['bound']} bound, {counts['pending']} pending")
    outcome = f": {reconciled['reason']}" if reconciled["reason"] else ""
    _field(
        "reconcile", f"{reconciled['result']} at {reconciled['last']}{outcome}" if reconciled["last"] else "none yet"
    )
    error = f"; a later one was not taken: {config['error']}" if config["error"] else ""
    _field("configuration", f"loaded at {config['loaded']}{error}")
    click.echo()
    columns = ("resource", "registered", "watched", "capacity", "healthy", "allocated", "endpoint", "reason")
    _table([column.upper() for column in columns], ([each[column] for column in columns] for each in answer["pools"]))


def pod(answer: Shape) -> None:
    """Print what a pod was given."""
    whose = answer["pod"]
    click.secho(f"pod {plain(whose['namespace'])}/{plain(whose['name'])} (uid {plain(whose['uid'])})", bold=True)
    if answer["stale"]:
        click.secho("stale: the kubelet could not confirm that it is so now", fg="yellow")
    for each in answer["containers"]:
        click.echo()
        click.echo(f"container {plain(each['name'])}, {plain(each['resource'])}, {_styled(plain(each['state']))}")
        devices = (f"{device} (memif id {number})" for number, device in enumerate(each["devices"], start=1))
        _field("  on the node", each["host_socket"])
        _field("  inside", each["container_socket"])
        _field("  secret", each["secret"])
        _field("  devices", ", ".join(devices))
        _field("  allocation", each["allocation"])


def allocations(answer: list[Shape]) -> None:
    """Print every allocation."""
    if not answer:
        click.echo("no allocations")
        return
    _table(
        ("ID", "STATE", "POD", "CONTAINER", "DEVICES", "GRANTED", "HELD BY"),
        (
            (
                each["id"],
                each["state"],
                _whose(each["pod"]),
                each["container"],
                ",".join(each["devices"]),
                each["granted"],
                None if each["held_by"] is None else ", ".join(each["held_by"]),
            )
            for each in answer
        ),
    )


def event(answer: Shape) -> None:
    """Print one event of a watch."""
    about = answer["allocation"]
    parts = [f"{plain(answer['seq']):>6}", _styled(f"{plain(answer['type']):<13}")]
    if about is not None:
        parts += [
            plain(about["id"]),
            plain(_whose(about["pod"])),
            plain(about["container"]),
            plain(about["host_socket"]),
        ]
    click.echo("  ".join(parts).rstrip())


def released(answer: Shape) -> None:
    """Print what a release let go."""
    for name in answer["released"]:
        click.echo(f"released {plain(name)}")


def reconcile(answer: Shape) -> None:
    """Print what a reconcile saw and decided."""
    for name, view in answer["views"].items():
        _field(name, view)
    click.echo()
    if not answer["effects"]:
        click.echo("nothing to do")
        return
    if answer["dry_run"]:
        click.echo("this would be done:")
    _table(
        ("EFFECT", "ALLOCATION", "REASON"),
        ((each["effect"], each["allocation"], each["reason"]) for each in answer["effects"]),
    )


def probe(answer: Shape) -> None:
    """Print what a peer said to a probe."""
    peer, spoken = answer["peer"], answer["peer"]["lowest"]
    if peer["highest"] != peer["lowest"]:
        spoken = f"{peer['lowest']} to {peer['highest']}"
    verdict = "accepted" if answer["accepted"] else f"refused: {answer['refusal']}"
    _field("socket", answer["socket"])
    _field("allocation", answer["allocation"])
    _field("peer", f"{peer['name']}, memif {spoken}")
    _field("id, secret", f"id {answer['interface']} {verdict}")


def _whose(pod: Shape | None) -> str | None:
    """Name a pod as well as it is known."""
    if pod is None:
        return None
    if pod["name"] is None:
        return f"uid {pod['uid']}"
    return f"{pod['namespace']}/{pod['name']}"


def _field(name: str, value: object) -> None:
    click.echo(f"{name:<{_FIELD}}  {plain(value)}")


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns as wide as their widest cell, the last one as it is."""
    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in (header, *cells)) for column in range(len(header))]
    click.secho(_row(header, widths), bold=True)
    for row in cells:
        click.echo(_row(row, widths, styled=True))


def _row(cells: Sequence[str], widths: Sequence[int], *, styled: bool = False) -> str:
    padded = [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)]
    return "  ".join(map(_styled, padded) if styled else padded).rstrip()


def _styled(padded: str) -> str:
    """Colour a word that says how something is; click leaves colours out where nobody sees them."""
    word = padded.strip()
    colour = "green" if word in _GOOD else "red" if word in _BAD else None
    return click.style(padded, fg=colour) if colour else padded
