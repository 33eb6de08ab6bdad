"""Requests and responses as bytes."""

from contextlib import suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.http.messages import END, BadRequest, Page, Request, encode, parse, refusal, told

HOST = b"\r\nHost: localhost"


def refused(head: bytes) -> tuple[HTTPStatus, str]:
    """Return how a head is refused."""
    with pytest.raises(BadRequest) as error:
        parse(head)
    return error.value.status, str(error.value)


class TestUnderstood:
    @pytest.mark.parametrize(
        "head, path",
        [
            (b"GET /metrics HTTP/1.1" + HOST, "/metrics"),
            (b"GET / HTTP/1.0", "/"),
            (b"GET /healthz?verbose=1 HTTP/1.1" + HOST, "/healthz"),
            (b"GET /healthz#top HTTP/1.1" + HOST, "/healthz"),
            (b"GET http://localhost:9599/readyz?a=/b HTTP/1.1" + HOST, "/readyz"),
            (b"GET HTTP://[::1]:9599 HTTP/1.1" + HOST, "/"),
            (b"GET //metrics HTTP/1.1" + HOST, "//metrics"),
            (b"GET /%6detrics HTTP/1.1" + HOST, "/%6detrics"),
            (b"GET /../metrics HTTP/1.1" + HOST, "/../metrics"),
        ],
    )
    def test_path(self, head: bytes, path: str) -> None:
        assert parse(head) == Request("GET", path)

    @pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "BREW"])
    def test_any_method(self, method: str) -> None:
        """Which of them a page allows is another matter."""
        assert parse(method.encode() + b" /healthz HTTP/1.1" + HOST) == Request(method, "/healthz")

    def test_what_a_scraper_says_about_itself_is_of_no_interest(self) -> None:
        head = (
            b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9599\r\nUser-Agent: Prometheus/3.5.0\r\n"
            b"Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\nX-Empty:\r\nX-Text: caf\xc3\xa9\tok"
        )

        assert parse(head).path == "/metrics"

    def test_what_comes_after_the_head_is_ignored(self) -> None:
        assert parse(b"GET /healthz HTTP/1.1" + HOST + END + b"GET /metrics HTTP/1.1").path == "/healthz"


class TestRefused:
    @pytest.mark.parametrize(
        "head",
        [
            b"",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[:10],
            b"GET",
            b"GET /healthz",
            b"GET  /healthz HTTP/1.1",
            b"GET /health z HTTP/1.1",
            b"GET /caf\xc3\xa9 HTTP/1.1",
            b"GET /\x00 HTTP/1.1",
            b" GET / HTTP/1.1",
            b"GET / http/1.1",
            b"GET / HTTP/1.10",
            b"G\xd0T / HTTP/1.1",
            b"GET / HTTP/1.1\n",
        ],
    )
    def test_what_is_no_request(self, head: bytes) -> None:
        assert refused(head)[0] is HTTPStatus.BAD_REQUEST

    def test_another_version(self) -> None:
        assert refused(b"PRI * HTTP/2.0") == (HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1 is spoken here")

    @pytest.mark.parametrize(
        "line",
        [
            b"no colon",
            b": no name",
            b"Na me: value",
            b"Name : value",
            b" folded: value",
            b"Bare: a\rb",
            b"Nul: \x00",
        ],
    )
    def test_a_malformed_line(self, line: bytes) -> None:
        assert refused(b"GET / HTTP/1.1" + HOST + b"\r\n" + line + b"\r\nOther: 1")[0] is HTTPStatus.BAD_REQUEST

    @pytest.mark.parametrize("hosts", [b"", HOST + b"\r\nhost: other"])
    def test_no_host_or_two(self, hosts: bytes) -> None:
        assert refused(b"GET / HTTP/1.1" + hosts) == (HTTPStatus.BAD_REQUEST, "a request of HTTP/1.1 names one Host")

    @given(st.binary(max_size=200))
    def test_whatever_comes_is_understood_or_refused(self, head: bytes) -> None:
        """Nothing but this one exception comes out."""
        request = Request("GET", "/")
        with suppress(BadRequest):
            request = parse(head)

        assert request.method.isascii()
        assert request.path.isascii()


class TestResponses:
    def test_one_is_complete(self) -> None:
        head, _, body = encode(Page(body=b"{}\n", content_type="application/json"), head_only=False).partition(END)

        first, *lines = head.decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines)
        assert first == "HTTP/1.1 200 OK"
        assert fields.pop("Date").endswith(" GMT")
        assert fields == {
            "Content-Type": "application/json",
            "Content-Length": "3",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Connection": "close",
        }
        assert body == b"{}\n"

    def test_its_date_is_one(self) -> None:
        head = encode(Page(body=b""), head_only=False).decode()

        (date,) = [line.removeprefix("Date: ") for line in head.splitlines() if line.startswith("Date: ")]
        assert parsedate_to_datetime(date).tzinfo is not None

    def test_its_head_alone_tells_the_length_of_all(self) -> None:
        page = Page(body=b"x" * 1000)

        whole, head = encode(page, head_only=False), encode(page, head_only=True)
        assert b"Content-Length: 1000\r\n" in head
        assert head.endswith(END)
        assert len(whole) == len(head) + 1000

    def test_a_refusal_says_why(self) -> None:
        page = refusal(BadRequest(HTTPStatus.REQUEST_TIMEOUT, "too slow"))

        assert (page.status, page.body) == (HTTPStatus.REQUEST_TIMEOUT, b"too slow\n")

    def test_fields_can_be_added(self) -> None:
        page = told(HTTPStatus.METHOD_NOT_ALLOWED, "only GET", {"Allow": "GET"})

        assert b"\r\nAllow: GET\r\n" in encode(page, head_only=False)
