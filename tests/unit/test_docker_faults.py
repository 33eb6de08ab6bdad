"""Whatever the SDK raises becomes the port's error, in words that help."""

import errno
import http.client
import inspect
import json
from collections.abc import Iterator
from types import ModuleType

import docker.errors
import pytest
import requests.exceptions
import urllib3.exceptions

from adapters.docker.faults import mapped
from domain.ports.runtime import RuntimeUnavailable

PATH = "/run/docker.sock"
SECRET = "averygoodsecret4u"


def raised_by(module: ModuleType) -> Iterator[type[Exception]]:
    """Yield every exception class of a module; warnings are classes of exceptions too, and nobody raises them."""
    for _, found in inspect.getmembers(module, inspect.isclass):
        if issubclass(found, Exception) and not issubclass(found, Warning):
            yield found


def become(error: Exception) -> RuntimeUnavailable:
    """Return what becomes of an error."""
    with pytest.raises(RuntimeUnavailable) as caught, mapped(PATH):
        raise error
    return caught.value


def an(kind: type[Exception]) -> Exception:
    """Return an exception of a kind without calling its constructor, as each wants something else; it has a secret."""
    error = kind.__new__(kind)
    error.args = (SECRET,)
    for name in ("msg", "param", "name", "message"):
        setattr(error, name, SECRET)
    if isinstance(error, requests.exceptions.RequestException):
        error.response = None
    if isinstance(error, docker.errors.APIError):
        error.explanation = None
    return error


ALL = sorted(
    {
        *raised_by(docker.errors),
        *raised_by(requests.exceptions),
        *raised_by(urllib3.exceptions),
        *raised_by(http.client),
        KeyError,  # docker.errors on an error that is no object, and the SDK's other guesses
        TypeError,
        AttributeError,
        UnicodeDecodeError,
        RecursionError,  # JSON that is nested too deeply
        OSError,
        TimeoutError,
    },
    key=lambda kind: (kind.__module__, kind.__qualname__),
)


class TestTotality:
    @pytest.mark.parametrize("kind", ALL, ids=lambda kind: f"{kind.__module__}.{kind.__qualname__}")
    def test_every_exception_is_mapped_and_none_is_quoted_unread(self, kind: type[Exception]) -> None:
        error = an(kind)

        unavailable = become(error)

        assert PATH in str(unavailable)
        if kind is not docker.errors.InvalidVersion:  # raised by ourselves only
            assert SECRET not in str(unavailable)
        if kind is requests.exceptions.JSONDecodeError:
            assert unavailable.__cause__ is None
        else:
            assert unavailable.__cause__ is error

    def test_the_list_of_exceptions_is_not_empty(self) -> None:
        assert {docker.errors.APIError, requests.exceptions.ReadTimeout, urllib3.exceptions.ProtocolError} <= set(ALL)

    @pytest.mark.parametrize("passing", [KeyboardInterrupt, SystemExit])
    def test_what_ends_the_process_passes(self, passing: type[BaseException]) -> None:
        with pytest.raises(passing), mapped(PATH):
            raise passing


def wrapped(error: OSError) -> requests.exceptions.ConnectionError:
    """Return a system's error as it comes out of the libraries."""
    protocol = urllib3.exceptions.ProtocolError("Connection aborted.", error)
    protocol.__cause__ = error
    connection = requests.exceptions.ConnectionError(protocol)
    connection.__context__ = protocol
    return connection


class TestWords:
    @pytest.mark.parametrize(
        "number, words",
        [
            (errno.ENOENT, "there is no such socket: start dockerd, or set runtime.endpoint"),
            (errno.ECONNREFUSED, "nothing listens there: start dockerd"),
            (errno.EACCES, "permission denied: run as root"),
            (errno.EPERM, "permission denied: run as root"),
            (errno.EAGAIN, "it takes no more connections: dockerd hangs"),
            (errno.ECONNRESET, "the connection broke: dockerd was stopped or restarted"),
            (errno.EMFILE, "no file descriptors left"),
            (errno.EIO, "it cannot be reached: Input/output error"),
        ],
    )
    def test_the_systems_error_is_told_with_its_cure(self, number: int, words: str) -> None:
        error = wrapped(OSError(number, "Input/output error"))

        assert words in str(become(error))

    @pytest.mark.parametrize("error", [requests.exceptions.ReadTimeout(), wrapped(TimeoutError("timed out"))])
    def test_silence_is_told(self, error: Exception) -> None:
        assert "does not answer in time" in str(become(error))

    def test_a_stream_that_breaks_in_the_middle_is_told(self) -> None:
        error = requests.exceptions.ChunkedEncodingError()
        error.__context__ = http.client.IncompleteRead(b"")

        assert "the connection broke" in str(become(error))

    def test_what_speaks_something_else_is_told_without_its_words(self) -> None:
        error = requests.exceptions.ConnectionError()
        error.__context__ = http.client.BadStatusLine(SECRET)

        text = str(become(error))

        assert "does not speak HTTP: set runtime.endpoint to Docker's socket" in text
        assert SECRET not in text

    def test_a_refusal_is_told_in_the_daemons_words_on_one_short_line(self) -> None:
        answer = requests.Response()
        answer.status_code = 400
        error = docker.errors.APIError("", response=answer, explanation=f"client is\n\x1b[31mtoo old{'!' * 500}")

        text = str(become(error))

        assert "it refuses with status 400: client is [31mtoo old!!!" in text
        assert len(text) < 300
        assert text.isprintable()

    def test_no_text_of_an_answer_hangs_on_the_error(self) -> None:
        """A JSON error keeps the whole document, and tracebacks may show what hangs on an exception's chain."""
        error = requests.exceptions.JSONDecodeError("Expecting value", SECRET, 0)

        unavailable = become(error)

        assert unavailable.__cause__ is None
        assert unavailable.__suppress_context__
        assert "answers no JSON" in str(unavailable)

    def test_a_circle_of_causes_ends(self) -> None:
        one, other = KeyError("a"), KeyError("b")
        one.__cause__, other.__cause__ = other, one

        assert "failed with KeyError" in str(become(one))


def test_plain_json_errors_do_not_occur() -> None:
    """The SDK decodes with requests, whose error is the one that is treated apart."""
    assert issubclass(requests.exceptions.JSONDecodeError, json.JSONDecodeError)
