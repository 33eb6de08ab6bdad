"""Device information files without a file system."""

from collections.abc import Mapping

from domain.device_info import DeviceInfo
from domain.ports.device_info import Settled
from domain.ports.sockets import DirectoryUnusable


class MemoryDeviceInfo:
    """The port :class:`~domain.ports.device_info.DeviceInfoFiles`, in a dictionary.

    ``directories`` holds content by name, by directory.
    """

    def __init__(self) -> None:
        self.directories: dict[str, dict[str, str]] = {}
        self._failures: list[Exception] = []

    def write(self, directory: str, files: Mapping[str, str]) -> None:
        """Write files, all or none."""
        self._ask()
        self.directories.setdefault(directory, {}).update(files)

    def settle(self, info: DeviceInfo) -> Settled:
        """Write what is missing or different, and remove what is ours and not wanted."""
        self._ask()
        if not info.files and info.directory not in self.directories:
            return Settled()
        there = self.directories.setdefault(info.directory, {})
        written = sorted(name for name, content in info.files.items() if there.get(name) != content)
        removed = sorted((info.ours - info.files.keys()) & there.keys())
        there.update(info.files)
        for name in removed:
            del there[name]
        return Settled(written=tuple(written), removed=tuple(removed))

    def _ask(self) -> None:
        if self._failures:
            raise self._failures.pop(0)

    # Levers.

    def fail_next(self, error: Exception | None = None) -> None:
        """Let the next call fail; further calls of this queue up."""
        self._failures.append(error or DirectoryUnusable("the directory is read-only, as it was told to be"))
