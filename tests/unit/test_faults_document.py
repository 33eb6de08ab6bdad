"""The document about other plugins' faults names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "faults.md"

_NAMED = re.compile(r"`(tests/[^`]+)`")


def names_in(path: Path) -> set[str]:
    """Return the classes and functions of a file of tests, those of a class with its name before them."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            functions = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}::{each.name}" for each in functions}
    return found


def faults() -> dict[str, list[str]]:
    """Return the tests of each fault."""
    paragraphs = DOCUMENT.read_text(encoding="utf-8").split("\n**")[1:]
    return {each.partition("**")[0].replace("\n", " "): _NAMED.findall(each) for each in paragraphs}


@pytest.mark.parametrize("fault", faults())
def test_every_fault_is_tried_by_tests_that_exist(fault: str) -> None:
    named = [each.partition("::") for each in faults()[fault]]
    missing = [
        f"{path}::{name}"
        for path, _, name in named
        if not (ROOT / path).is_file() or (name and name not in names_in(ROOT / path))
    ]

    assert named
    assert missing == []


def test_the_document_is_read_whole() -> None:
    assert len(_NAMED.findall(DOCUMENT.read_text(encoding="utf-8"))) == sum(len(each) for each in faults().values())
    assert len(faults()) > 1
