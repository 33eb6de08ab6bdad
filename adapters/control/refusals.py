"""What is refused: domain's exceptions as gRPC statuses, with the reason as google.rpc.ErrorInfo, and back."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from domain.dismissal import InUse, NotToldNow, SeveralUids, TooYoung
from domain.errors import MemifError
from domain.lookup import NoMemif, NoPod, UnknownNow

DOMAIN: Final = "memif.v1"
UNKNOWN_NOW: Final = UnknownNow.reason

_DETAILS: Final = "grpc-status-details-bin"

CODES: Final[Mapping[type[MemifError], StatusCode]] = MappingProxyType(
    {
        NoPod: StatusCode.NOT_FOUND,
        NoMemif: StatusCode.NOT_FOUND,
        UnknownNow: StatusCode.UNAVAILABLE,
        NotToldNow: StatusCode.UNAVAILABLE,
        InUse: StatusCode.FAILED_PRECONDITION,
        TooYoung: StatusCode.FAILED_PRECONDITION,
        SeveralUids: StatusCode.FAILED_PRECONDITION,
    }
)

UNFORESEEN: Final = "an internal error of the memif device plugin; its log tells more"

_LONGEST: Final = 1500
"""Characters of a text; it travels twice in trailing metadata, of which gRPC takes 8 KiB."""

Refusal = tuple[StatusCode, str, str]
"""Code, text and reason."""


class TooSlow(MemifError):
    """Something takes longer than the client is willing to wait; it goes on."""

    def __init__(self) -> None:
        super().__init__("the answer takes longer than was asked for; what was begun goes on, ask again")


class TooMuch(MemifError):
    """More is asked at once than is good for a daemon that has something else to do."""

    def __init__(self) -> None:
        super().__init__("too much is asked at the same time; ask again")


def refusal(error: MemifError) -> Refusal:
    """Return how a call is refused; what has no reason of its own is a trouble of the moment."""
    code = CODES.get(type(error), StatusCode.UNAVAILABLE)
    text = str(error)
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return code, shown, str(getattr(error, "reason", UNKNOWN_NOW))


def details(code: StatusCode, text: str, reason: str) -> tuple[tuple[str, bytes], ...]:
    """Return the trailing metadata that carry a reason, as gRPC's richer error model has it."""
    packed = any_pb2.Any()
    packed.Pack(error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN))
    status = status_pb2.Status(code=code.value[0], message=text, details=[packed])
    return ((_DETAILS, status.SerializeToString()),)


def reason_in(metadata: Any) -> str | None:
    """Return the reason that trailing metadata carry, ``None`` if they carry none of ours."""
    for key, value in metadata or ():
        if key != _DETAILS:
            continue
        for detail in status_pb2.Status.FromString(value).details:
            info = error_details_pb2.ErrorInfo()
            if detail.Unpack(info) and info.domain == DOMAIN:
                return str(info.reason)
    return None
