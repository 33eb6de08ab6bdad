"""``docs/configuration.md`` and the model say the same."""

import re
from pathlib import Path

import yaml

from app.settings import PoolSettings, Settings
from app.settings.layers import FLAGS, variable
from app.settings.model import leaves

REFERENCE = Path(__file__).parents[2] / "docs" / "configuration.md"
ROW = re.compile(r"^\| `([a-z_.*]+)` \| .*", re.MULTILINE)


def rows() -> dict[str, list[str]]:
    """Return the cells after the key, by key."""
    text = REFERENCE.read_text(encoding="utf-8")
    return {match[1]: [cell.strip() for cell in match[0].split(" | ")[1:]] for match in ROW.finditer(text)}


def keys() -> dict[str, object]:
    """Return the default of every key as it is printed."""
    defaults = Settings().model_dump(mode="json")
    found: dict[str, object] = {f"pools.*.{name}": defaults["pools"][0][name] for name in PoolSettings.model_fields}
    for key, _ in leaves():
        value: object = defaults
        for part in key:
            assert isinstance(value, dict)
            value = value[part]
        found[".".join(map(str, key))] = value
    del found["pools"]
    return found


def test_the_reference_has_every_key_and_no_other() -> None:
    assert set(rows()) == set(keys())


def test_the_reference_has_the_default_of_every_key() -> None:
    documented = {key: yaml.safe_load(cells[1].strip("`")) for key, cells in rows().items() if "{" not in cells[1]}

    assert documented == {key: value for key, value in keys().items() if key in documented}
    assert set(keys()) - set(documented) == {"pools.*.device_id"}


def test_the_reference_has_the_variable_of_every_key() -> None:
    documented = {key: cells[2].strip("`") for key, cells in rows().items() if not key.startswith("pools.")}

    assert documented == {key: variable(tuple(key.split("."))) for key in documented}


def test_the_reference_says_what_has_a_flag() -> None:
    documented = {key: re.findall(r"`(--[a-z-]+)`", cells[-1]) for key, cells in rows().items()}

    assert {key: flags for key, flags in documented.items() if flags} == {
        ".".join(key): [flag] for flag, key in FLAGS.items()
    }
