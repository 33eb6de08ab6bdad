"""What goes wrong between us and containerd, in the port's words."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

import grpc
import grpc.aio

from domain.ports.runtime import AnswerTooLarge, RuntimeUnavailable

_SHOWN: Final = 300
"""Characters of containerd's text that are repeated."""

_CURES: Final[Mapping[grpc.StatusCode, str]] = MappingProxyType(
    {
        grpc.StatusCode.UNAVAILABLE: "see whether containerd runs, and whether runtime.endpoint is its socket",
        grpc.StatusCode.UNIMPLEMENTED: (
            "what listens there is no containerd: set runtime.endpoint to containerd's socket, or runtime.kind to cri"
        ),
        grpc.StatusCode.RESOURCE_EXHAUSTED: (
            "look for containers with very large environments (an answer may have 16 MiB), or set runtime.kind to cri,"
            " which shows no environments"
        ),
        grpc.StatusCode.PERMISSION_DENIED: "run as root",
        grpc.StatusCode.UNAUTHENTICATED: "run as root",
    }
)
_ANY_CURE: Final = "see containerd's own log"


@contextmanager
def mapped(path: str, deadline: float) -> Iterator[None]:
    """Turn whatever asking containerd raises into the exception of the port.

    Args:
        path: containerd's socket.
        deadline: the seconds after which a :class:`TimeoutError` is raised in the block.

    Raises:
        RuntimeUnavailable: always the one.
    """
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise refused(path, error.code(), error.details()) from error
    except TimeoutError as error:
        raise RuntimeUnavailable(f"containerd at {path} has not answered within {deadline:g} s; {_ANY_CURE}") from error
    except grpc.aio.BaseError as error:
        raise RuntimeUnavailable(f"asking containerd at {path} failed: {_shown(str(error))}; {_ANY_CURE}") from error
    except asyncio.CancelledError as error:
        # A call whose channel is closed under it is cancelled, too, and only we can tell the two apart.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeUnavailable(f"the connection to containerd at {path} was closed") from error


def refused(path: str, code: grpc.StatusCode, text: str | None) -> RuntimeUnavailable:
    """Return the port's exception for a status that is not OK."""
    shown = _shown(text or "no text")
    cure = _CURES.get(code, _ANY_CURE)
    if "Permission denied" in shown:
        cure = _CURES[grpc.StatusCode.PERMISSION_DENIED]
    kind = AnswerTooLarge if code is grpc.StatusCode.RESOURCE_EXHAUSTED else RuntimeUnavailable
    return kind(f"containerd at {path} does not answer: {code.name}: {shown}; {cure}")


def not_understood(path: str) -> RuntimeUnavailable:
    """Return the port's exception for an answer that cannot be decoded; nothing of it is repeated."""
    return RuntimeUnavailable(
        f"what answers at {path} does not speak containerd's API; see whether runtime.endpoint is containerd's socket"
    )


def _shown(text: str) -> str:
    """Return a text on one line, escaped and cut."""
    return ascii(text[:_SHOWN])[1:-1][:_SHOWN]
