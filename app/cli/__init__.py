"""The command line.

Nothing but click is imported before a command runs, so that help and mistakes are answered at once and no command
pays for the libraries of another: everything else is imported inside the commands.  Errors are one clear line on
stderr, never a traceback.

:mod:`~app.cli.base` has what all commands share; the other modules are the commands.
"""

from app.cli import cleanup, configuration, control, doctor, probe, process
from app.cli.base import PROGRAM, ExitCode, fail, main

__all__ = ["PROGRAM", "ExitCode", "cleanup", "configuration", "control", "doctor", "fail", "main", "probe", "process"]
