"""The configuration file: YAML, read so that every value's line is known and no key is given twice."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from app.settings.faults import CONFIG, Fault, KeyPath, shown

_LARGEST_FILE: Final = 1024 * 1024
_MOST_VALUES: Final = 100_000
"""Aliases multiply: a few lines can stand for billions of values."""

_MAPPING: Final = "tag:yaml.org,2002:map"
_SEQUENCE: Final = "tag:yaml.org,2002:seq"
_MERGE: Final = "tag:yaml.org,2002:merge"

# The C parser is several times faster and not in every build of PyYAML.
_Loader: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a file holds, the line of each value, and what is wrong with its form."""

    data: dict[str, Any]
    lines: Mapping[KeyPath, int]
    faults: tuple[Fault, ...] = ()


_UNREAD: Final = object()
"""Stands for a value that is at fault already, and must not be judged a second time."""


class _TooMuch(Exception):
    """More values than any configuration has."""


def read_file(path: str) -> Document:
    """Read a file; one that cannot be read is a fault like any other."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        return _refused(f"cannot read {shown(path)}: {error.strerror}")
    if len(text) > _LARGEST_FILE:
        return _refused(f"{shown(path)} has more than {_LARGEST_FILE} bytes, which is no configuration")
    return parse(text, path)


def parse(text: bytes, name: str) -> Document:
    """Read YAML from the bytes of a file with this name."""
    try:
        loader = _Loader(text)
        try:
            return _Reader(loader, name).document()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
        return _refused(f"not YAML{where}: {error.problem or error.context}", name)
    except yaml.reader.ReaderError as error:
        return _refused(f"not YAML, a byte or character that is not text: {error.reason}", name)
    except RecursionError:
        return _refused("nested too deeply", name)
    except _TooMuch:
        return _refused(f"more than {_MOST_VALUES} values", name)


def _refused(text: str, name: str | None = None) -> Document:
    return Document(data={}, lines={}, faults=(Fault(key=CONFIG, text=text, place=name),))


class _Reader:
    """One pass over the nodes of one document."""

    def __init__(self, loader: yaml.SafeLoader, name: str) -> None:
        self._loader = loader
        self._name = name
        self._lines: dict[KeyPath, int] = {}
        self._faults: list[Fault] = []
        self._open: set[int] = set()
        self._values = 0

    def document(self) -> Document:
        node = self._loader.get_single_node()
        if node is None:  # nothing but comments
            return Document(data={}, lines={})
        data = self._value(node, ())
        if not isinstance(data, dict):
            if not self._faults:
                self._fault((), node, f"must hold a mapping of keys, not {shown(data)}")
            data = {}
        return Document(data=data, lines=self._lines, faults=tuple(self._faults))

    def _value(self, node: yaml.Node, key: KeyPath) -> Any:
        self._values += 1
        if self._values > _MOST_VALUES:
            raise _TooMuch
        if id(node) in self._open:
            self._fault(key, node, "an alias of something that contains it")
            return _UNREAD
        self._lines.setdefault(key, _line(node))
        self._open.add(id(node))
        try:
            return self._content(node, key)
        finally:
            self._open.remove(id(node))

    def _content(self, node: yaml.Node, key: KeyPath) -> Any:
        if isinstance(node, yaml.MappingNode) and node.tag == _MAPPING:
            return self._mapping(node, key)
        if isinstance(node, yaml.SequenceNode) and node.tag == _SEQUENCE:
            items = [self._value(child, (*key, index)) for index, child in enumerate(node.value)]
            return [{} if item is _UNREAD else item for item in items]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, key)
        self._fault(key, node, f"the tag {node.tag} is not allowed here")
        return _UNREAD

    def _mapping(self, node: yaml.MappingNode, key: KeyPath) -> dict[str, Any]:
        self._note_duplicates(node, key)
        self._loader.flatten_mapping(node)
        mapping = {}
        for name_node, value_node in node.value:
            name = self._scalar(name_node, key) if isinstance(name_node, yaml.ScalarNode) else None
            if not isinstance(name, str):
                self._fault(key, name_node, "every key must be text")
                continue
            # A merged mapping comes first; the mapping's own keys replace what it gave.
            self._lines[*key, name] = _line(name_node)
            value = self._value(value_node, (*key, name))
            if value is not _UNREAD:
                mapping[name] = value
        return mapping

    def _note_duplicates(self, node: yaml.MappingNode, key: KeyPath) -> None:
        seen: dict[str, int] = {}
        for name_node, _ in node.value:
            name = name_node.value
            if name_node.tag == _MERGE or not isinstance(name, str):
                continue
            if name in seen:
                lines = f"lines {seen[name]} and {_line(name_node)}"
                self._fault((*key, name), name_node, f"given twice, in {lines}")
            seen.setdefault(name, _line(name_node))

    def _scalar(self, node: yaml.ScalarNode, key: KeyPath) -> Any:
        try:
            return self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError):
            # Dates that do not exist, numbers of thousands of digits, explicit tags that do not fit the text.
            self._fault(key, node, f"{shown(node.value)} cannot be read as a value")
            return _UNREAD

    def _fault(self, key: KeyPath, node: yaml.Node, text: str) -> None:
        self._faults.append(Fault(key=key or CONFIG, text=text, place=f"{self._name} line {_line(node)}"))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
