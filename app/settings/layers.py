"""Where values come from: a file, the environment, flags.

Each gives a layer: a mapping of the shape of :class:`Settings`, and for every value where it was written.  What does
not even have that shape is a fault of the reading; whether values are right is judged when they are together.
"""

import copy
import difflib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final, get_args, get_origin

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from app.settings.faults import Fault, KeyPath, shown
from app.settings.model import Settings, leaves, section

PREFIX: Final = "MEMIF_DP_"

CONTROL_SOCKET: Final = f"{PREFIX}CONTROL_SOCKET"
"""A second name of ``MEMIF_DP_CONTROL__SOCKET``: the one that shells and manifests guess."""

FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "--runtime": ("runtime", "kind"),
    "--state": ("state",),
    "--plugin-dir": ("kubelet", "plugin_dir"),
    "--control-socket": ("control", "socket"),
    "--log-level": ("log", "level"),
    "--log-format": ("log", "format"),
}
"""The keys that have a flag."""

_SERVICE_LINK: Final = re.compile(r"(SERVICE_(HOST|PORT)|PORT)(_.*)?", re.ASCII)
_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_NO_PLACES: Final[Mapping[KeyPath, str]] = {}


class Layer:
    """The values of one source.

    Args:
        data: the values.
        origins: what ``config`` says of a value, by the key at or above it.
        places: what a fault says of a value, likewise; by default the same.
    """

    def __init__(
        self, data: dict[str, Any], origins: Mapping[KeyPath, str], places: Mapping[KeyPath, str] = _NO_PLACES
    ) -> None:
        self.data = data
        self._origins = origins
        self._places = places or origins

    def reaches(self, key: KeyPath) -> tuple[bool, bool]:
        """Tell whether the layer gives this key, and whether it decides on it.

        It also decides on a key that it does not give inside a list that it does give: lists are never merged.
        """
        value: Any = self.data
        decides = False
        for part in key:
            decides = decides or isinstance(value, list)
            if not _holds(value, part):
                return False, decides
            value = value[part]
        return True, True

    def origin(self, key: KeyPath) -> str:
        """Return the source of a value in a word: ``file``, a variable, a flag."""
        return _nearest(self._origins, key)

    def place(self, key: KeyPath) -> str:
        """Return where a value was written, as exactly as is known."""
        return _nearest(self._places, key)

    def without(self, keys: Collection[KeyPath]) -> "Layer":
        """Return the layer without some values; in a list an empty mapping takes their place."""
        data = copy.deepcopy(self.data)
        for key in keys:
            _drop(data, key)
        return Layer(data, self._origins, self._places)


@dataclass(frozen=True, slots=True)
class Reading:
    """A layer and what was wrong with its shape."""

    layer: Layer
    faults: tuple[Fault, ...] = ()


def merged(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the values of all layers, the strongest first: mappings key by key, anything else as a whole."""
    data: dict[str, Any] = {}
    for layer in reversed(layers):
        _lay(layer.data, data)
    return data


def variable(key: KeyPath) -> str:
    """Return the name of a key's environment variable."""
    return PREFIX + "__".join(map(str, key)).upper()


def from_flags(flags: Mapping[str, str | None]) -> Reading:
    """Read the flags that were given; ``None`` = it was not.

    Raises:
        KeyError: there is no such flag, which is our own mistake and not the operator's.
    """
    data: dict[str, Any] = {}
    origins: dict[KeyPath, str] = {}
    for flag, value in flags.items():
        key = FLAGS[flag]
        if value is not None:
            _put(data, key, value)
            origins[key] = flag
    return Reading(Layer(data, origins))


def from_environment(environ: Mapping[str, str]) -> Reading:
    """Read every variable that begins with ``MEMIF_DP_``; an empty one is an empty text, not an absent one."""
    known = {variable(key): (key, field) for key, field in leaves()}
    known[CONTROL_SOCKET] = known[variable(("control", "socket"))]
    data: dict[str, Any] = {}
    origins: dict[KeyPath, str] = {}
    faults: list[Fault] = []
    for name in sorted(name for name in environ if name.startswith(PREFIX)):
        if name not in known:
            faults.append(_unknown(name, known))
            continue
        key, field = known[name]
        text = environ[name]
        if key in origins and environ[origins[key]] != text:
            faults.append(Fault(key=key, text=f"{origins[key]} and {name} are both set, and differ", place=name))
            continue
        try:
            _put(data, key, _typed(text, field))
        except ValueError as error:
            faults.append(Fault(key=key, text=str(error), place=name))
        origins[key] = name
    return Reading(Layer(data, origins), tuple(faults))


def from_mapping(data: dict[str, Any], name: str, lines: Mapping[KeyPath, int]) -> Reading:
    """Take what a file holds; a section that is none would hide what other layers say of its keys."""
    faults = []
    places: dict[KeyPath, str] = {(): name, **{key: f"{name} line {line}" for key, line in lines.items()}}
    for key, field in Settings.model_fields.items():
        if key in data and section(field) is not None and not isinstance(data[key], dict):
            value = data.pop(key)
            faults.append(Fault(key=(key,), text=f"must be a mapping, not {shown(value)}", place=places[key,]))
    return Reading(Layer(data, {(): "file"}, places), tuple(faults))


def _unknown(name: str, known: Collection[str]) -> Fault:
    rest = name.removeprefix(PREFIX)
    key = tuple(rest.lower().split("__"))
    below = [each for each in known if each.startswith(f"{name}__")]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    if key[0] == "pools":
        hint = f", the list is given whole, as JSON in {variable(('pools',))}"
    elif below:
        hint = f", a section is given key by key, as in {below[0]}"
    elif _SERVICE_LINK.fullmatch(rest):
        hint = ", if Kubernetes sets it for a Service: switch enableServiceLinks off in the pod"
    elif close:
        hint = f", did you mean {close[0]}?"
    else:
        hint = ""
    return Fault(key=key, text=f"unknown variable{hint}", place=shown(name) if not name.isprintable() else name)


def _typed(text: str, field: FieldInfo) -> Any:
    """Return a variable's text as what a file would hold; what does not fit stays text and is refused later.

    Raises:
        ValueError: a list that is no JSON.
    """
    kinds = (field.annotation, *get_args(field.annotation))
    if get_origin(field.annotation) is tuple:
        return _json(text)
    if NoneType in kinds and text == "null":
        return None
    if any(isinstance(rule, BeforeValidator) for rule in field.metadata):
        return text  # modes, durations and groups are read from text
    if bool in kinds and text.lower() in {"true", "false"}:
        return text.lower() == "true"
    if kinds[0] is int and _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    return text


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise ValueError(f"must be a JSON list: {error.msg} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError("must be a JSON list, less deeply nested") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"must not give {shown(twice)} twice in one object")
    return mapping


def _nearest(names: Mapping[KeyPath, str], key: KeyPath) -> str:
    return next(names[key[:end]] for end in range(len(key), -1, -1) if key[:end] in names)


def _lay(above: Mapping[str, Any], data: dict[str, Any]) -> None:
    """Put values over others; what they were taken from is left as it is."""
    for key, value in above.items():
        below = data.get(key)
        if isinstance(value, dict):
            data[key] = dict(below) if isinstance(below, dict) else {}
            _lay(value, data[key])
        else:
            data[key] = value


def _put(data: dict[str, Any], key: KeyPath, value: object) -> None:
    *above, last = map(str, key)
    for part in above:
        data = data.setdefault(part, {})
    data[last] = value


def _drop(data: Any, key: KeyPath) -> None:
    *above, last = key
    for part in above:
        if not _holds(data, part):
            return
        data = data[part]
    if isinstance(data, dict):
        data.pop(last, None)
    elif _holds(data, last):
        data[last] = {}


def _holds(data: Any, part: str | int) -> bool:
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, dict) and part in data
