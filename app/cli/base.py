"""What all commands share: the group, exit codes, and how mistakes are told."""

import os
import sys
from enum import IntEnum
from typing import Any, Final, NoReturn

import click

PROGRAM: Final = "memif-device-plugin"
"""The distribution and its console script."""

_INTERRUPTED: Final = 130
"""What a shell reports for a process that SIGINT ended."""


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


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's form
    if not wanted or context.resilient_parsing:
        return
    from importlib import metadata  # noqa: PLC0415 - see the package's docstring

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
@click.pass_context
def main(context: click.Context) -> None:
    """Give Kubernetes pods memif interfaces."""
    if os.environ.get("NO_COLOR"):
        context.color = False
    # Read when gRPC is loaded: what its core writes to stderr is for its authors, and not in the form of our log.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Read when pydantic is loaded, which else looks through every installed distribution for plugins, of which we want
    # none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
