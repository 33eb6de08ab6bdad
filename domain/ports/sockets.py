"""The directories in which memif control sockets live."""

from dataclasses import dataclass
from typing import Protocol

from domain.allocation import Directory
from domain.errors import MemifError
from domain.evidence import DirectoryView
from domain.identity import AllocationId


class DirectoryUnusable(MemifError):
    """A base or allocation directory that cannot be used: missing, read-only, a symlink, another's, or in error."""


class NoRoom(MemifError):
    """The file system has too little space or too few inodes left for another directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensured:
    """What :meth:`SocketDirectories.ensure` found and did.

    Attributes:
        inode: of the directory as it is now.
        made: it was missing.
        mended: what was put right in place, in words such as ``mode 0755 -> 2770``.
    """

    inode: int
    made: bool = False
    mended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What is left of a removal after one bounded pass.

    Attributes:
        more: entries are left only because the pass was long enough; go on at the next opportunity.
        obstacle: what could not be removed and why, ``None`` if nothing stood in the way.
        left: whose directories something is left of, as far as that could be seen.
    """

    more: bool = False
    obstacle: str | None = None
    left: frozenset[AllocationId] = frozenset()

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return not self.more and self.obstacle is None


class SocketDirectories(Protocol):
    """The allocation directories below the base directories of all pools.

    Plain blocking calls, made by the storage worker only.

    * A base directory is made 0711 and root's.  Symlinks in its parents are followed once, when it is opened; its
      last component must be a real directory, root's, writable by nobody else.  Everything below is reached through
      its open descriptor, so that no later symlink leads outside.
    * A base directory that was replaced on disk is noticed and opened anew.
    * ``make`` makes a new directory or nothing: on an error nothing is left of it.
    * ``ensure`` never replaces a directory that exists.
    * ``remove`` renames first, so that the name is gone at once and a crash leaves something that is recognisable;
      then it deletes, bounded in time and entries, following no symlink and entering no mount.  Removing what is not
      there is fine.
    """

    def open(self, host_dir: str) -> None:
        """Open a base directory, making it if it is missing.

        Raises:
            DirectoryUnusable: it cannot be used; the message says what to do.
        """
        ...

    def make(self, directory: Directory) -> int:
        """Make a new allocation directory with its mode, group, label and files, and return its inode.

        Raises:
            NoRoom: less than 5 % of space or inodes is left; names the largest directory.
            DirectoryUnusable: anything else that stands in the way.
        """
        ...

    def ensure(self, directory: Directory) -> Ensured:
        """Make sure that an allocation's directory exists and is as its rules say.

        Raises:
            NoRoom: it is missing and cannot be made for lack of space or inodes.
            DirectoryUnusable: anything else that stands in the way.
        """
        ...

    def differences(self, directory: Directory) -> tuple[str, ...]:
        """Say in what owner, group, mode and label of a directory are not as its rules say, and change nothing.

        What is missing, or is no directory, has none.  Files are not looked at: this is asked for every directory
        again and again, and must cost next to nothing.

        Raises:
            DirectoryUnusable: it cannot be told now.
        """
        ...

    def read(self, directory: Directory, name: str) -> str | None:
        """Return a small regular file of an allocation's directory; ``None`` for anything else.

        Raises:
            DirectoryUnusable: whether it is there cannot be told now.
        """
        ...

    def remove(self, directory: Directory) -> Leftover:
        """Remove an allocation's directory with all that its owner left in it."""
        ...

    def resume(self, host_dir: str) -> Leftover:
        """Go on with the removals that an earlier pass or process did not finish."""
        ...

    def look(self, host_dir: str) -> DirectoryView:
        """Return what lies in a base directory.

        Raises:
            DirectoryUnusable: it cannot be read.
        """
        ...

    def close(self) -> None:
        """Close every descriptor."""
        ...
