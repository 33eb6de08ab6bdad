"""Requests and responses, as bytes.  Nothing here performs I/O."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from domain.errors import MemifError

END: Final = b"\r\n\r\n"
"""What a request's head ends with."""

LONGEST_HEAD: Final = 8 * 1024
"""Bytes of a request's head.  Scrapers and probes send a few hundred."""

PLAIN: Final = "text/plain; charset=utf-8"

METHODS: Final = ("GET", "HEAD")

_REQUEST_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])")
_FIELD_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t\x20-\x7e\x80-\xff]*")
_ABSOLUTE: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


class BadRequest(MemifError):
    """A request that is not served.

    Attributes:
        status: the answer.
    """

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """What a client wants; ``path`` has no query."""

    method: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An answer."""

    body: bytes
    content_type: str = PLAIN
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


def parse(head: bytes) -> Request:
    """Return what a request's head asks for.

    Args:
        head: with or without :data:`END` and what comes after it, which is ignored.

    Raises:
        BadRequest: it is not HTTP/1, or nothing that is served here.
    """
    first, *lines = head.partition(END)[0].split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "this is no request of HTTP/1")
    method, target, major, minor = found.groups()
    if major != b"1":
        raise BadRequest(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1 is spoken here")
    names = [_name(line) for line in lines]
    if minor != b"0" and names.count(b"host") != 1:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "a request of HTTP/1.1 names one Host")
    return Request(method.decode(), _path(target.decode()))


def refusal(refused: BadRequest) -> Page:
    """Return the page that tells a client what was wrong with its request."""
    return told(refused.status, str(refused))


def told(status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> Page:
    """Return a page of one line of text."""
    return Page(body=f"{text}\n".encode(), status=status, headers=headers or {})


def encode(page: Page, *, head_only: bool) -> bytes:
    """Return a whole response; the connection ends after it."""
    fields = {
        "Date": formatdate(usegmt=True),
        "Content-Type": page.content_type,
        "Content-Length": str(len(page.body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
        **page.headers,
    }
    lines = [
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        *(f"{name}: {value}" for name, value in fields.items()),
    ]
    head = "\r\n".join(lines).encode("latin-1") + END
    return head if head_only else head + page.body


def _name(line: bytes) -> bytes:
    found = _FIELD_LINE.fullmatch(line)
    if found is None:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "a line of the request's head is malformed")
    return found[1].lower()


def _path(target: str) -> str:
    """Return the path of a target, which may be in the form that is meant for proxies."""
    local = _ABSOLUTE.sub("", target, count=1) if _ABSOLUTE.match(target) else target
    return re.split("[?#]", local, maxsplit=1)[0] or "/"
