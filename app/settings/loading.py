"""From file, environment and flags to settings, or to everything that is wrong with them."""

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.settings import layers as sources
from app.settings.faults import CONFIG, Contradictions, Fault, InvalidSettings, KeyPath, shown
from app.settings.layers import Layer, Reading
from app.settings.model import Settings, section
from app.settings.pools import PoolSettings

_NO_FLAGS: Final[Mapping[str, str | None]] = {}

_WANTED: Final = {
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "text",
    "model_type": "a mapping",
    "tuple_type": "a list",
}
"""What pydantic's errors of type want, in YAML's words."""


@dataclass(frozen=True, slots=True)
class Effective:
    """Settings that know where each of their values came from."""

    settings: Settings
    _layers: tuple[Layer, ...]

    def origin(self, key: KeyPath) -> str:
        """Return the source of a value: ``default``, ``file``, a variable's name or a flag."""
        layer = _deciding(self._layers, key)
        return "default" if layer is None else layer.origin(key)

    def place(self, key: KeyPath) -> str | None:
        """Return where a value was written: file and line, a variable or a flag; ``None`` for a default."""
        layer = _deciding(self._layers, key)
        return None if layer is None else layer.place(key)


def load(
    config: str | None = None,
    *,
    flags: Mapping[str, str | None] = _NO_FLAGS,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings.

    Args:
        config: path of the YAML file; ``None`` = no file.
        flags: values by flag (``--log-level``), ``None`` for a flag that was not given.
        environ: by default this process's environment.

    Raises:
        InvalidSettings: with every fault of the configuration.
    """
    return read(config, flags=flags, environ=environ).settings


def read(
    config: str | None = None,
    *,
    flags: Mapping[str, str | None] = _NO_FLAGS,
    environ: Mapping[str, str] | None = None,
) -> Effective:
    """Return the settings with their origins; arguments and errors are those of :func:`load`."""
    readings = (
        sources.from_flags(flags),
        sources.from_environment(os.environ if environ is None else environ),
        _from_file(config),
    )
    layers = tuple(reading.layer for reading in readings)
    misread = [fault for reading in reversed(readings) for fault in reading.faults]
    settings, faults = _judged(layers, misread)
    if settings is None or faults:
        raise InvalidSettings(faults)
    return Effective(settings, layers)


def _from_file(config: str | None) -> Reading:
    if config is None:
        return sources.from_mapping({}, "", {})
    # Only those who have a file pay for the parser: a tenth of the time that a daemon needs to be registered.
    from app.settings import document  # noqa: PLC0415

    found = document.read_file(config)
    reading = sources.from_mapping(found.data, config, found.lines)
    return Reading(reading.layer, (*found.faults, *reading.faults))


def _judged(layers: tuple[Layer, ...], misread: Sequence[Fault]) -> tuple[Settings | None, Sequence[Fault]]:
    """Build the settings, and once more without the values that are faulty themselves.

    Only then it shows which of the others do not go together.  A contradiction with a value that was taken out is a
    contradiction with its default, and says nothing.
    """
    # Without its file, a configuration says nothing of what goes together.
    broken = {() if fault.key == CONFIG else fault.key for fault in misread}
    try:
        return Settings.model_validate(sources.merged(layers)), misread
    except ValidationError as error:
        faults, relations = _faults(error, layers)
    if faults:
        taken = {fault.key for fault in faults}
        broken |= taken
        try:
            Settings.model_validate(sources.merged([layer.without(taken) for layer in layers]))
        except ValidationError as error:
            _, relations = _faults(error, layers)
    apart = (fault for fault in relations if not fault.follows_from(broken))
    return None, [*misread, *faults, *apart]


def _faults(error: ValidationError, layers: tuple[Layer, ...]) -> tuple[list[Fault], list[Fault]]:
    """Return what is wrong with single values, and what with their relations."""
    single: list[Fault] = []
    relations: list[Fault] = []
    for detail in error.errors(include_url=False):
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, Contradictions):
            relations.extend(_placed(cause.faults, layers))
        else:
            single.extend(_placed([Fault(key=detail["loc"], text=_text(detail, cause))], layers))
    return single, relations


def _placed(faults: Iterable[Fault], layers: tuple[Layer, ...]) -> Iterator[Fault]:
    for fault in faults:
        layer = _deciding(layers, fault.key)
        yield fault if layer is None else fault.written_at(layer.place(fault.key))


def _deciding(layers: tuple[Layer, ...], key: KeyPath) -> Layer | None:
    for layer in layers:
        gives, decides = layer.reaches(key)
        if gives:
            return layer
        if decides:
            return None
    return None


def _text(detail: ErrorDetails, cause: object) -> str:
    kind = detail["type"]
    value = detail["input"]
    if isinstance(cause, ValueError):
        return str(cause)
    if kind == "extra_forbidden":
        return f"unknown key{_suggestion(detail['loc'])}"
    if kind == "enum":
        return f"must be {detail['ctx']['expected'].replace(chr(39), '')}, not {shown(value)}"
    if kind in _WANTED:
        quotes = ", put it in quotes" if kind == "string_type" and not isinstance(value, dict | list | None) else ""
        return f"must be {_WANTED[kind]}, not {shown(value)}{quotes}"
    return detail["msg"]


def _suggestion(key: KeyPath) -> str:
    model: type[BaseModel] | None = Settings
    for part in key[:-1]:
        if model is None:
            return ""
        if isinstance(part, int):
            continue
        field: Any = model.model_fields.get(part)
        model = PoolSettings if part == "pools" else None if field is None else section(field)
    if model is None:
        return ""
    close = difflib.get_close_matches(str(key[-1]), model.model_fields, n=1)
    return f", did you mean {close[0]}?" if close else ""
