"""The SDK's client, on one line.  Importing this module imports the SDK: see the package's promise."""

import json
from typing import Final, cast

import requests
from docker import APIClient
from docker.errors import InvalidVersion, create_api_error_from_http_exception
from docker.transport.unixconn import UnixHTTPAdapter, UnixHTTPConnection, UnixHTTPConnectionPool

from adapters.docker.line import Line

OLDEST: Final = (1, 40)
"""Docker 19.03, the oldest that a kubelet of today meets."""

NEWEST: Final = (1, 55)
"""The newest version whose changes were read against what is asked here; Docker keeps older ones for years."""

_URL: Final = "http+docker://localhost"
"""As the SDK writes the address of a Unix socket; the host means nothing."""

_EVENTS: Final = ("create", "start", "restart", "die", "stop", "kill", "oom", "pause", "unpause", "rename", "destroy")
"""What changes the list of containers.  Probes run commands in containers all day: their events are not among these."""

PIECE: Final = 64 * 1024
"""Bytes of the event stream to hold at once; an event carries all labels of its container, and is thrown away."""


class Client(APIClient):
    """One conversation with one daemon, over in one thread; as a context it closes what it opened."""

    def __init__(self, line: Line, *, timeout: float) -> None:
        """Open nothing yet.

        Args:
            line: where to connect.
            timeout: seconds that the daemon may be silent before it answers.
        """
        # Not the SDK's own constructor: it reads DOCKER_CONFIG and ~/.docker/config.json, adds their headers to every
        # request, and refuses to work when they are broken.
        requests.Session.__init__(self)
        self.trust_env = False  # no proxies and no .netrc either
        self.base_url = _URL
        self.timeout = cast(int, timeout)  # the stubs are stricter than the code
        self._general_configs: dict[str, object] = {}
        self._version = ""
        self._custom_adapter = _Adapter(line)
        self.adapters.clear()
        self.mount("http+docker://", self._custom_adapter)
        self.hooks["response"].append(_refuse)

    def listed(self) -> object:
        """Return the containers in every state as the daemon lists them, in one call."""
        self._agree()
        return self.containers(all=True)

    def identity(self) -> object:
        """Return the daemon's description of itself."""
        return self.version(api_version=False)

    def happenings(self, since: int) -> requests.Response:
        """Return the open stream of what happens to containers.

        Args:
            since: seconds since the epoch.  The daemon answers before it listens for events, and what happens in
                between it repeats only to those who ask for it so.
        """
        self._agree()
        filters = json.dumps({"type": ["container"], "event": _EVENTS})
        return self.get(
            f"{_URL}/v{self._version}/events",
            params={"since": str(since), "filters": filters},
            stream=True,
            # Nothing may happen for days.  Until the daemon answers, the line's owner watches the time.
            timeout=(self.timeout, None),
        )

    def _agree(self) -> None:
        """Choose the API's version as the ``docker`` command does, by a call that costs the daemon nothing.

        Each conversation does so anew, because the daemon may be another one after an upgrade.
        """
        answer = self.get(f"{_URL}/_ping", timeout=self.timeout)
        offered = answer.headers.get("Api-Version", "")
        try:
            major, minor = map(int, offered.split("."))
        except ValueError:
            raise InvalidVersion("names no API version, so it is no Docker daemon") from None
        if (major, minor) < OLDEST:
            raise InvalidVersion(
                f"speaks API {offered}, and {OLDEST[0]}.{OLDEST[1]} (Docker 19.03) is the oldest known"
            )
        self._version = ".".join(map(str, min((major, minor), NEWEST)))


def _refuse(answer: requests.Response, **_: object) -> None:
    """Raise what the daemon answered if it is an error, also where a stream was asked for."""
    try:
        answer.raise_for_status()
    except requests.HTTPError as error:
        create_api_error_from_http_exception(error)


class _Connection(UnixHTTPConnection):
    """The SDK's connection, over the line."""

    def __init__(self, line: Line) -> None:
        super().__init__("localhost", line.path)
        self._line = line

    def connect(self) -> None:
        self.sock = self._line.dial(self.timeout)


class _Pool(UnixHTTPConnectionPool):
    """The SDK's pool, of such connections."""

    def __init__(self, line: Line) -> None:
        super().__init__("localhost", line.path, maxsize=1)
        self._line = line

    def _new_conn(self) -> _Connection:  # type: ignore[override]  # as the SDK's own pool does
        return _Connection(self._line)


class _Adapter(UnixHTTPAdapter):
    """The SDK's way from a request to the socket, over one such pool for every address."""

    def __init__(self, line: Line) -> None:
        super().__init__(f"http+unix://{line.path}")
        self._pool = _Pool(line)

    def get_connection(self, url: bytes | str, proxies: object = None) -> _Pool:
        del url, proxies
        return self._pool

    def close(self) -> None:
        super().close()
        self._pool.close()
