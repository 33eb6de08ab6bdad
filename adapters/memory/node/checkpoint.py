"""The kubelet's device checkpoint file, as kubelet 1.36 writes it."""

import base64
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from google.protobuf.message import DecodeError

from adapters._pb.kubelet.deviceplugin.v1beta1.api_pb2 import ContainerAllocateResponse
from adapters.memory.node.devices import Entry

FILE_NAME = "kubelet_internal_checkpoint"


def encode(entries: Iterable[Entry], registered: Mapping[str, Iterable[str]]) -> str:
    """Return the file's text.

    The checksum is a number as the real one is, but not the real one: that is taken over Go's own print of the data
    and cannot be made elsewhere.
    """
    data = {
        "PodDeviceEntries": [
            {
                "PodUID": entry.uid,
                "ContainerName": entry.container,
                "ResourceName": entry.resource,
                "DeviceIDs": {str(node): names for node, names in entry.devices.items()},
                "AllocResp": base64.b64encode(entry.answer.SerializeToString()).decode(),
            }
            for entry in entries
        ]
        or None,
        "RegisteredDevices": {resource: list(names) for resource, names in registered.items()},
    }
    checksum = zlib.crc32(json.dumps(data).encode())
    return json.dumps({"Data": data, "Checksum": checksum}, separators=(",", ":"))


def decode(text: str) -> tuple[list[Entry], list[str]]:
    """Return the stored answers and the names of the resources that were registered.

    Raises:
        ValueError: the text is no checkpoint.
    """
    try:
        document = json.loads(text)["Data"]
        entries = [_entry(item) for item in document["PodDeviceEntries"] or ()]
        return entries, list(document["RegisteredDevices"] or ())
    except (KeyError, TypeError, AttributeError, DecodeError) as error:
        raise ValueError(f"no checkpoint: {error!r}") from error


def _entry(item: Any) -> Entry:
    return Entry(
        uid=item["PodUID"],
        container=item["ContainerName"],
        resource=item["ResourceName"],
        devices={int(node): list(names) for node, names in item["DeviceIDs"].items()},
        answer=ContainerAllocateResponse.FromString(base64.b64decode(item["AllocResp"])),
    )


def write(path: Path, text: str, chance: Random) -> None:
    """Replace the file: a temporary one beside it, 0600, then a rename.

    The directory is made if somebody removed it; nothing else of what was in it comes back.
    """
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    temporary = path.with_name(f".{chance.randrange(10**9)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)


def read(path: Path) -> tuple[list[Entry], list[str]]:
    """Return what the file holds; missing or damaged, it holds nothing, and the kubelet starts all the same."""
    try:
        return decode(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return [], []
