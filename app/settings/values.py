"""What a single value may be.

Each rule is a function that returns the value or raises ``ValueError`` with words for the operator, and a type that
applies it.
"""

import ipaddress
import posixpath
import re
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from app.settings import durations
from app.settings.faults import shown

LONGEST_SOCKET: Final = 107
"""Bytes.  The kernel's ``sun_path`` has 108, the last of which is the terminator."""

_LONGEST_NAME: Final = 255
_LARGEST_GID: Final = 2**32 - 2
_LARGEST_PORT: Final = 65535
_OCTAL: Final = re.compile(r"[0-7]{3,5}", re.ASCII)
_LARGEST_MODE: Final = 0o7777
_OWNER_ALL: Final = 0o700
_OWNER_READ_WRITE: Final = 0o600
_WORLD: Final = 0o007
_GROUP: Final = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_.]*\$?", re.ASCII)
_SELINUX_LABEL: Final = re.compile(r"[^\s:]+:[^\s:]+:[^\s:]+:\S+")
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9]+([-._][A-Za-z0-9]+)*", re.ASCII)
_LONGEST_NAMESPACE: Final = 76
_HOST: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?", re.ASCII)


def _absolute_path(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"must be an absolute path, not {shown(value)}")
    _printable(value)
    if value.startswith("//") or posixpath.normpath(value) != value:
        raise ValueError(f"must be without '.', '..', '//' and a slash at the end, not {shown(value)}")
    for name in value.split("/"):
        _short(name)
    return value


def _mounted_path(value: str) -> str:
    """Check a path that container runtimes and dataplanes quote in lists of their own.

    Docker separates the parts of a bind mount with colons, DPDK device arguments with commas, VPP's command line
    with spaces.
    """
    _absolute_path(value)
    if any(c in value for c in " :,"):
        raise ValueError(f"must be without spaces, colons and commas, not {shown(value)}")
    return value


def _file_name(value: str) -> str:
    if "/" in value or value in {"", ".", ".."}:
        raise ValueError(f"must be a plain file name, not {shown(value)}")
    _printable(value)
    if any(c in value for c in " :,"):
        raise ValueError(f"must be without spaces, colons and commas, not {shown(value)}")
    _short(value)
    return value


def _printable(value: str) -> None:
    if not value.isprintable():
        raise ValueError(f"must be printable text, not {shown(value)}")


def _short(name: str) -> None:
    if len(name.encode()) > _LONGEST_NAME:
        raise ValueError(f"must not have a name of more than {_LONGEST_NAME} bytes")


def _socket_path(value: str) -> str:
    _absolute_path(value)
    length = len(value.encode())
    if length > LONGEST_SOCKET:
        raise ValueError(f"has {length} bytes, a socket's path may have {LONGEST_SOCKET}")
    return value


def _endpoint(value: str) -> str:
    scheme, separator, path = value.partition("://")
    if scheme != "unix" or not separator:
        raise ValueError(f"must be unix:// and an absolute path, not {shown(value)}")
    _socket_path(path)
    return value


def _mode(value: object) -> int:
    """Read permission bits.  Only text: YAML reads a bare 0600 as 384 and a bare 2770 as decimal."""
    if isinstance(value, int) and not isinstance(value, bool):
        message = 'must be in quotes, as in "2770": YAML reads bare digits as another number'
        raise ValueError(message)  # noqa: TRY004 - pydantic collects ValueErrors only
    if not isinstance(value, str) or _OCTAL.fullmatch(value) is None:
        raise ValueError(f'must be octal permission bits in quotes, as in "2770", not {shown(value)}')
    mode = int(value, 8)
    if mode > _LARGEST_MODE:
        raise ValueError(f"must be at most 7777, not {value}")
    return mode


def _directory_mode(mode: int) -> int:
    if mode & _OWNER_ALL != _OWNER_ALL:
        raise ValueError(f"must let the owner read, write and enter, as 2770 does, not {show_mode(mode)}")
    return mode


def _socket_mode(mode: int) -> int:
    """Check the mode of a socket behind which every secret of the node can be read."""
    if mode & _OWNER_READ_WRITE != _OWNER_READ_WRITE:
        raise ValueError(f"must let the owner read and write, as 0600 does, not {show_mode(mode)}")
    if mode & _WORLD:
        raise ValueError(
            f"must give others nothing, as 0600 and 0660 do, not {show_mode(mode)}: secrets are read through it"
        )
    return mode


def show_mode(mode: int) -> str:
    """Return permission bits as they are written in a file."""
    return f"{mode:04o}"


def _group(value: object) -> str | int | None:
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= len(str(_LARGEST_GID)):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= _LARGEST_GID:
            raise ValueError(f"must be a group's name or a number from 0 to {_LARGEST_GID}, not {shown(value)}")
        return value
    if isinstance(value, str) and _GROUP.fullmatch(value) is not None:
        return value
    raise ValueError(f"must be a group's name or number, not {shown(value)}")


def _selinux_label(value: str) -> str:
    if value not in {"auto", "none"} and (_SELINUX_LABEL.fullmatch(value) is None or not value.isprintable()):
        raise ValueError(f"must be auto, none or a label user:role:type:level, not {shown(value)}")
    return value


def _namespace(value: str) -> str:
    if _NAMESPACE.fullmatch(value) is None or len(value) > _LONGEST_NAMESPACE:
        raise ValueError(f"must be a namespace of containerd, such as k8s.io, not {shown(value)}")
    return value


def split_address(value: str) -> tuple[str, int]:
    """Return host and port of ``host:port``; an IPv6 address stands in brackets.  Port 0 is any free one.

    Raises:
        ValueError: the text is no such address.
    """
    host, colon, digits = value.rpartition(":")
    if not colon or not host or not digits.isascii() or not digits.isdecimal():
        raise ValueError(f"must be host:port, as in 127.0.0.1:9599, or null to switch it off, not {shown(value)}")
    port = int(digits[:6])
    if port > _LARGEST_PORT:
        raise ValueError(f"must have a port from 0 to {_LARGEST_PORT}, not {shown(value)}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if not _is_address(host, 6):
            raise ValueError(f"must have an IPv6 address between the brackets, not {shown(value)}")
    elif ":" in host:
        raise ValueError(f"must have an IPv6 address in brackets, as in [::1]:9599, not {shown(value)}")
    elif _HOST.fullmatch(host) is None or (set(host) <= set("0123456789.") and not _is_address(host, 4)):
        raise ValueError(f"must have a host name or address before the port, not {shown(value)}")
    return host, port


def _is_address(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _listen(value: str) -> str:
    split_address(value)
    return value


def _not_shorter_than_a_second(value: float) -> float:
    if value < 1:
        raise ValueError(f"must be at least 1s, not {durations.show(value)}")
    return value


def _zero_or_a_second(value: float) -> float:
    if 0 < value < 1:
        raise ValueError(f"must be 0s (only on change) or at least 1s, not {durations.show(value)}")
    return value


AbsolutePath = Annotated[str, AfterValidator(_absolute_path)]
MountedPath = Annotated[str, AfterValidator(_mounted_path)]
FileName = Annotated[str, AfterValidator(_file_name)]
SocketPath = Annotated[str, AfterValidator(_socket_path)]
Endpoint = Annotated[str, AfterValidator(_endpoint)]
Group = Annotated[str | int | None, BeforeValidator(_group)]
SelinuxLabel = Annotated[str, AfterValidator(_selinux_label)]
ContainerdNamespace = Annotated[str, AfterValidator(_namespace)]
Listen = Annotated[str, AfterValidator(_listen)]

_Mode = Annotated[int, BeforeValidator(_mode), PlainSerializer(show_mode)]
DirectoryMode = Annotated[_Mode, AfterValidator(_directory_mode)]
SocketMode = Annotated[_Mode, AfterValidator(_socket_mode)]

Duration = Annotated[float, BeforeValidator(durations.parse), PlainSerializer(durations.show)]
"""Seconds."""
Interval = Annotated[Duration, AfterValidator(_not_shorter_than_a_second)]
ListInterval = Annotated[Duration, AfterValidator(_zero_or_a_second)]
