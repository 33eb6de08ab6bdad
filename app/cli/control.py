"""The commands that talk to the daemon."""

import json
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, TypeVar

import click

from app.cli import text
from app.cli.base import ExitCode, fail, main
from app.cli.configuration import Given, configured, settings_from

if TYPE_CHECKING:  # these cost more than everything that is answered without them
    from adapters.control.client import ControlClient

Shape: TypeAlias = dict[str, Any]
R = TypeVar("R")

DEFAULT_SOCKET: Final = "/run/memif-device-plugin/control.sock"
"""As in the configuration, which is not loaded for it."""

CODES: Final[Mapping[str, ExitCode]] = {
    "NO_POD": ExitCode.NOT_FOUND,
    "NO_MEMIF": ExitCode.NOT_FOUND,
    "UNREACHABLE": ExitCode.UNREACHABLE,
    "UNKNOWN_NOW": ExitCode.UNKNOWN_NOW,
    "IN_USE": ExitCode.REFUSED,
    "TOO_YOUNG": ExitCode.REFUSED,
    "SEVERAL_UIDS": ExitCode.REFUSED,
}
"""Exit code by reason; a reason of a newer daemon says that it cannot be told now."""

SOCKET = click.option(
    "--control-socket",
    "socket",
    metavar="PATH",
    envvar=("MEMIF_DP_CONTROL_SOCKET", "MEMIF_DP_CONTROL__SOCKET"),
    default=DEFAULT_SOCKET,
    show_default=True,
    help="The socket on which the daemon answers.",
)
"""For commands that ask the daemon."""

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""For commands whose answer programs may read."""

_UID = click.option("--uid", metavar="UID", help="The pod's uid, where the name alone does not tell.")


def _split(_: click.Context, __: click.Parameter, value: str) -> tuple[str, str]:
    """Return namespace and name."""
    namespace, slash, name = value.partition("/")
    if not namespace or not slash or not name or "/" in name:
        raise click.BadParameter(f"{value!r} is not NAMESPACE/NAME")
    return namespace, name


_POD = click.argument("pod", metavar="NAMESPACE/NAME", callback=_split)


@main.command()
@SOCKET
@AS_JSON
def status(*, socket: str, as_json: bool) -> None:
    """Tell how the daemon is."""
    show(asked(socket, lambda client: client.status(), as_json=as_json), text.status, as_json=as_json)


@main.command()
@_POD
@_UID
@SOCKET
@AS_JSON
@click.option("--show-secret", is_flag=True, help="Show secrets instead of ***.")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Wait so long for the pod to be given something.",
)
def pod(*, pod: tuple[str, str], uid: str | None, socket: str, as_json: bool, show_secret: bool, wait: float) -> None:
    """Tell what a pod was given."""
    answer = asked(socket, lambda client: client.pod(*pod, uid, wait=wait, secrets=show_secret), as_json=as_json)
    show(answer, text.pod, as_json=as_json)


@main.command()
@SOCKET
@AS_JSON
@click.option("--offline", is_flag=True, help="Read the journal instead, while the daemon is down.")
@configured("--config", "--state")
def allocations(given: Given, *, socket: str, as_json: bool, offline: bool) -> None:
    """List all allocations, and why each is still here.

    --config and --state say where the journal is, for --offline.
    """
    if offline:
        answer = _recorded(settings_from(given).state, as_json=as_json)
    else:
        answer = asked(socket, lambda client: client.allocations(), as_json=as_json)
    show(answer, text.allocations, as_json=as_json)


@main.command()
@SOCKET
@AS_JSON
def watch(*, socket: str, as_json: bool) -> None:
    """Follow what happens to allocations: first those that are there, then each change.

    Ends when the daemon does, or says that the watch must begin anew.
    """

    async def follow(client: "ControlClient") -> None:
        async for each in client.watch():
            show(each, text.event, as_json=as_json)

    asked(socket, follow, as_json=as_json)


@main.command()
@_POD
@_UID
@SOCKET
@AS_JSON
@click.option("--force", is_flag=True, help="Remove its sockets at once, although something may still use them.")
def release(*, pod: tuple[str, str], uid: str | None, socket: str, as_json: bool, force: bool) -> None:
    """Tell the daemon that a pod is gone.

    What nothing uses any more is released; the rest is refused.
    """
    answer = asked(socket, lambda client: client.release(*pod, uid, force=force), as_json=as_json)
    show({"released": answer}, text.released, as_json=as_json)


@main.command()
@SOCKET
@AS_JSON
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
def reconcile(*, socket: str, as_json: bool, dry_run: bool) -> None:
    """Compare what is known with the node now, and do what follows."""
    answer = asked(socket, lambda client: client.reconcile(dry_run=dry_run), as_json=as_json)
    show(answer, text.reconcile, as_json=as_json)


def show(answer: R, people: Callable[[R], None], *, as_json: bool) -> None:
    """Print an answer for programs or for people."""
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
    else:
        people(answer)


def refuse(reason: str, message: str, *, as_json: bool, code: ExitCode | None = None) -> NoReturn:
    """Leave with one line on stderr, and with JSON on stdout if that was asked for; the code is the reason's own."""
    if as_json:
        click.echo(json.dumps({"error": {"reason": reason, "message": message}}, ensure_ascii=False))
    fail(CODES.get(reason, ExitCode.UNKNOWN_NOW) if code is None else code, f"Error: {text.plain(message)}")


def asked(socket: str, ask: Callable[["ControlClient"], Coroutine[Any, Any, R]], *, as_json: bool) -> R:
    """Return what the daemon answers, or leave with the reason why it does not."""
    import asyncio  # noqa: PLC0415 - see the package's docstring

    from adapters.control.client import ControlClient, Failed  # noqa: PLC0415

    try:
        return asyncio.run(ask(ControlClient(socket)))
    except Failed as failed:
        refuse(failed.reason, str(failed), as_json=as_json)
    except (ValueError, TypeError, LookupError) as error:
        message = f"what answers at {socket} cannot be understood ({type(error).__name__}); is it another program?"
        refuse("UNREACHABLE", message, as_json=as_json)


def _recorded(path: str, *, as_json: bool) -> list[Shape]:
    """Return what the journal of a daemon that is down holds."""
    from adapters.control import shapes  # noqa: PLC0415 - see the package's docstring
    from adapters.journal.reading import read  # noqa: PLC0415
    from domain.ledger import Standing  # noqa: PLC0415
    from domain.ports.journal import JournalUnusable  # noqa: PLC0415

    try:
        found = read(path).allocations
    except JournalUnusable as error:
        refuse("UNREACHABLE", str(error), as_json=as_json)
    return [
        shapes.recorded(each, forced=standing is Standing.FORCED)
        for each, standing in found
        if standing is not Standing.RELEASING
    ]
