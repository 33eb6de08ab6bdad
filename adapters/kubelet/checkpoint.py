"""The kubelet's device checkpoint, read and never written.

The file is private to the kubelet, so anything that is not one of the two forms known is treated as unknown rather
than guessed at: an entry overlooked would be a directory lost.
"""

import base64
import binascii
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2
from adapters.kubelet import translate
from domain.answer import Answer
from domain.evidence import Absent, CheckpointEntry, CheckpointView, Unknown
from domain.identity import DeviceId, PodUid
from domain.ports.clock import Clock
from domain.resource import ResourceName

FILE_NAME: Final = "kubelet_internal_checkpoint"
_LARGEST: Final = 256 * 1024 * 1024
"""Bytes.  A node's file has some kilobytes a container; what is larger than this is not the kubelet's."""


class _NotUnderstood(Exception):
    """The file's form is not one of the known ones."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """The last successful reading and the version of the file that it was made of."""

    version: tuple[int, ...]
    entries: tuple[CheckpointEntry, ...]


class KubeletCheckpoint:
    """Reads the checkpoint; keeps the port :class:`domain.ports.checkpoint.Checkpoint`.

    The kubelet replaces the file by renaming, so inode, size and time tell whether it must be read again.
    """

    def __init__(self, *, directory: str, clock: Clock) -> None:
        self._path = os.path.join(directory, FILE_NAME)  # noqa: PTH118 -- a plain string, for messages too
        self._clock = clock
        self._last: _Reading | None = None

    def read(self) -> CheckpointView | Unknown:
        """Read the file as it is now."""
        began = self._clock.monotonic()
        try:
            return CheckpointView(began=began, entries=self._entries())
        except FileNotFoundError:
            return Absent(f"{self._path} does not exist; the kubelet writes it with the first device list")
        except OSError as error:
            return Unknown(f"{self._path} cannot be read: {error.strerror}")
        except _NotUnderstood as error:
            return Unknown(f"{self._path} is not understood: {error}")

    def _entries(self) -> tuple[CheckpointEntry, ...]:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if self._last is not None and self._last.version == version:
                return self._last.entries
            if not stat.S_ISREG(status.st_mode):
                msg = "it is no regular file"
                raise _NotUnderstood(msg)
            if status.st_size > _LARGEST:
                msg = f"it has {status.st_size} bytes"
                raise _NotUnderstood(msg)
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read()
        finally:
            os.close(descriptor)
        entries = parse(content)
        self._last = _Reading(version, entries)
        return entries


def parse(content: bytes) -> tuple[CheckpointEntry, ...]:
    """Return the entries of a checkpoint file.

    Raises:
        _NotUnderstood: with what was expected, and never with content, which holds secrets.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        # The parser's own error carries the text; it must not be chained into anything that is shown.
        msg = "it is not JSON"
        raise _NotUnderstood(msg) from None
    data = _member(_mapping(document, "the document"), "Data", "the document")
    entries = _member(_mapping(data, "Data"), "PodDeviceEntries", "Data")
    return tuple(_entry(each) for each in _sequence(entries, "PodDeviceEntries"))


def _entry(raw: object) -> CheckpointEntry:
    entry = _mapping(raw, "an entry")
    return CheckpointEntry(
        uid=PodUid(_text(entry, "PodUID")),
        container=_text(entry, "ContainerName"),
        resource=ResourceName(_text(entry, "ResourceName")),
        devices=_devices(_member(entry, "DeviceIDs", "an entry")),
        answer=_answer(_member(entry, "AllocResp", "an entry")),
    )


def _devices(raw: object) -> tuple[DeviceId, ...]:
    """Ids by NUMA node since Kubernetes 1.20, a flat list before; one id may stand under several nodes."""
    if isinstance(raw, dict):
        ids = [name for node in raw.values() for name in _sequence(node, "DeviceIDs")]
    else:
        ids = list(_sequence(raw, "DeviceIDs"))
    if not all(isinstance(name, str) for name in ids):
        msg = "a device id is no text"
        raise _NotUnderstood(msg)
    return tuple(dict.fromkeys(DeviceId(str(name)) for name in ids))


def _answer(raw: object) -> Answer:
    if raw is None:
        return Answer()
    if not isinstance(raw, str):
        msg = "AllocResp is no text"
        raise _NotUnderstood(msg)
    try:
        return translate.answer(api_pb2.ContainerAllocateResponse.FromString(base64.b64decode(raw, validate=True)))
    except (binascii.Error, ValueError, DecodeError):
        msg = "an AllocResp is no stored answer"
        raise _NotUnderstood(msg) from None


def _member(mapping: Mapping[str, object], key: str, where: str) -> object:
    if key not in mapping:
        msg = f"{where} has no {key}"
        raise _NotUnderstood(msg)
    return mapping[key]


def _text(mapping: Mapping[str, object], key: str) -> str:
    value = _member(mapping, key, "an entry")
    if not isinstance(value, str) or not value:
        msg = f"{key} is no text"
        raise _NotUnderstood(msg)
    return value


def _mapping(raw: object, what: str) -> Mapping[str, object]:
    if not isinstance(raw, dict):
        msg = f"{what} is no object"
        raise _NotUnderstood(msg)
    return raw


def _sequence(raw: object, what: str) -> Iterable[object]:
    """A list; Go writes an empty one as null."""
    if raw is None:
        return ()
    if not isinstance(raw, list):
        msg = f"{what} is no list"
        raise _NotUnderstood(msg)
    return raw
