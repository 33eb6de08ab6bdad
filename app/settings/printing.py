"""The effective configuration as YAML, with the source of each value as a comment.

What is printed can be read again and gives the same settings.
"""

from collections.abc import Iterator
from typing import Any

import yaml

from app.settings.faults import KeyPath
from app.settings.loading import Effective

_INDENT = "  "


def show(effective: Effective) -> str:
    """Return the whole configuration, every key with its source: ``default``, ``file``, a variable or a flag."""
    lines = _mapping(effective, effective.settings.model_dump(mode="json"), ())
    return "".join(f"{line}\n" for line in lines)


def _mapping(effective: Effective, values: dict[str, Any], key: KeyPath) -> Iterator[str]:
    for name, value in values.items():
        path = (*key, name)
        if isinstance(value, dict):
            yield f"{name}:"
            yield from (_INDENT + line for line in _mapping(effective, value, path))
        elif isinstance(value, list) and value:
            yield f"{name}:"
            for index, item in enumerate(value):
                first, *rest = _mapping(effective, item, (*path, index))
                yield f"{_INDENT}- {first}"
                yield from (_INDENT * 2 + line for line in rest)
        else:
            yield f"{name}: {_scalar(value)}  # {effective.origin(path)}"


def _scalar(value: object) -> str:
    """Return a value on one line, quoted where YAML would take the text for something else."""
    text: str = yaml.safe_dump([value], default_flow_style=True, width=float("inf"))
    return text.strip().removeprefix("[").removesuffix("]")
