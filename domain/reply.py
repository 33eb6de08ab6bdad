"""Whether somebody listens on a socket."""

from enum import Enum, auto


class Reply(Enum):
    """What connecting to a socket file says."""

    ANSWERS = auto()
    REFUSES = auto()
    """Nobody listens: left behind by a process that died, or bound a moment ago and not listening yet."""
    DENIED = auto()
    ABSENT = auto()
