"""Base directories as a whole, for the one who uninstalls the plugin."""

import os

from adapters.filesystem.base import open_base


class FileSystemBases:
    """Keeps :class:`domain.ports.traces.BaseDirectories`."""

    def exists(self, host_dir: str) -> bool:
        """See the port."""
        found = open_base(host_dir, create=False)
        if found is None:
            return False
        found.close()
        return True

    def remove(self, host_dir: str) -> bool:
        """See the port."""
        try:
            os.rmdir(host_dir.rstrip("/"))  # noqa: PTH106 -- a path with a slash at its end may be followed
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True
