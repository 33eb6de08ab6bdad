"""The command that speaks memif."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import click

from app.cli import text
from app.cli.base import ExitCode, fail, main
from app.cli.control import AS_JSON, SOCKET, Shape, asked, refuse, show

if TYPE_CHECKING:  # these cost more than everything that is answered without them
    from adapters.control.client import ControlClient

_HIGHEST_ID: Final = 0xFFFFFFFF
_PARTS: Final = range(2, 4)
"""Of a name: namespace and pod, and perhaps the container."""


@main.command()
@click.argument("target", metavar="SOCKET|NAMESPACE/NAME[/CONTAINER]")
@click.option(
    "--id",
    "interface",
    type=click.IntRange(0, _HIGHEST_ID),
    default=1,
    show_default=True,
    metavar="N",
    help="The memif interface's id.",
)
@click.option("--secret-file", metavar="FILE", help="Holds the secret for SOCKET; without it, none is given.")
@click.option("--force", is_flag=True, help="Probe although a container may be using the socket.")
@SOCKET
@AS_JSON
def probe(*, target: str, interface: int, secret_file: str | None, force: bool, socket: str, as_json: bool) -> None:
    """Ask a memif peer who it is, and whether it accepts id and secret.

    SOCKET begins with a slash or a dot.  For a pod, the daemon tells socket and secret.

    For a moment a probe takes the place of the pod's own client, so it is refused while the container runs.
    """
    if target.startswith(("/", ".")):
        question = _about_socket(target, interface, secret_file, force=force, as_json=as_json)
    elif secret_file is not None:
        raise click.UsageError("--secret-file goes with SOCKET; the secret of a pod's socket is the daemon's to tell")
    else:
        question = _about_pod(target, interface, force=force)
    answer = _answered(socket, question, as_json=as_json)
    show(answer, text.probe, as_json=as_json)
    if not answer["accepted"]:
        fail(ExitCode.FAILED, f"Error: the peer refuses id or secret: it says '{text.plain(answer['refusal'])}'")


Question = Callable[["ControlClient"], Coroutine[Any, Any, Shape]]
"""What is to be found out, with the daemon's help."""


def _about_pod(target: str, interface: int, *, force: bool) -> Question:
    parts = target.split("/")
    if len(parts) not in _PARTS or not all(parts):
        raise click.UsageError(f"{target!r} is neither NAMESPACE/NAME[/CONTAINER] nor a path such as ./memif.sock")
    from app.probe import PodContainer, probe_pod  # noqa: PLC0415 - see the package's docstring

    whose = PodContainer(namespace=parts[0], pod=parts[1], container=parts[2] if parts[2:] else None)
    return lambda daemon: probe_pod(daemon, whose, interface=interface, force=force)


def _about_socket(path: str, interface: int, secret_file: str | None, *, force: bool, as_json: bool) -> Question:
    from app.probe import SecretUnreadable, probe_socket, secret_in  # noqa: PLC0415 - see the package's docstring

    try:
        secret = None if secret_file is None else secret_in(secret_file)
    except SecretUnreadable as error:
        refuse("SECRET_UNREADABLE", str(error), as_json=as_json, code=ExitCode.FAILED)
    return lambda daemon: probe_socket(daemon, path, interface=interface, secret=secret, force=force)


def _answered(socket: str, question: Question, *, as_json: bool) -> Shape:
    """Return the answer, or leave with the reason why there is none."""
    from adapters.memif.errors import ChannelUnusable, Unencodable  # noqa: PLC0415 - see the package's docstring
    from app.probe import NotAdmitted, SeveralContainers  # noqa: PLC0415

    try:
        return asked(socket, question, as_json=as_json)
    except SeveralContainers as error:
        raise click.UsageError(str(error)) from error
    except NotAdmitted as error:
        refuse(error.reason, str(error), as_json=as_json, code=ExitCode.REFUSED)
    except ChannelUnusable as error:
        refuse(error.label, str(error), as_json=as_json, code=ExitCode.FAILED)
    except Unencodable as error:
        refuse("UNENCODABLE", str(error), as_json=as_json, code=ExitCode.FAILED)
