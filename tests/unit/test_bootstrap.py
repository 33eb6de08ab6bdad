"""How `.venv` comes to be, on machines whose programs are recorded instead of run."""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tools import bootstrap

FROM_LOCK = "install --quiet --disable-pip-version-check --no-input --require-hashes --requirement LOCK"


@dataclass
class Machine:
    """What is missing on it, and what was run on it."""

    venv: Path
    lacks: set[str] = field(default_factory=set)
    """`ensurepip`, `pip` and `own pip` (the interpreter's, the environment's), `registry`, or names of programs."""
    ran: list[str] = field(default_factory=list)

    def run(self, command: list[str], environ: Mapping[str, str] | None = None) -> str:
        """Stand in for `bootstrap.run`."""
        del environ
        line = " ".join(command)
        for text, short in {self.venv: "VENV", bootstrap.LOCK: "LOCK", bootstrap.ROOT: "ROOT"}.items():
            line = line.replace(str(text), short)
        self.ran.append(line)
        needs = {
            "PYTHON -c import ensurepip": "ensurepip",
            "PYTHON -m pip --version": "pip",
            "VENV/bin/python -m pip --version": "own pip",
        }
        need = "registry" if "LOCK" in line else needs.get(line)
        if need in self.lacks:
            raise bootstrap.Failed(f"no {need}", "the whole story\n")
        if line.startswith("apt-get -qq install"):
            self.lacks -= {"virtualenv", "ensurepip"}
        if line.startswith("VENV/bin/python -c"):
            return json.dumps([sys.version, sys.base_prefix])
        if line.endswith(" VENV"):  # each way ends so
            self.lacks.discard("own pip")
            self.make()
        return ""

    def make(self) -> None:
        """Make what an environment is known by."""
        (self.venv / "bin").mkdir(parents=True)
        (self.venv / "bin" / "python").touch()
        (self.venv / "bin" / "activate").write_text(f"VIRTUAL_ENV={self.venv}\n", encoding="utf-8")

    def which(self, name: str) -> str | None:
        """Stand in for `shutil.which`."""
        return None if name in self.lacks else f"/opt/{name}"

    def installers(self) -> list[str]:
        """What the lock was installed with."""
        return [line.partition(" --require-hashes")[0].partition(" install")[0] for line in self.ran if "LOCK" in line]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with a complete Python and nothing else."""
    machine = Machine(tmp_path / ".venv", lacks={"uv", "virtualenv", "apt-get"})
    for name in ("LOCK", "PROJECT"):
        monkeypatch.setattr(bootstrap, name, tmp_path / name.lower())
        (tmp_path / name.lower()).write_text(name, encoding="utf-8")
    monkeypatch.setattr(bootstrap, "VENV", machine.venv)
    monkeypatch.setattr(bootstrap, "PYTHON", machine.venv / "bin" / "python")
    monkeypatch.setattr(bootstrap, "STAMP", machine.venv / "bootstrap.json")
    monkeypatch.setattr(bootstrap, "interpreter", lambda: "PYTHON")
    monkeypatch.setattr(bootstrap, "run", machine.run)
    monkeypatch.setattr(shutil, "which", machine.which)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    return machine


def test_a_new_environment_gets_the_lock_and_then_the_project(machine: Machine) -> None:
    assert bootstrap.main() == 0
    assert machine.ran[-2:] == [
        f"VENV/bin/python -m pip {FROM_LOCK}",
        f"VENV/bin/python -m pip {FROM_LOCK.partition(' --require')[0]} --no-deps --no-build-isolation --editable ROOT",
    ]


def test_a_finished_environment_costs_nothing(machine: Machine) -> None:
    bootstrap.main()
    machine.ran.clear()

    assert bootstrap.main() == 0
    assert machine.ran == []


@pytest.mark.parametrize(
    "lacking, having, installer",
    [
        ({"ensurepip"}, set(), "PYTHON -m pip --python VENV/bin/python"),
        ({"ensurepip", "pip"}, {"uv"}, "/opt/uv pip"),
        ({"ensurepip", "pip"}, {"virtualenv"}, "VENV/bin/python -m pip"),
    ],
)
def test_without_ensurepip_another_way_is_found(
    machine: Machine, lacking: set[str], having: set[str], installer: str
) -> None:
    machine.lacks |= lacking
    machine.lacks -= having

    assert bootstrap.main() == 0
    assert machine.installers() == [installer]


def test_uv_is_told_of_the_registry_that_pip_would_use(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.lacks = {"ensurepip", "pip"}
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")

    assert bootstrap.main() == 0
    assert "--default-index https://mirror.example/simple" in machine.ran[-1]


def test_where_no_way_works_one_line_says_what_to_install(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.lacks |= {"ensurepip", "pip"}

    assert bootstrap.main() == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "bootstrap: cannot make .venv (ensurepip: no ensurepip; pip: no pip; uv: not found; virtualenv: not found). "
        "Install one of: python3-venv (on Debian and Ubuntu), pip, uv, virtualenv."
    )


def test_root_on_debian_gets_the_missing_package(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.lacks = {"ensurepip", "pip", "uv", "virtualenv"}
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert bootstrap.main() == 0
    assert "apt-get -qq update" in machine.ran
    assert machine.installers() == ["VENV/bin/python -m pip"]


@pytest.mark.parametrize(
    "interpreter, package",
    [("/usr/bin/python3", f"python3.{sys.version_info.minor}-venv"), ("/opt/python/bin/python3", "virtualenv")],
)
def test_the_missing_package_is_the_one_for_this_interpreter(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, interpreter: str, package: str
) -> None:
    machine.lacks.clear()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(bootstrap, "interpreter", lambda: interpreter)

    assert bootstrap.debian_package() == package


@pytest.mark.parametrize("changed", ["LOCK", "PROJECT"])
def test_what_changed_is_installed_where_the_environment_stands(machine: Machine, changed: str) -> None:
    bootstrap.main()
    machine.ran.clear()
    getattr(bootstrap, changed).write_text("changed", encoding="utf-8")

    assert bootstrap.main() == 0
    assert machine.installers() == ["VENV/bin/python -m pip"]
    assert not [line for line in machine.ran if line.endswith(" VENV")]


def test_an_environment_that_was_left_half_made_is_completed(machine: Machine) -> None:
    machine.make()

    assert bootstrap.main() == 0
    assert not [line for line in machine.ran if line.endswith(" VENV")]


def test_a_damaged_environment_is_made_again(machine: Machine) -> None:
    machine.make()
    machine.lacks.add("own pip")

    assert bootstrap.main() == 0
    assert "PYTHON -m venv VENV" in machine.ran


def test_an_environment_that_was_moved_here_is_made_again(machine: Machine) -> None:
    machine.make()
    (machine.venv / "bin" / "activate").write_text("VIRTUAL_ENV=/elsewhere/.venv\n", encoding="utf-8")

    assert bootstrap.main() == 0
    assert "PYTHON -m venv VENV" in machine.ran


def test_a_failed_installation_tells_the_whole_story_and_is_tried_again(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.lacks.add("registry")

    assert bootstrap.main() == 1
    assert capsys.readouterr().err.splitlines()[1:] == [
        "the whole story",
        "bootstrap: cannot install lock into .venv; what the installer says is above",
    ]

    machine.lacks.discard("registry")

    assert bootstrap.main() == 0


def test_the_interpreter_is_never_the_one_of_the_environment_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(bootstrap.VENV))
    monkeypatch.setattr(sys, "_base_executable", "/usr/bin/python3")

    assert bootstrap.interpreter() == "/usr/bin/python3"


def test_an_interpreter_that_is_too_old_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))

    assert bootstrap.main() == 1
    assert "at least 3.11 is needed" in capsys.readouterr().err
