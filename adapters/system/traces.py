"""Files and sockets that are removed when the plugin is uninstalled."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from domain.ports.traces import Taken


class FileTraces:
    """Keeps :class:`domain.ports.traces.Traces` for whatever a function finds.

    Args:
        find: returns the paths that are there.
        in_place_of_others: their directory is somebody else's and stays, empty or not.
    """

    def __init__(self, find: Callable[[], Iterable[str]], *, in_place_of_others: bool = False) -> None:
        self._find = find
        self._foreign_place = in_place_of_others

    def there(self) -> tuple[str, ...]:
        """See the port."""
        return tuple(self._find())

    def remove(self) -> Taken:
        """See the port.  A directory with anything else in it stays; so does one that is a mount point."""
        removed: list[str] = []
        obstacles: list[str] = []
        for path in self.there():
            try:
                Path(path).unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                obstacles.append(f"{path}: {os.strerror(error.errno or 0)}")
                continue
            removed.append(path)
        parents = () if self._foreign_place else [Path(path).parent for path in removed]
        for directory in dict.fromkeys(parents):
            with suppress(OSError):
                directory.rmdir()
                removed.append(str(directory))
        return Taken(removed=tuple(removed), obstacles=tuple(obstacles))


def existing(path: str) -> tuple[str, ...]:
    """Return a path if something lies there."""
    return (path,) if os.path.lexists(path) else ()
