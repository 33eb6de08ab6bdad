"""The command line.

Nothing but click is imported before a command runs, so that help and mistakes are answered at once and no command
pays for the libraries of another: everything else is imported inside the commands.  Errors are one clear line on
stderr, never a traceback.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

if TYPE_CHECKING:  # these cost more than everything that is answered without them
    from app.settings import Effective, Settings

PROGRAM: Final = "memif-device-plugin"
"""The distribution and its console script."""

_INTERRUPTED: Final = 130
"""What a shell reports for a process that SIGINT ended."""

R = TypeVar("R")


class ExitCode(IntEnum):
    """What an exit code says, the same for every command."""

    OK = 0
    FAILED = 1
    BAD_CONFIGURATION = 2
    """Also a command line that cannot be understood."""
    ENVIRONMENT_UNUSABLE = 3
    NOT_FOUND = 4
    UNREACHABLE = 5
    UNKNOWN_NOW = 6
    REFUSED = 7


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line says of the configuration: the file, and values by flag (``None`` = not given)."""

    config: str | None = None
    flags: Mapping[str, str | None] = field(default_factory=dict)


_CONFIG: Final = "--config"
_OPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    _CONFIG: ("FILE", "YAML file with the configuration."),
    "--runtime": ("KIND", "Container runtime: auto, docker, containerd, cri or memory."),
    "--state": ("FILE", "Where allocations are remembered."),
    "--plugin-dir": ("DIR", "The kubelet's directory of device plugins."),
    "--control-socket": ("PATH", "The socket on which the daemon answers."),
    "--log-level": ("LEVEL", "debug, info, warning or error."),
    "--log-format": ("FORMAT", "json or console."),
}
"""The flags that override keys of the configuration; no other key has one."""


def configured(*names: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Give a command flags of the configuration, which reach it as one :class:`Given`, its first argument.

    Args:
        names: of the flags; none = all of them.
    """
    chosen = names or tuple(_OPTIONS)

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @wraps(command)
        def with_given(**arguments: Any) -> R:
            flags = {name: arguments.pop(_parameter(name)) for name in chosen}
            config = flags.pop(_CONFIG, None)
            return command(Given(config, flags), **arguments)

        decorated: Callable[..., R] = with_given
        for name in reversed(chosen):
            metavar, text = _OPTIONS[name]
            decorated = click.option(name, _parameter(name), metavar=metavar, help=text)(decorated)
        return decorated

    return decorate


def settings_from(given: Given) -> "Settings":
    """Return the settings, or leave with every fault on a line of its own."""
    return effective_from(given).settings


def effective_from(given: Given) -> "Effective":
    """Return the settings with their origins, or leave with every fault on a line of its own."""
    from app.settings import InvalidSettings, read  # noqa: PLC0415 - see the module's docstring

    try:
        return read(given.config, flags=given.flags)
    except InvalidSettings as error:
        fail(ExitCode.BAD_CONFIGURATION, *map(str, error.faults))


def fail(code: ExitCode, *lines: str) -> NoReturn:
    """Leave with lines on stderr."""
    for line in lines:
        click.echo(line, err=True)
    sys.exit(code)


class _Commands(click.Group):
    """Commands whose mistakes are told in one line."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and leave with its exit code."""
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except click.UsageError as error:
            path = PROGRAM if error.ctx is None else error.ctx.command_path
            fail(ExitCode.BAD_CONFIGURATION, f"{_line(error).rstrip('.')}. See '{path} --help'.")
        except click.ClickException as error:
            fail(ExitCode.FAILED, _line(error))
        except click.Abort:
            sys.exit(_INTERRUPTED)
        sys.exit(code if isinstance(code, int) else ExitCode.OK)


def _line(error: click.ClickException) -> str:
    return " ".join(f"Error: {error.format_message()}".split())


def _parameter(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's form
    if not wanted or context.resilient_parsing:
        return
    from importlib import metadata  # noqa: PLC0415 - see the module's docstring

    try:
        version = metadata.version(PROGRAM)
    except metadata.PackageNotFoundError:
        fail(ExitCode.FAILED, f"Error: {PROGRAM} runs from a source tree and is not installed: it has no version.")
    click.echo(f"{PROGRAM} {version}")
    context.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Print the version."
)
def main() -> None:
    """Give Kubernetes pods memif interfaces."""


@main.command()
@configured()
def validate(given: Given) -> None:
    """Check a configuration without touching the node."""
    settings_from(given)
    click.echo("configuration is valid")


@main.command()
@configured()
def config(given: Given) -> None:
    """Print the effective configuration as YAML.

    Each value has its source as a comment: default, file, a variable or a flag.
    """
    effective = effective_from(given)
    from app.settings.printing import show  # noqa: PLC0415 - see the module's docstring

    click.echo(show(effective), nl=False)


@main.command()
@configured()
@click.option("--take-over", is_flag=True, help="Serve although another device plugin serves under our names.")
def run(given: Given, *, take_over: bool) -> None:
    """Run the daemon in the foreground."""
    settings = settings_from(given)
    from app import daemon  # noqa: PLC0415 - see the module's docstring

    try:
        daemon.run(settings, daemon.new_process(take_over=take_over))
    except daemon.EnvironmentUnusable as error:
        fail(ExitCode.ENVIRONMENT_UNUSABLE, f"Error: {error}")
    except daemon.ConfigurationUnsuitable as error:
        fail(ExitCode.BAD_CONFIGURATION, f"Error: {error}")


@main.command()
@click.option("--serve", is_flag=True, help="Stay up afterwards, so that other commands can be tried against it.")
def demo(*, serve: bool) -> None:
    """Show it at work: an embedded node with everything in memory."""
    from app import demo as play  # noqa: PLC0415 - see the module's docstring

    if not play.run(serve=serve):
        fail(ExitCode.FAILED, "Error: the demo showed something that was not true.")
