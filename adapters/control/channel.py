"""Unix sockets as gRPC wants them named."""

from urllib.parse import quote


def target(path: str) -> str:
    """Return gRPC's name of a Unix socket: a URI, in which ``#``, ``%`` and ``?`` would mean something else."""
    return f"unix:{quote(path)}"
