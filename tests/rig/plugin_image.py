"""The daemon's image, built as ``deploy/Dockerfile`` says, without registry and network."""

import fcntl
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.rig import rootfs
from tests.rig.containerd import RigBroken
from tests.rig.dockerd import PrivateDockerd

if TYPE_CHECKING:
    from docker import APIClient

ROOT: Final = Path(__file__).parents[2]

IMAGE: Final = "localhost/memif-device-plugin:1"
_BASE: Final = "localhost/python:1"

_WHEELS: Final = ROOT / "build" / "wheels"


def provide(rig: PrivateDockerd, kept: Path) -> str:
    """Have the image on a private dockerd and return its name; it is built once for all that share the file ``kept``.

    Raises:
        RigBroken: it cannot be built; with the end of what that printed.
    """
    with kept.with_suffix(".lock").open("w") as guard, rig.client() as client:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if kept.exists():
            with kept.open("rb") as file:
                client.load_image(file)  # type: ignore[no-untyped-call]
        else:
            build(rig)
            with kept.open("wb") as file:
                file.writelines(client.get_image(IMAGE))
    return IMAGE


def build(rig: PrivateDockerd) -> None:
    """Build it on a private dockerd.

    Raises:
        RigBroken: with the end of what the build printed.
    """
    fetch_wheels()
    archive = rig.home / "base.tar"
    rootfs.write(archive)
    with rig.client() as client:
        client.import_image_from_file(str(archive), repository=_BASE)
        archive.unlink()
        printed = _build(client)
        if not client.images(name=IMAGE):
            raise RigBroken(f"the image of the plugin cannot be built:\n{printed}")


def fetch_wheels() -> None:
    """Have everything in ``build/wheels`` that the image installs; several test runs may want that at the same time."""
    _WHEELS.mkdir(parents=True, exist_ok=True)
    with (_WHEELS.parent / ".wheels.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        # The environment is the one that runs us; it must not be made anew under our feet.
        command = ["make", "--no-print-directory", "--assume-old=venv", "wheels"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RigBroken(f"the wheels for the image cannot be fetched:\n{done.stdout}{done.stderr}")


def _build(client: "APIClient") -> str:
    lines: list[dict[str, Any]] = list(
        client.build(
            path=str(ROOT),
            dockerfile="deploy/Dockerfile",
            tag=IMAGE,
            buildargs={"BASE_IMAGE": _BASE, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "build/wheels"},
            network_mode="none",
            decode=True,
            forcerm=True,
        )
    )
    return "".join(line.get("stream") or json.dumps(line) for line in lines)[-4000:]
