"""A root file system with Python and a shell, without a registry: made of the interpreter that runs the tests.

It stands in for the base image that users take: the interpreter, its library and the shared libraries that both and the
usual wheels need, at the places that they have on this machine, and a static busybox for a shell.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.rig import images

_NEEDLESS: Final = frozenset(
    {"__pycache__", "dist-packages", "idlelib", "lib2to3", "site-packages", "test", "tests", "tkinter", "turtledemo"}
)
"""Of the library: what others installed there, and what no daemon imports."""

_OF_LIBC: Final = ("libdl.so.2", "libpthread.so.0", "libresolv.so.2", "librt.so.1", "libutil.so.1")
"""Parts of the C library that are one with it by now, and that wheels ask for all the same."""

_WHEELS_OF_DEBIAN: Final = Path("/usr/share/python-wheels")
"""Where Debian keeps the pip that its ``venv`` module installs."""

_ACCOUNTS: Final = {"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n"}


def write(path: Path) -> None:
    """Write it as a tar archive."""
    shell = images.busybox()
    assert shell is not None, "the Debian package busybox-static is missing"
    interpreter = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    with tarfile.open(path, "w", dereference=True) as archive:
        for name in ("dev", "etc", "proc", "run", "sys", "tmp", "var"):
            _directory(archive, name)
        _link(archive, "var/run", "/run")
        for name, text in _ACCOUNTS.items():
            images.add(archive, name, text.encode())
        images.add(archive, "bin/busybox", shell.read_bytes(), mode=0o755)
        for applet in images.APPLETS:
            _link(archive, f"bin/{applet}", "busybox")
        archive.add(interpreter, filter=_as_roots)
        _link(archive, "usr/local/bin/python3", str(interpreter))
        archive.add(library, filter=_needed)
        if _WHEELS_OF_DEBIAN.is_dir():
            archive.add(_WHEELS_OF_DEBIAN, filter=_as_roots)
        for shared in sorted(set(_shared_libraries(interpreter, library))):
            archive.add(shared, filter=_as_roots)


def _shared_libraries(interpreter: Path, library: Path) -> Iterator[str]:
    """Yield what the dynamic linker loads for the interpreter, its modules, and what is installed beside us."""
    own = (path for path in library.glob("lib-dynload/*.so") if not path.name.startswith("_tkinter"))
    extensions = [*own, *Path(sysconfig.get_path("platlib")).glob("grpc/_cython/*.so")]
    linker = shutil.which("ldd")
    assert linker is not None, "the Debian package libc-bin is missing"
    done = subprocess.run([linker, interpreter, *extensions], capture_output=True, text=True, check=True)
    found: list[str] = re.findall(r"(?:=> |^\s+)(/\S+) \(0x", done.stdout, re.MULTILINE)
    yield from found
    for system in {os.path.dirname(path) for path in found if path.endswith("/libc.so.6")}:  # noqa: PTH120 -- texts
        yield from (path for name in _OF_LIBC if os.path.exists(path := f"{system}/{name}"))  # noqa: PTH110 -- as above


def _needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = os.path.basename(entry.name)  # noqa: PTH119 -- a name in the archive
    skipped = name in _NEEDLESS or name.startswith(("config-", "_tkinter")) or name.endswith((".a", ".pyc"))
    return None if skipped else _as_roots(entry)


def _as_roots(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def _directory(archive: tarfile.TarFile, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
    archive.addfile(entry)


def _link(archive: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)
