"""What the plugin leaves on a node, for the one who uninstalls it."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What came of removing something.

    Attributes:
        removed: paths that were there and are gone.
        obstacles: what could not be removed and why, in words.
    """

    removed: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()


class BaseDirectories(Protocol):
    """The base directories themselves, which nothing else removes.

    Plain blocking calls.
    """

    def exists(self, host_dir: str) -> bool:
        """Tell whether a base directory is there; nothing is made for that.

        Raises:
            DirectoryUnusable: something that is no base directory is.
        """
        ...

    def remove(self, host_dir: str) -> bool:
        """Remove a base directory if nothing is in it and nothing mounted on it; tell whether it is gone."""
        ...


class Traces(Protocol):
    """Files and sockets of one kind.

    Plain blocking calls.
    """

    def there(self) -> tuple[str, ...]:
        """Return the paths of what is there now."""
        ...

    def remove(self) -> Taken:
        """Remove what is there, and the directories that were made for it if they are empty then."""
        ...
