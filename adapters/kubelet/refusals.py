"""Which gRPC status each refusal of the core becomes.

The kubelet shows the text of a failed Allocate in the pod's status, so the text is the domain's own; what the domain
did not foresee is named nowhere but in our log.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from grpc import StatusCode

from domain.errors import MemifError
from domain.grant import DeviceAskedTwice, NothingAsked, UnknownDevice
from domain.ports.journal import JournalUnusable
from domain.ports.sockets import DirectoryUnusable, NoRoom
from domain.ports.worker import OverBudget
from domain.start import NothingKnown, NotServing

CODES: Final[Mapping[type[MemifError], StatusCode]] = MappingProxyType(
    {
        UnknownDevice: StatusCode.NOT_FOUND,
        NothingKnown: StatusCode.NOT_FOUND,
        NothingAsked: StatusCode.INVALID_ARGUMENT,
        DeviceAskedTwice: StatusCode.INVALID_ARGUMENT,
        NoRoom: StatusCode.RESOURCE_EXHAUSTED,
        DirectoryUnusable: StatusCode.FAILED_PRECONDITION,
        JournalUnusable: StatusCode.FAILED_PRECONDITION,
        OverBudget: StatusCode.DEADLINE_EXCEEDED,
        NotServing: StatusCode.UNAVAILABLE,
    }
)

UNFORESEEN: Final = "an internal error of the memif device plugin; its log tells more"


def status(error: Exception) -> tuple[StatusCode, str]:
    """Return the code and the text with which a call is refused."""
    for kind in type(error).__mro__:
        if kind in CODES:
            return CODES[kind], str(error)
    return StatusCode.INTERNAL, UNFORESEEN
