"""`tools/proto.py`: the committed code is what the sources yield, and what is not gets noticed."""

import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools import proto

pytestmark = pytest.mark.skipif(
    find_spec("grpc_tools") is None, reason="needs the code generators: the dependency group `proto`"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the tool reads and writes."""
    for folder in ("proto", "adapters/_pb"):
        shutil.copytree(proto.ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "adapters" / "__init__.py").touch()
    (tmp_path / "tools").mkdir()
    shutil.copy(proto.__file__, tmp_path / "tools")
    return tmp_path


def run_python(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=checkout, check=False, capture_output=True, text=True)


def run_tool(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python(checkout, "tools/proto.py", *arguments)


def test_generated_code_is_what_the_sources_yield() -> None:
    checked = run_tool(proto.ROOT, "--check")

    assert (checked.returncode, checked.stderr) == (0, "")


def test_check_lists_what_is_out_of_date_and_a_run_mends_it(checkout: Path) -> None:
    generated = checkout / "adapters" / "_pb"
    before = proto.read(generated)
    edited = generated / "kubelet" / "podresources" / "v1" / "api_pb2.pyi"
    edited.write_text(edited.read_text().replace("Asks for all pods.", "Asks for some pods."))
    (generated / "kubelet" / "__init__.py").unlink()
    (generated / "kubelet" / "stray.py").touch()
    spoiled = proto.read(generated)

    checked = run_tool(checkout, "--check")

    lines = checked.stderr.splitlines()
    assert checked.returncode == 1
    assert [line for line in lines if line.startswith(("differs", "missing", "surplus"))] == [
        "missing: kubelet/__init__.py",
        "differs: kubelet/podresources/v1/api_pb2.pyi",
        "surplus: kubelet/stray.py",
    ]
    assert '-    """Asks for some pods."""' in lines
    assert '+    """Asks for all pods."""' in lines
    assert proto.read(generated) == spoiled

    mended = run_tool(checkout)

    assert (mended.returncode, mended.stdout) == (0, f"adapters/_pb: {len(before)} files, 3 changed\n")
    assert proto.read(generated) == before


def test_changed_source_makes_the_code_out_of_date(checkout: Path) -> None:
    source = checkout / "proto" / "kubelet" / "deviceplugin" / "v1beta1" / "api.proto"
    source.write_text(source.read_text().replace("bool read_only = 3;", "bool read_only = 4;"))

    checked = run_tool(checkout, "--check")

    assert checked.returncode == 1
    assert "differs: kubelet/deviceplugin/v1beta1/api_pb2.py" in checked.stderr.splitlines()


def test_broken_source_is_reported_and_nothing_is_written(checkout: Path) -> None:
    before = proto.read(checkout / "adapters" / "_pb")
    source = checkout / "proto" / "kubelet" / "podresources" / "v1" / "api.proto"
    source.write_text(source.read_text().replace("message CDIDevice {", "message {"))

    ran = run_tool(checkout)

    assert ran.returncode == 1
    assert "kubelet/podresources/v1/api.proto:" in ran.stderr
    assert ran.stderr.endswith("protoc failed; nothing was written.\n")
    assert proto.read(checkout / "adapters" / "_pb") == before


def test_sources_may_import_each_other(checkout: Path) -> None:
    folder = checkout / "proto" / "other" / "v1"
    folder.mkdir(parents=True)
    (folder / "api.proto").write_text(
        'syntax = "proto3";\n'
        "package other.v1;\n"
        'import "kubelet/podresources/v1/api.proto";\n'
        "message Pods { repeated .v1.PodResources pods = 1; }\n"
    )

    ran = run_tool(checkout)
    used = run_python(checkout, "-c", "from adapters._pb.other.v1.api_pb2 import Pods; print(Pods.__module__)")

    assert ran.returncode == 0, ran.stderr
    assert (used.stdout, used.stderr) == ("adapters._pb.other.v1.api_pb2\n", "")


def test_code_generators_of_another_version_are_refused(checkout: Path) -> None:
    tool = checkout / "tools" / "proto.py"
    pinned = proto.PINS["grpcio-tools"]
    tool.write_text(tool.read_text().replace(f'"{pinned}"', '"0.0.1"'))

    ran = run_tool(checkout)

    assert ran.returncode == 2
    assert ran.stderr.splitlines() == [
        f"needed: grpcio-tools==0.0.1, installed: {pinned}.",
        "Install the dependency group `proto`.",
    ]


def test_dependency_group_names_the_pinned_code_generators() -> None:
    groups = tomllib.loads((proto.ROOT / "pyproject.toml").read_text())["dependency-groups"]

    assert groups["proto"] == [f"{name}=={version}" for name, version in proto.PINS.items()]
