"""What goes wrong between us and a runtime, in the port's words."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, TypeVar

import grpc
import grpc.aio

from domain.ports.runtime import RuntimeUnavailable

T = TypeVar("T")

_SHOWN: Final = 300
"""Characters of a runtime's text that are repeated; some of them quote what a tenant wrote."""

_CURES: Final[Mapping[grpc.StatusCode, str]] = MappingProxyType(
    {
        grpc.StatusCode.UNAVAILABLE: "see whether the runtime runs, and whether runtime.endpoint is its socket",
        grpc.StatusCode.UNIMPLEMENTED: (
            "what listens there serves no CRI v1: take the cri plugin off containerd's disabled_plugins, or set"
            " runtime.endpoint to the socket that the kubelet uses (its containerRuntimeEndpoint)"
        ),
        grpc.StatusCode.RESOURCE_EXHAUSTED: (
            "an answer of more than 16 MiB is too large for the kubelet, too: look for pods with very large annotations"
        ),
        grpc.StatusCode.PERMISSION_DENIED: "run as root",
        grpc.StatusCode.UNAUTHENTICATED: "run as root",
    }
)
_ANY_CURE: Final = "see the runtime's own log"


@contextmanager
def mapped(path: str, deadline: float) -> Iterator[None]:
    """Turn whatever asking a runtime raises into the exception of the port.

    Args:
        path: the runtime's socket.
        deadline: the seconds after which a :class:`TimeoutError` is raised in the block.

    Raises:
        RuntimeUnavailable: always the one.
    """
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise refused(path, error.code(), error.details()) from error
    except TimeoutError as error:
        raise RuntimeUnavailable(
            f"the container runtime at {path} has not answered within {deadline:g} s; {_ANY_CURE}"
        ) from error
    except grpc.aio.BaseError as error:
        raise RuntimeUnavailable(f"asking the container runtime at {path} failed: {_shown(str(error))}") from error
    except asyncio.CancelledError as error:
        # A call whose channel is closed under it is cancelled, too, and only we can tell the two apart.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeUnavailable(f"the connection to the container runtime at {path} was closed") from error


def refused(path: str, code: grpc.StatusCode, text: str | None) -> RuntimeUnavailable:
    """Return the port's exception for a status that is not OK."""
    shown = _shown(text or "no text")
    cure = _CURES.get(code, _ANY_CURE)
    if "Permission denied" in shown:
        cure = _CURES[grpc.StatusCode.PERMISSION_DENIED]
    return RuntimeUnavailable(f"the container runtime at {path} does not answer: {code.name}: {shown}; {cure}")


def understood(path: str, answer: T | None) -> T:
    """Return an answer; gRPC makes ``None`` of one that it cannot decode, such as text that is not UTF-8.

    Raises:
        RuntimeUnavailable: it is none.
    """
    if answer is None:
        raise RuntimeUnavailable(
            f"the container runtime at {path} answers with no message of the CRI; see whether runtime.endpoint is right"
        )
    return answer


def _shown(text: str) -> str:
    """Return a text on one line, escaped and cut."""
    return ascii(text[:_SHOWN])[1:-1][:_SHOWN]
