"""What the SDK, and the libraries under it, raise.  Importing this module imports the SDK."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import BadStatusLine, IncompleteRead, RemoteDisconnected
from typing import Final

import requests
import urllib3
from docker.errors import APIError, InvalidVersion

from domain.ports.runtime import RuntimeUnavailable

_LONGEST: Final = 200
"""Characters of a daemon's own words."""

_BY_NUMBER: Final = {
    errno.ENOENT: "there is no such socket: start dockerd, or set runtime.endpoint to where it listens",
    errno.ENOTDIR: "there is no such socket: set runtime.endpoint to where dockerd listens",
    errno.ECONNREFUSED: "nothing listens there: start dockerd, or set runtime.endpoint to where it listens",
    errno.EPROTOTYPE: "it is a socket of another kind: set runtime.endpoint to where dockerd listens",
    errno.EACCES: "permission denied: run as root, and see what SELinux or AppArmor forbids",
    errno.EPERM: "permission denied: run as root, and see what SELinux or AppArmor forbids",
    errno.EAGAIN: "it takes no more connections: dockerd hangs",
    errno.ECONNRESET: "the connection broke: dockerd was stopped or restarted",
    errno.EPIPE: "the connection broke: dockerd was stopped or restarted",
    errno.ECONNABORTED: "the connection was given up",
    errno.EMFILE: "this process has no file descriptors left",
    errno.ENFILE: "the machine has no file descriptors left",
}
"""What became of the connection, and what to do."""


@contextmanager
def mapped(path: str) -> Iterator[None]:
    """Turn whatever the SDK raises inside into the port's error.

    Every exception, because the SDK lets through what the libraries below it raise, and its own code trips over
    answers of unexpected form.  Nothing but calls of the SDK belongs inside.
    """
    try:
        yield
    except requests.JSONDecodeError:
        # It carries the text that could not be read, with all its labels: it must not be chained to what is shown.
        raise RuntimeUnavailable(f"Docker at {path} answers no JSON: is it Docker's socket?") from None
    except Exception as error:
        raise RuntimeUnavailable(f"Docker at {path}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, APIError):
        words = _cut(str(error.explanation or "no reason given"))
        return f"it refuses with status {error.status_code}: {words}"
    if isinstance(error, InvalidVersion):
        return f"it {error}"
    # No text of an exception that nobody has read: it may quote what a container carries.
    known = filter(None, map(_became, _causes(error)))
    return next(known, f"the conversation failed with {type(error).__name__}")


def _became(cause: BaseException) -> str | None:
    """Return what became of the connection, where an exception tells."""
    if isinstance(cause, (TimeoutError, requests.Timeout, urllib3.exceptions.TimeoutError)):
        return "it does not answer in time"
    if isinstance(cause, (RemoteDisconnected, IncompleteRead, requests.exceptions.ChunkedEncodingError)):
        return _BY_NUMBER[errno.ECONNRESET]
    if isinstance(cause, BadStatusLine):
        return "it does not speak HTTP: set runtime.endpoint to Docker's socket"
    if isinstance(cause, OSError) and cause.errno is not None:
        return _BY_NUMBER.get(cause.errno, f"it cannot be reached: {cause.strerror}")
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it came of; the libraries wrap the system's own error two or three times."""
    seen = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        yield now
        now = now.__cause__ or now.__context__


def _cut(words: str) -> str:
    """Return a daemon's words on one line of bounded length."""
    text = " ".join("".join(each if each.isprintable() else " " for each in words).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
