"""How the tests of the settings ask: one configuration in, the faults by key out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import InvalidSettings, Settings, load

NOTHING: Mapping[str, str] = {}


def written(directory: Path, content: Mapping[str, Any]) -> str:
    """Write a configuration file and return its path."""
    path = directory / "plugin.yaml"
    path.write_text(yaml.safe_dump(dict(content)), encoding="utf-8")
    return str(path)


def accepted(directory: Path, content: Mapping[str, Any]) -> Settings:
    return load(written(directory, content), environ=NOTHING)


def refused(
    config: str | None = None,
    *,
    flags: Mapping[str, str | None] = NOTHING,
    environ: Mapping[str, str] = NOTHING,
) -> dict[str, str]:
    """Return the text of each fault by its key; a configuration without faults, or two for one key, fail the test."""
    with pytest.raises(InvalidSettings) as caught:
        load(config, flags=flags, environ=environ)
    lines = [str(fault).partition(": ") for fault in caught.value.faults]
    faults = {key: text for key, _, text in lines}
    assert len(faults) == len(lines), str(caught.value)
    return faults


def pool(**keys: Any) -> dict[str, Any]:
    return {"pools": [keys]}
