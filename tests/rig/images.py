"""Images without a registry: one static busybox, as an archive that both containerd and Docker read."""

import hashlib
import io
import json
import platform
import shutil
import tarfile
from pathlib import Path
from typing import Final

PAUSE: Final = "localhost/pause:1"
"""Waits; what a sandbox runs."""

BUSYBOX: Final = "localhost/busybox:1"
"""A shell and its tools; what containers run."""

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""Machines as images name them."""

APPLETS: Final = ("sh", "sleep", "cat", "ls", "env", "true", "false", "rm", "mkdir", "touch", "ln")
"""The tools in an image: links to busybox in ``/bin``."""


def busybox() -> Path | None:
    """Return the machine's busybox, ``None`` if there is none; the Debian package is ``busybox-static``."""
    found = shutil.which("busybox")
    return None if found is None else Path(found)


def write_archive(path: Path, program: Path) -> None:
    """Write both images into one archive: an OCI layout, with the table of contents that ``docker load`` wants."""
    layer = _layer(program)
    diff_id = _digest(layer)
    blobs = {diff_id: layer}
    manifests, table = [], []
    for name, command in ((PAUSE, ["/bin/sleep", "2147483647"]), (BUSYBOX, ["/bin/sh"])):
        config = _json(
            {
                "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
                "os": "linux",
                "config": {"Entrypoint": command, "Env": ["PATH=/bin"]},
                "rootfs": {"type": "layers", "diff_ids": [diff_id]},
            }
        )
        manifest = _json(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": _descriptor("config.v1+json", config),
                "layers": [_descriptor("layer.v1.tar", layer)],
            }
        )
        blobs |= {_digest(config): config, _digest(manifest): manifest}
        manifests.append(
            _descriptor("manifest.v1+json", manifest) | {"annotations": {"io.containerd.image.name": name}}
        )
        table.append({"Config": _blob(_digest(config)), "RepoTags": [name], "Layers": [_blob(diff_id)]})
    with tarfile.open(path, "w") as archive:
        add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        add(archive, "index.json", _json({"schemaVersion": 2, "manifests": manifests}))
        add(archive, "manifest.json", _json(table))
        for digest, content in blobs.items():
            add(archive, _blob(digest), content)


def _layer(program: Path) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as layer:
        for name in ("bin", "dev", "etc", "proc", "run", "sys", "tmp"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(entry)
        add(layer, "bin/busybox", program.read_bytes(), mode=0o755)
        for applet in APPLETS:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            layer.addfile(entry)
    return stream.getvalue()


def add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    """Add a file of root's to an archive."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _descriptor(kind: str, content: bytes) -> dict[str, object]:
    return {
        "mediaType": f"application/vnd.oci.image.{kind}",
        "digest": _digest(content),
        "size": len(content),
    }
