"""Configuration: how commands get it, and the two that show it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from app.cli.base import ExitCode, fail, main

if TYPE_CHECKING:  # these cost more than everything that is answered without them
    from app.settings import Effective, Settings

R = TypeVar("R")


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
    from app.settings import InvalidSettings, read  # noqa: PLC0415 - see the package's docstring

    try:
        return read(given.config, flags=given.flags)
    except InvalidSettings as error:
        fail(ExitCode.BAD_CONFIGURATION, *map(str, error.faults))


def rereading(given: Given) -> "Callable[[], Effective]":
    """Return what reads the same configuration again; flags and environment are as they were and still decide."""
    from app.settings import read  # noqa: PLC0415 - see the package's docstring

    return partial(read, given.config, flags=given.flags)


def _parameter(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


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
    from app.settings.printing import show  # noqa: PLC0415 - see the package's docstring

    click.echo(show(effective), nl=False)
