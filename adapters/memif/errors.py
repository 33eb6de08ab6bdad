"""What can go wrong between two ends of a control channel, one exception a fact, each with its way out.

MemifError
+-- Malformed                a message breaks the protocol
+-- Unencodable              a message of ours has no form on the wire
+-- PlaceTaken               a server cannot have its socket's place
+-- ChannelUnusable          no channel could be had, or it broke
    +-- NoSocket             nothing is at the path (yet)
    |   +-- AbstractInstead  the peer listens on an abstract socket of that name
    +-- LinkInstead          a symbolic link is where a socket or its directory should be
    +-- NotASocket           something else is
    +-- WrongSocketType      a socket of another type listens there
    +-- NobodyListens        the socket is a dead one
    +-- NotPermitted         the system does not let us
    +-- PeerSilent           nothing came in time
    +-- PeerClosed           the peer hung up without a reason
    +-- NotMemif             what came is not the memif protocol
    +-- VersionMismatch      the peer speaks other versions
    +-- Refused              the peer says no, with its own reason
"""

from typing import ClassVar

from domain.errors import MemifError


class Malformed(MemifError):
    """A message that breaks the protocol: of a wrong size, of an unknown type, with a text that does not end."""


class Unencodable(MemifError):
    """A message of ours that has no form on the wire: a number out of its range, a secret that is too long."""


class PlaceTaken(MemifError):
    """A server's socket cannot be made where it belongs: another one lives there, or something that is no socket."""


class ChannelUnusable(MemifError):
    """No control channel with a peer could be had, or it broke.

    Attributes:
        label: what the kind is called where programs read it.
    """

    label: ClassVar[str] = "CHANNEL_UNUSABLE"


class NoSocket(ChannelUnusable):
    """Nothing is at the path."""

    label = "NO_SOCKET"


class AbstractInstead(NoSocket):
    """Nothing is at the path, but somebody listens on the abstract socket of the same name."""

    label = "ABSTRACT_SOCKET"


class LinkInstead(ChannelUnusable):
    """A symbolic link lies in the place of the socket or of its directory; it is not followed."""

    label = "SYMBOLIC_LINK"


class NotASocket(ChannelUnusable):
    """What lies at the path is no socket."""

    label = "NOT_A_SOCKET"


class WrongSocketType(ChannelUnusable):
    """A socket of another type than SEQPACKET listens there."""

    label = "WRONG_SOCKET_TYPE"


class NobodyListens(ChannelUnusable):
    """The socket is there, but no process listens on it any more, or not yet."""

    label = "NOBODY_LISTENS"


class NotPermitted(ChannelUnusable):
    """The system does not let us reach the socket."""

    label = "NOT_PERMITTED"


class PeerSilent(ChannelUnusable):
    """The peer did not answer, or did not take what was sent, in time."""

    label = "PEER_SILENT"


class PeerClosed(ChannelUnusable):
    """The channel was closed without a reason."""

    label = "PEER_CLOSED"


class NotMemif(ChannelUnusable):
    """What the peer says is not the memif protocol, or not in its order."""

    label = "NOT_MEMIF"


class VersionMismatch(ChannelUnusable):
    """The peer speaks none of our protocol versions.

    Attributes:
        lowest: of the peer's versions, major in the high byte.
        highest: likewise.
    """

    label = "VERSION_MISMATCH"

    def __init__(self, message: str, *, lowest: int, highest: int) -> None:
        super().__init__(message)
        self.lowest = lowest
        self.highest = highest


class Refused(ChannelUnusable):
    """The peer said DISCONNECT.

    Attributes:
        reason: in the peer's own words, unprintable characters escaped.
        code: the peer's number for it; no implementation gives it a meaning.
    """

    label = "REFUSED"

    def __init__(self, message: str, *, reason: str, code: int) -> None:
        super().__init__(message)
        self.reason = reason
        self.code = code
