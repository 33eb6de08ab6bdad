"""The rules of the house bite: each is broken in a copy of the tree, and the tool that keeps it must say so."""

import configparser
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sysconfig.get_path("scripts"))
PACKAGES = ("domain", "adapters", "app")

pytestmark = pytest.mark.skipif(not (SCRIPTS / "ruff").exists(), reason="needs the dependency group `dev`")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the tools read, to be spoiled."""
    skip = shutil.ignore_patterns("__pycache__", ".*_cache")
    for folder in (*PACKAGES, "tools"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=skip)
    for file in ("pyproject.toml", ".importlinter", ".gitignore", "LICENSE"):
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def plant(tree: Path, file: str, text: str) -> None:
    """Add a line to a module, which is made if it is not there."""
    module = tree / file
    module.parent.mkdir(parents=True, exist_ok=True)
    with module.open("a", encoding="utf-8") as stream:
        stream.write(f"{text}\n")


def run(tool: str, *arguments: str, tree: Path) -> subprocess.CompletedProcess[str]:
    """Run one of the environment's tools in a tree."""
    return subprocess.run([str(SCRIPTS / tool), *arguments], cwd=tree, capture_output=True, text=True, check=False)


class TestArchitecture:
    """What `.importlinter` promises."""

    def test_the_tree_as_it_is_keeps_every_contract(self, tree: Path) -> None:
        result = run("lint-imports", "--no-cache", tree=tree)

        assert result.returncode == 0, result.stdout
        assert broken(result.stdout) == set()

    @pytest.mark.parametrize(
        "file, statement, contract",
        [
            ("domain/pool.py", "import adapters.filesystem", "layers"),
            ("domain/pool.py", "import app.settings", "layers"),
            ("app/use_cases/planted.py", "import adapters.journal", "layers"),
            ("app/use_cases/planted.py", "import app.settings", "layers"),
            ("adapters/journal/planted.py", "import app.use_cases", "layers"),
            ("adapters/journal/planted.py", "import app.settings", "layers"),
            ("app/planted.py", "", "app"),
            ("app/planted/__init__.py", "", "app"),
            ("adapters/journal/planted.py", "import adapters.filesystem", "adapters"),
            ("adapters/planted/__init__.py", "import adapters.filesystem", "adapters"),
            ("domain/pool.py", "import os", "core"),
            ("domain/pool.py", "import os.path", "core"),
            ("domain/ports/planted.py", "from asyncio import Event", "core"),
            ("domain/planted.py", "from google.protobuf import message", "core"),
            ("app/use_cases/planted.py", "import asyncio", "core"),
            ("app/use_cases/planted.py", "from time import monotonic", "core"),
            ("app/use_cases/planted.py", "import structlog", "core"),
            ("app/daemon.py", "import dependency_injector", "injector"),
            ("app/cli/process.py", "from dependency_injector import providers", "injector"),
            ("adapters/journal/planted.py", "from dependency_injector import wiring", "injector"),
            ("app/daemon.py", "import adapters._pb.kubelet", "generated"),
            ("adapters/journal/planted.py", "import adapters._pb.kubelet", "generated"),
        ],
    )
    def test_a_planted_import_breaks_its_contract(self, tree: Path, file: str, statement: str, contract: str) -> None:
        plant(tree, file, statement)

        result = run("lint-imports", "--no-cache", tree=tree)

        assert result.returncode == 1, result.stdout
        assert contract in broken(result.stdout)
        assert file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") in result.stdout


class TestTypes:
    """What mypy is set to find, everywhere."""

    SPOILED = """
import asyncio
from enum import Enum, auto


class Colour(Enum):
    RED = auto()
    BLUE = auto()


def untyped(value):
    return value


def forgetful(colour: Colour) -> int:
    match colour:
        case Colour.RED:
            found = 1
    return found


async def careless() -> None:
    asyncio.gather(asyncio.sleep(0))


NUMBER: int = "one"  # type: ignore
"""

    def test_each_kind_of_error_is_found_in_each_folder(self, tree: Path) -> None:
        files = [f"{folder}/planted.py" for folder in (*PACKAGES, "tests", "tools")]
        for file in files:
            plant(tree, file, self.SPOILED)

        result = run("mypy", "--cache-dir", "cache", *files, tree=tree)

        codes = {"exhaustive-match", "ignore-without-code", "no-untyped-def", "possibly-undefined", "unused-awaitable"}
        found = set(re.findall(r"^(\S+?):\d+: error: .*\[([a-z-]+)\]$", result.stdout, flags=re.MULTILINE))
        assert result.returncode == 1, result.stdout + result.stderr
        assert found == {(file, code) for file in files for code in codes}


class TestStyle:
    """What ruff is set to find."""

    def test_the_linter_complains_of_code_without_types_and_docstrings(self, tree: Path) -> None:
        plant(tree, "domain/planted.py", "def spoiled(a, b = True):\n    print(a)\n    assert b")

        result = run("ruff", "check", "--no-cache", "--output-format=concise", tree=tree)

        assert result.returncode == 1
        assert {"ANN001", "ANN201", "D100", "D103", "FBT002", "S101", "T201"} <= codes(result.stdout)

    def test_tests_may_assert_and_need_no_docstring(self, tree: Path) -> None:
        plant(tree, "tests/__init__.py", '"""Planted."""')
        plant(tree, "tests/test_planted.py", "def test_sum():\n    assert 1 + 1 == 2")

        result = run("ruff", "check", "--no-cache", "--output-format=concise", "tests", tree=tree)

        assert result.returncode == 1
        assert codes(result.stdout) == {"ANN201"}

    def test_the_formatter_complains_of_odd_layout(self, tree: Path) -> None:
        plant(tree, "domain/planted.py", "A = {'b' : 1}")

        result = run("ruff", "format", "--no-cache", "--check", tree=tree)

        assert result.returncode == 1
        assert "domain/planted.py" in result.stdout

    def test_generated_code_is_left_alone(self, tree: Path) -> None:
        plant(tree, "adapters/_pb/planted.py", "A = {'b' : 1}")

        assert run("ruff", "check", "--no-cache", "adapters/_pb", tree=tree).returncode == 0
        assert run("ruff", "format", "--no-cache", "--check", "adapters/_pb", tree=tree).returncode == 0


class TestPackage:
    """What is built from the tree."""

    @pytest.fixture
    def dist(self, tree: Path) -> Path:
        """A wheel and an sdist of a tree in which somebody has worked."""
        for waste in (
            ".coverage",
            "domain/.coverage.host.1",
            "app/__pycache__/cli.cpython-311.pyc",
            "domain/.mypy_cache/a",
            ".venv/pyvenv.cfg",
        ):
            plant(tree, waste, "waste")
        # No isolation: the backend is the one that the lock names.
        subprocess.run([sys.executable, "-m", "hatchling", "build"], cwd=tree, capture_output=True, check=True)
        return tree / "dist"

    def test_the_wheel_holds_the_three_packages_and_nothing_else(self, dist: Path) -> None:
        expected = {
            path.relative_to(ROOT).as_posix()
            for package in PACKAGES
            for path in (ROOT / package).rglob("*")
            if path.is_file()
            and not any(part.startswith((".", "__pycache__")) for part in path.parts[len(ROOT.parts) :])
        }

        with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
            files = {name for name in wheel.namelist() if ".dist-info/" not in name}

        assert files == expected
        assert {f"{package}/py.typed" for package in PACKAGES} <= files

    def test_no_other_distribution_brings_packages_of_our_names(
        self, dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        site = tmp_path / "site"
        with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
            wheel.extractall(site)  # noqa: S202 - made a moment ago
        monkeypatch.syspath_prepend(site)

        owners = packages_distributions()

        assert {package: set(owners[package]) for package in PACKAGES} == {
            package: {"memif-device-plugin"} for package in PACKAGES
        }

    def test_the_sdist_holds_no_waste(self, dist: Path) -> None:
        with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
            files = {name.partition("/")[2] for name in sdist.getnames()}

        assert {"pyproject.toml", "LICENSE", "domain/pool.py"} <= files
        assert not [name for name in files if re.search(r"\.coverage|__pycache__|_cache|\.venv|\.pyc$", name)]


def broken(report: str) -> set[str]:
    """Return the contracts that import-linter found broken."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    names = {
        section.rpartition(":")[2]: contracts[section]["name"]
        for section in contracts.sections()
        if "contract" in section
    }
    summary = " ".join(report.partition("Broken contracts")[0].split())  # long names are wrapped
    verdicts = {
        key: match[1]
        for key, name in names.items()
        if (match := re.search(rf"{re.escape(name)} (KEPT|BROKEN)", summary))
    }

    assert verdicts.keys() == names.keys(), report
    return {key for key, verdict in verdicts.items() if verdict == "BROKEN"}


def codes(report: str) -> set[str]:
    """Return the rules that ruff names in a concise report."""
    return set(re.findall(r"^\S+:\d+:\d+: ([A-Z]+\d+) ", report, flags=re.MULTILINE))
