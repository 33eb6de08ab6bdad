"""Unix sockets as gRPC wants them named, and channels to the kubelet."""

from typing import Final
from urllib.parse import quote

import grpc.aio

_LARGEST_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes; as the kubelet itself allows.  gRPC's default of 4 MiB is too small for a node with many devices."""


def target(path: str) -> str:
    """Return gRPC's name of a Unix socket: a URI, in which ``#``, ``%`` and ``?`` would mean something else."""
    return f"unix:{quote(path)}"


def channel(path: str) -> grpc.aio.Channel:
    """Return a new channel to a Unix socket.

    One a use: a channel that outlives a kubelet restart reconnects only after a back-off of seconds to minutes.
    """
    return grpc.aio.insecure_channel(
        target(path),
        options=(
            ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
            # Otherwise identical channels share a connection, with the back-off of its last failure.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
        ),
    )
