"""What deploy/kustomize renders to."""

import subprocess
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

KUSTOMIZE: Final = Path(__file__).parents[2] / "deploy" / "kustomize"
KUBECTL: Final = Path(sysconfig.get_path("scripts"), "kubectl")
"""The environment's own, which is the same wherever the tests run."""

OVERLAYS: Final = tuple(sorted(path.name for path in (KUSTOMIZE / "overlays").iterdir()))

Manifest: TypeAlias = dict[str, Any]


@cache
def rendered(directory: str) -> Sequence[Manifest]:
    """Return what ``kubectl apply -k`` would apply for a directory below ``deploy/kustomize``."""
    command = [str(KUBECTL), "kustomize", str(KUSTOMIZE / directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not done.stderr, done.stderr  # a warning: something in it is on its way out
    return tuple(yaml.safe_load_all(done.stdout))


def overlay(name: str) -> Sequence[Manifest]:
    """Return what an overlay renders to."""
    return rendered(f"overlays/{name}")


def only(kind: str, manifests: Sequence[Manifest]) -> Manifest:
    """Return the only manifest of a kind."""
    (found,) = [each for each in manifests if each["kind"] == kind]
    return found


def pod_of(manifests: Sequence[Manifest]) -> Manifest:
    """Return the spec of the plugin's pods."""
    spec: Manifest = only("DaemonSet", manifests)["spec"]["template"]["spec"]
    return spec


def container_of(manifests: Sequence[Manifest]) -> Manifest:
    """Return the plugin's container."""
    (container,) = pod_of(manifests)["containers"]
    found: Manifest = container
    return found


def environment_of(manifests: Sequence[Manifest]) -> dict[str, str]:
    """Return the variables that the plugin is started with."""
    return {each["name"]: each["value"] for each in container_of(manifests).get("env", ())}


def configuration_of(manifests: Sequence[Manifest]) -> str:
    """Return the plugin's configuration file."""
    (text,) = only("ConfigMap", manifests)["data"].values()
    return str(text)
