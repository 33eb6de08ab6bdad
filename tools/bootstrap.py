"""Make `.venv`, the virtual environment in which the Makefile's verbs run.

Needs nothing but the standard library, and a package registry that the machine's installer is configured for.
What goes into the environment comes from `requirements-dev.lock`, with hashes; the project itself is installed
editable.

A stamp inside the environment records what it was made from, so that a second run costs a few milliseconds.
An environment that was left half made is completed; one of another interpreter or place is made again.

Exit status: 0 the environment is there; 1 it is not, and one line says why.
"""

# This file must get as far as its own version check on an interpreter that is too old.
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Command = list[str]

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-dev.lock"
PROJECT = ROOT / "pyproject.toml"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "bootstrap.json"
PIP_INSTALL = ("install", "--quiet", "--disable-pip-version-check", "--no-input")
REMEDY = "Install one of: python3-venv (on Debian and Ubuntu), pip, uv, virtualenv."


class Failed(Exception):
    """A step did not work; the message is one line for people, `output` what the program printed that failed."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def main() -> int:
    """Prepare the environment; return the exit status."""
    if sys.version_info < OLDEST:
        found = f"{sys.executable} is Python {sys.version.split()[0]}"
        say(f"{found}, at least 3.11 is needed: make PYTHON=/path/to/python3.11")
        return 1
    try:
        with alone():
            prepare()
    except Failed as failed:
        sys.stderr.write(failed.output)
        say(str(failed))
        return 1
    except OSError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return 1  # without a traceback; the next run completes what this one left
    return 0


def prepare() -> None:
    """Make the environment, complete it, or leave it alone."""
    wanted = ingredients()
    if recorded() == wanted:
        return
    say(f"preparing {VENV.name} from {LOCK.name}; a new one takes a minute or two")
    with contextlib.suppress(OSError):
        STAMP.unlink()
    installer = filled()
    # The build backend is in the lock; build isolation would fetch it again, without hashes.
    install("the project", [*installer, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)])
    STAMP.write_text(json.dumps(wanted, indent=2) + "\n")


# ---- What the environment is, and what it should be


def interpreter() -> str:
    """Return the interpreter to make the environment with.

    While the environment is activated, `python3` is its own; it must not be made again from itself.
    """
    inside = Path(sys.prefix).resolve() == VENV
    return str(getattr(sys, "_base_executable", sys.executable)) if inside else sys.executable


def ingredients() -> dict[str, str]:
    """Return everything that the environment's content depends on."""
    return {
        "python": identity(sys.version, sys.base_prefix),
        "place": str(VENV),  # its scripts name it
        "lock": hashlib.sha256(LOCK.read_bytes()).hexdigest(),
        "project": hashlib.sha256(PROJECT.read_bytes()).hexdigest(),
    }


def identity(version: str, base: str) -> str:
    """Tell one interpreter from another."""
    return f"{version} in {Path(base).resolve()}"


def recorded() -> dict[str, str]:
    """Return what the environment was made from; nothing when it is absent, broken or was never finished."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) and PYTHON.exists() else {}


def usable() -> bool:
    """Tell whether an environment that is not what it should be can be completed where it stands."""
    try:
        version, base = json.loads(
            run([str(PYTHON), "-c", "import json, sys; print(json.dumps([sys.version, sys.base_prefix]))"])
        )
        activation = (VENV / "bin" / "activate").read_text()
    except (Failed, OSError, ValueError):
        return False
    ours = identity(version, base) == identity(sys.version, sys.base_prefix)
    return ours and str(VENV) in activation


# ---- Ways to an environment
#
# Each makes the environment, whose directory does not exist yet, and returns the command that installs there.


def with_ensurepip() -> Command:
    """The usual way. Debian and Ubuntu leave ensurepip out of Python unless python3-venv is installed."""
    run([interpreter(), "-c", "import ensurepip"])
    run([interpreter(), "-m", "venv", str(VENV)])
    return own_pip()


def with_outer_pip() -> Command:
    """An environment without pip, served by the interpreter's."""
    installer = [interpreter(), "-m", "pip", "--python", str(PYTHON)]
    run([interpreter(), "-m", "pip", "--version"])
    run([interpreter(), "-m", "venv", "--without-pip", str(VENV)])
    run([*installer, "--version"])  # a pip before 22.3 does not know the option
    return [*installer, *PIP_INSTALL]


def with_uv() -> Command:
    """The uv tool needs neither ensurepip nor pip. It does not read pip's settings by itself."""
    uv, index = tool("uv"), os.environ.get("PIP_INDEX_URL")
    run([uv, "venv", "--no-project", "--python", interpreter(), str(VENV)])
    installer = [uv, "pip", "install", "--quiet", "--python", str(PYTHON)]
    return [*installer, "--default-index", index] if index else installer


def with_virtualenv() -> Command:
    """The virtualenv tool brings a pip."""
    run([tool("virtualenv"), "--python", interpreter(), str(VENV)])
    return own_pip()


WAYS: dict[str, Callable[[], Command]] = {
    "ensurepip": with_ensurepip,
    "pip": with_outer_pip,
    "uv": with_uv,
    "virtualenv": with_virtualenv,
}


def create() -> Command:
    """Make the environment anew in the first way that works; return the command that installs into it."""
    reasons = []
    for name, way in WAYS.items():
        shutil.rmtree(VENV, ignore_errors=True)
        try:
            return way()
        except Failed as failed:
            reasons.append(f"{name}: {failed}")
    shutil.rmtree(VENV, ignore_errors=True)
    message = f"cannot make {VENV.name} ({'; '.join(reasons)}). {REMEDY}"
    raise Failed(message)


def create_or_provision() -> Command:
    """Make the environment anew; where no way works, and we may, install what is missing and try again."""
    try:
        return create()
    except Failed:
        package = debian_package()
        if package is None:
            raise
    say(f"nothing here can make a virtual environment: installing the Debian package {package}")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "-qq", "update"], environ)
    run(["apt-get", "-qq", "install", "--yes", "--no-install-recommends", package], environ)
    return create()


def debian_package() -> str | None:
    """Return the Debian package that helps this interpreter; `None` where we cannot install packages."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    # Debian packages ensurepip for each of its own interpreters; virtualenv serves any other.
    own = Path(interpreter()).resolve().parent == Path("/usr/bin")
    return f"python3.{sys.version_info.minor}-venv" if own else "virtualenv"


# ---- Filling it


def filled() -> Command:
    """Have an environment with all that the lock names; return the command that installs into it."""
    if usable():
        with contextlib.suppress(Failed):  # if it is damaged, a fresh one works; if not, that one says why
            return with_lock(own_pip())
    return with_lock(create_or_provision())


def own_pip() -> Command:
    """Return the command that installs with the environment's own pip, if it works."""
    run([str(PYTHON), "-m", "pip", "--version"])
    return [str(PYTHON), "-m", "pip", *PIP_INSTALL]


def with_lock(installer: Command) -> Command:
    """Install what the lock names."""
    install(LOCK.name, [*installer, "--require-hashes", "--requirement", str(LOCK)])
    return installer


def install(what: str, command: Command) -> None:
    """Run an installer, whose failures take more than a line to understand."""
    try:
        run(command)
    except Failed as failed:
        message = f"cannot install {what} into {VENV.name}; what the installer says is above"
        raise Failed(message, failed.output) from None


# ---- Helpers


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keep two makes in one checkout from working on the environment at the same time."""
    with Path(__file__).open() as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def tool(name: str) -> str:
    """Return the path of a program."""
    path = shutil.which(name)
    if path is None:
        message = "not found"
        raise Failed(message)
    return path


def run(command: Command, environ: Mapping[str, str] | None = None) -> str:
    """Run a command and return what it printed.

    Raises:
        Failed: It could not be started, or failed; the message is the last thing that it said.
    """
    try:
        result = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)  # noqa: S603 - argument lists, no shell
    except OSError as error:
        message = f"{command[0]}: {error.strerror}"
        raise Failed(message) from None
    if result.returncode != 0:
        output = result.stdout + result.stderr
        last = (result.stderr.strip() or result.stdout.strip()).rpartition("\n")[2].strip()
        raise Failed(last or f"{command[0]} ended with status {result.returncode}", output)
    return result.stdout


def say(text: str) -> None:
    """Tell people, apart from what the verb prints."""
    print(f"bootstrap: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
