"""The command that removes everything of ours from a node."""

import json
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from app.cli import text
from app.cli.base import ExitCode, fail, main
from app.cli.configuration import Given, configured, settings_from
from app.cli.control import AS_JSON, refuse

if TYPE_CHECKING:  # these cost more than everything that is answered without them
    from app.settings import Settings
    from app.uninstall import Found
    from app.use_cases.cleanup import Cleaned

R = TypeVar("R")


@main.command()
@configured()
@click.option("--all", "everything", is_flag=True, help="Remove everything: directories, journal, lock, sockets.")
@click.option("--yes", is_flag=True, help="Really do it.")
@AS_JSON
def cleanup(given: Given, *, everything: bool, yes: bool, as_json: bool) -> None:
    """Uninstall: remove all that the daemon made on this node.

    The daemon must be stopped, and no container may use any of it. Without --all --yes it says what it would do.
    """
    from app import uninstall  # noqa: PLC0415 - see the package's docstring

    settings = settings_from(given)
    if everything and yes:
        _tell(_done(uninstall.clean(settings), as_json=as_json), as_json=as_json)
    else:
        _propose(settings, as_json=as_json)


def _propose(settings: "Settings", *, as_json: bool) -> None:
    """Print what would be removed, and leave: it was not really asked for."""
    from app import uninstall  # noqa: PLC0415 - see the package's docstring

    found: Found = _done(uninstall.look(settings), as_json=as_json)
    survey = found.survey
    if as_json:
        shape = {
            "would_remove": survey.paths,
            "in_use": survey.users,
            "unknown": survey.doubts,
            "left": survey.strangers,
        }
        click.echo(json.dumps(shape, ensure_ascii=False))
    else:
        _list("would remove", survey.paths)
        _list("would remove device information in", tuple(each.directory for each in survey.device_info))
        _list("in use", survey.users)
        _list("unknown", survey.doubts)
        _list("would leave", (*survey.strangers, *survey.obstacles, *found.notes))
    fail(ExitCode.BAD_CONFIGURATION, "Error: nothing was removed: that takes --all and --yes, both of them.")


def _tell(cleaned: "Cleaned", *, as_json: bool) -> None:
    if as_json:
        shape = {"removed": cleaned.removed, "left": cleaned.left, "obstacles": cleaned.obstacles}
        click.echo(json.dumps(shape, ensure_ascii=False))
    else:
        _list("removed", cleaned.removed)
        _list("left", cleaned.left)
        if not (cleaned.removed or cleaned.obstacles):
            click.echo("nothing of ours is left on this node")
    if cleaned.obstacles:
        obstacles = "; ".join(map(text.plain, cleaned.obstacles))
        fail(
            ExitCode.ENVIRONMENT_UNUSABLE,
            f"Error: not everything could be removed: {obstacles}. Mend that, and run it again.",
        )


def _list(what: str, paths: tuple[str, ...]) -> None:
    for path in paths:
        click.echo(f"{what} {text.plain(path)}")


def _done(doing: Coroutine[Any, Any, R], *, as_json: bool) -> R:
    """Return what comes of it, or leave with the reason why it cannot be done."""
    import asyncio  # noqa: PLC0415 - see the package's docstring

    from app.uninstall import NotNow, StillUsed  # noqa: PLC0415

    try:
        return asyncio.run(doing)
    except StillUsed as error:
        refuse("IN_USE", str(error), as_json=as_json)
    except NotNow as error:
        refuse("UNUSABLE", str(error), as_json=as_json, code=ExitCode.ENVIRONMENT_UNUSABLE)
