"""Rules of the house that no linter knows."""

import configparser
import re
import subprocess
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A letter in brackets keeps each pattern from matching itself: this file is read as well.
FORBIDDEN = {
    # Which registry serves a machine is that machine's business: a mirror, a proxy, none.
    "the host of a package registry": r"pyp[i]\.org|python[h]osted\.org|debia[n]\.org/debian|npmj[s]\.(org|com)",
    # What lies there lies there on one machine only.
    "a path of the author's machine": r"(?<![\w.~*-])/(wor[k]|roo[t]|hom[e]/\w+)/",
    # The text speaks of the program, not of how it came to be.
    "a tool that writes": r"(?i)\b(claud[e]|anthropi[c]|opena[i]|chatgp[t]|copilo[t]|LL[M]s?|A[I] (agent|assistant))\b",
    # A reader has this repository and nothing beside it.
    "a document from outside": r"\bshare[d]/\w+\.md\b",
}


def texts() -> list[tuple[str, str]]:
    """Return the name and the text of every text file that is, or is about to be, under version control."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - any git will do
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    found = []
    for name in filter(None, listing.stdout.split("\0")):
        try:
            found.append((name, (ROOT / name).read_text(encoding="utf-8")))
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue  # binary, deleted but still in the index, or a link to a folder
    return found


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what: str) -> None:
    hits = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if re.search(FORBIDDEN[what], line)
    ]

    assert not hits, f"these lines name {what}:\n" + "\n".join(hits)


def test_the_core_may_import_no_dependency() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    forbidden = contracts["importlinter:contract:core"]["forbidden_modules"].split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    dependencies = {normal(re.split(r"[<>=~!\[ ;]", text)[0]) for text in project["dependencies"]}

    allowed = {
        (distribution, package)
        for package, distributions in packages_distributions().items()
        for distribution in map(normal, distributions)
        if distribution in dependencies and package not in forbidden and not package.startswith("_")
    }

    assert not allowed, "name the import packages of each dependency in .importlinter, contract `core`"


def normal(distribution: str) -> str:
    """Return a distribution's name as the packaging rules normalise it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()
