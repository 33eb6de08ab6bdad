"""A client of the daemon's HTTP pages."""

import asyncio
import json
import socket
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

PREFIX: Final = "memif_device_plugin_"
LOCALHOST: Final = "127.0.0.1"


def free_port() -> int:
    """Return a port that nobody listens on at the moment."""
    with socket.create_server((LOCALHOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


async def get(port: int, path: str) -> tuple[int, str]:
    """Return status and body of a page.

    Raises:
        OSError: nobody listens, or whoever does hangs up.
        TimeoutError: nobody answers.
    """
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(LOCALHOST, port)
        try:
            writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            answer = await reader.read()
        finally:
            writer.close()
    head, _, body = answer.decode().partition("\r\n\r\n")
    if not head:
        raise ConnectionError("the server hung up")
    return int(head.split()[1]), body


async def page(port: int, path: str) -> tuple[int, dict[str, Any]]:
    """Return status and content of a page in JSON."""
    status, body = await get(port, path)
    return status, json.loads(body)


async def metrics(port: int) -> dict[tuple[str, ...], float]:
    """Return our metrics by name and values of labels, in the order of the labels' names."""
    status, body = await get(port, "/metrics")
    assert status == 200
    return {
        (sample.name.removeprefix(PREFIX), *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
        if family.name.startswith(PREFIX)
    }
