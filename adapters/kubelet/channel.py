"""Channels to the kubelet."""

from typing import Final

import grpc.aio

_LARGEST_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes; as the kubelet itself allows.  gRPC's default of 4 MiB is too small for a node with many devices."""


def channel(path: str) -> grpc.aio.Channel:
    """Return a new channel to a Unix socket.

    One a use: a channel that outlives a kubelet restart reconnects only after a back-off of seconds to minutes.
    """
    return grpc.aio.insecure_channel(
        f"unix:{path}",
        options=(
            ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
            # Otherwise identical channels share a connection, with the back-off of its last failure.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
        ),
    )
