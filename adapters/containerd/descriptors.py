"""Message types of containerd's API, out of the Python package ``containerd``, of which only this module knows.

The package carries the whole API in generated modules that no protobuf since version 4 can import.  What they were
generated with is still in them, as one literal each: a serialized ``FileDescriptorProto``.  So the modules are read as
text and never executed, the literals are taken out, and the types are built from them in a pool of their own, where
they cannot meet anybody else's.
"""

import ast
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    timestamp_pb2,
)
from google.protobuf.message import DecodeError

from domain.errors import MemifError

PACKAGE: Final = "containerd"
"""The name of the distribution, and of the directory in which its modules are."""

_LITERAL: Final = "serialized_pb"
_CURE: Final = f"install a release of {PACKAGE} that this program admits, or set runtime.kind to cri"

_PROTOBUFS_OWN: Final[Mapping[str, bytes]] = MappingProxyType(
    {
        each.DESCRIPTOR.name: each.DESCRIPTOR.serialized_pb
        for each in (any_pb2, descriptor_pb2, empty_pb2, field_mask_pb2, timestamp_pb2)
    }
)
"""Files that protobuf brings along, by name."""

_EVERY_FIELD: Final[Mapping[str, frozenset[str]]] = MappingProxyType({})


class PackageNotUnderstood(MemifError):
    """The installed package is not laid out as it was when this was written, or there is none."""


class Types:
    """The message types of some files of the API, and of all files that those need.

    Args:
        files: names of ``.proto`` files, as they import each other.
        read: fields to know of a message, by its full name; of others all are known.  What is not known is skipped,
            not decoded: a label that is no UTF-8 spoils no container of which we read no labels.

    Raises:
        PackageNotUnderstood: with what was not as expected, and the way out.
    """

    def __init__(self, files: Iterable[str], *, read: Mapping[str, frozenset[str]] = _EVERY_FIELD) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        self._read = read
        self._added: set[str] = set()
        self._root = _root()
        for each in files:
            self._add(each)

    def message(self, name: str) -> type[Any]:
        """Return a message's class by its full name.

        Raises:
            PackageNotUnderstood: no file that was asked for has it.
        """
        try:
            return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))
        except KeyError as error:
            raise _not_understood(f"no message {name}") from error

    def _add(self, name: str) -> None:
        """Add a file to the pool, after those that it needs."""
        if name in self._added:
            return
        self._added.add(name)
        file = self._file(name)
        for each in file.dependency:
            self._add(each)
        try:
            self._pool.Add(file)
        except TypeError as error:
            raise _not_understood(f"a description of {name} that is not sound") from error

    def _file(self, name: str) -> descriptor_pb2.FileDescriptorProto:
        """Return a file's description, with the known fields only."""
        serialized = _PROTOBUFS_OWN.get(name) or self._literal(name)
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(serialized)
        except DecodeError as error:
            raise _not_understood(f"a description of {name} that is none") from error
        if file.name != name:
            raise _not_understood(f"a description of {name!r} that is one of {file.name!r}")
        for message in file.message_type:
            known = self._read.get(f"{file.package}.{message.name}")
            if known is not None:
                fields = [each for each in message.field if each.name in known]
                if len(fields) != len(known):
                    raise _not_understood(f"no {message.name} with the fields {', '.join(sorted(known))}")
                del message.field[:]
                message.field.extend(fields)
        return file

    def _literal(self, name: str) -> bytes:
        """Return the literal in the module that was generated from a file."""
        path = self._root / f"{name.removesuffix('.proto')}_pb2.py"
        try:
            tree = ast.parse(path.read_bytes())
        except OSError as error:
            raise _not_understood(f"no {path}: {error.strerror}") from error
        except (SyntaxError, ValueError) as error:
            raise _not_understood(f"no Python in {path}") from error
        found = [
            keyword.value.value
            for statement in tree.body
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)
            for keyword in statement.value.keywords
            if keyword.arg == _LITERAL and isinstance(keyword.value, ast.Constant)
        ]
        match found:
            case [bytes() as serialized]:
                return serialized
            case _:
                raise _not_understood(f"not one {_LITERAL} in {path}")


def _root() -> Path:
    """Return the directory in which the package is installed, without importing it."""
    try:
        return Path(str(distribution(PACKAGE).locate_file("")))
    except PackageNotFoundError as error:
        raise PackageNotUnderstood(f"the Python package {PACKAGE} is not installed: {_CURE}") from error


def _not_understood(what: str) -> PackageNotUnderstood:
    return PackageNotUnderstood(f"the Python package {PACKAGE} is not as expected, it has {what}: {_CURE}")
