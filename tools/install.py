"""Install the program on a node: an environment of its own, the command, and units for systemd.

`make install` runs this with the interpreter of `.venv`, whose pip and build backend are the locked ones. What is
installed is what `requirements.lock` names, with hashes, and the project.

    <prefix>/lib/memif-device-plugin                  the environment
    <prefix>/bin/memif-device-plugin                  the command
    <prefix>/lib/systemd/system/…                     memif-device-plugin.service, run-contiv-memif.mount
    <prefix>/lib/tmpfiles.d/memif-device-plugin.conf
    <sysconfdir>/memif-device-plugin/plugin.yaml      unless there is one

Everything is put below the directory that `--destdir` names, and works at its place without it.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SYSTEMD = ROOT / "deploy" / "systemd"
NAME = "memif-device-plugin"
UNITS = (f"{NAME}.service", "run-contiv-memif.mount")

COMMAND = """\
#!/bin/sh
exec {libdir}/bin/python -I -m app "$@"
"""


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Install memif-device-plugin.")
    parser.add_argument("--destdir", default="", help="a directory to put everything below")
    parser.add_argument("--prefix", default="/usr/local", type=absolute)
    parser.add_argument("--sysconfdir", default="/etc", type=absolute)
    given = parser.parse_args()

    libdir = f"{given.prefix}/lib/{NAME}"
    places = {"@LIBDIR@": libdir, "@SYSCONFDIR@": given.sysconfdir}
    try:
        environment(Path(f"{given.destdir}{libdir}"))
    except subprocess.CalledProcessError as error:
        print(f"installing into {libdir} failed; what the installer says is above", file=sys.stderr)
        return error.returncode
    put(f"{given.destdir}{given.prefix}/bin/{NAME}", COMMAND.format(libdir=libdir), mode=0o755)
    for unit in UNITS:
        put(f"{given.destdir}{given.prefix}/lib/systemd/system/{unit}", filled(SYSTEMD / unit, places))
    put(f"{given.destdir}{given.prefix}/lib/tmpfiles.d/{NAME}.conf", (SYSTEMD / f"{NAME}.tmpfiles").read_text())
    configuration = Path(f"{given.destdir}{given.sysconfdir}/{NAME}/plugin.yaml")
    if not configuration.exists():
        put(str(configuration), (SYSTEMD / "plugin.yaml").read_text())
    return 0


def absolute(path: str) -> str:
    """Return a path that units can name."""
    if not path.startswith("/"):
        raise argparse.ArgumentTypeError(f"{path} is not absolute")
    return path.rstrip("/")


def environment(place: Path) -> None:
    """Make the environment anew, without an installer in it.

    Raises:
        subprocess.CalledProcessError: it cannot be made.
    """
    shutil.rmtree(place, ignore_errors=True)
    run(base_interpreter(), "-m", "venv", "--without-pip", str(place))
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    into = (*pip, "--python", str(place / "bin" / "python"), "install", "--no-warn-script-location")
    run(*into, "--require-hashes", "--only-binary", ":all:", "--requirement", str(ROOT / "requirements.lock"))
    with tempfile.TemporaryDirectory() as built:
        run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", built, str(ROOT))
        (wheel,) = Path(built).glob("*.whl")
        run(*into, "--no-deps", "--no-index", str(wheel))
    # The scripts name the place where they were made; the command above does not need them.
    for script in (place / "bin").iterdir():
        if not script.name.startswith("python"):
            script.unlink()


def base_interpreter() -> str:
    """Return the interpreter of which `.venv` was made."""
    return str(getattr(sys, "_base_executable", sys.executable))


def filled(template: Path, places: dict[str, str]) -> str:
    """Return a unit with the places put in."""
    text = template.read_text()
    for mark, place in places.items():
        text = text.replace(mark, place)
    return text


def put(path: str, text: str, *, mode: int = 0o644) -> None:
    """Write a file, with the directories above it."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


def run(*command: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True)  # noqa: S603 - ours alone


if __name__ == "__main__":
    sys.exit(main())
