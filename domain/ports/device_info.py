"""The device information files on the node."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from domain.device_info import DeviceInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What :meth:`DeviceInfoFiles.settle` changed, by name."""

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class DeviceInfoFiles(Protocol):
    """The files that tell others of our devices.

    Plain blocking calls, made by the storage worker only.

    * The directory is made 0755 if it is missing and there is something to put into it.  It must be a real one,
      root's, writable by nobody else.
    * Nobody ever reads half a file; a crash leaves nothing that looks like one.
    * A file that is as it must be is left alone, and so is everything that is not ours.
    """

    def write(self, directory: str, files: Mapping[str, str]) -> None:
        """Write files by name, all or none: what was there before stays if one cannot be written.

        Raises:
            NoRoom: there is too little space.
            DirectoryUnusable: anything else that stands in the way.
        """
        ...

    def settle(self, info: DeviceInfo) -> Settled:
        """Make a directory's files be as they must be, and remove those of ours that must not be.

        Raises:
            NoRoom, DirectoryUnusable: see :meth:`write`; what can be done is done all the same at the next call.
        """
        ...
