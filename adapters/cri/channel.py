"""Channels to a runtime's Unix socket."""

from typing import Final
from urllib.parse import quote

import grpc.aio

LARGEST_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes; as the kubelet itself accepts, and the most that containerd sends.  gRPC's default of 4 MiB is reached by a
node with many pods, or by a few tenants with large annotations."""


def channel(path: str) -> grpc.aio.Channel:
    """Return a new channel to a Unix socket.

    One a use: a channel that outlives a restart of the runtime reconnects only after a back-off, and one that several
    calls share takes them all down when it is closed.
    """
    # A URI, in which "#", "%" and "?" would mean something else.
    return grpc.aio.insecure_channel(
        f"unix:{quote(path)}",
        options=(
            ("grpc.max_receive_message_length", LARGEST_MESSAGE),
            # Otherwise identical channels share a connection, with the back-off of its last failure.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
        ),
    )
