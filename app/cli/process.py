"""The daemon and its demo."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import click

from app.cli.base import ExitCode, fail, main
from app.cli.configuration import Given, configured, rereading, settings_from


@main.command()
@configured()
@click.option("--take-over", is_flag=True, help="Serve although another device plugin serves under our names.")
def run(given: Given, *, take_over: bool) -> None:
    """Run the daemon in the foreground."""
    with _loading():
        settings = settings_from(given)
        from app import daemon  # noqa: PLC0415 - see the package's docstring

    try:
        daemon.run(settings, daemon.new_process(take_over=take_over, reread=rereading(given)))
    except daemon.EnvironmentUnusable as error:
        fail(ExitCode.ENVIRONMENT_UNUSABLE, f"Error: {error}")
    except daemon.ConfigurationUnsuitable as error:
        fail(ExitCode.BAD_CONFIGURATION, f"Error: {error}")


@main.command()
@click.option("--serve", is_flag=True, help="Stay up afterwards, so that other commands can be tried against it.")
def demo(*, serve: bool) -> None:
    """Show it at work: an embedded node with everything in memory."""
    from app import demo as play  # noqa: PLC0415 - see the package's docstring

    if not play.run(serve=serve):
        fail(ExitCode.FAILED, "Error: the demo showed something that was not true.")


@contextmanager
def _loading() -> Iterator[None]:
    """Load modules without searching them for garbage again and again: they stay, and a start takes a tenth less."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
