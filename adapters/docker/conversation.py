"""What is asked of the daemon, each question in the thread that waits for its answer.

Importing this module imports the SDK, so it is imported at the first question.
"""

from collections.abc import Callable

from adapters.docker import translate
from adapters.docker.client import PIECE, Client
from adapters.docker.faults import mapped
from adapters.docker.line import Line
from domain.evidence import RuntimeObject
from domain.ports.runtime import RuntimeUnavailable


class Conversation:
    """One question, asked on one line.  Every method blocks, and raises nothing but :class:`RuntimeUnavailable`.

    Args:
        line: where to ask; cutting it ends the question.
        timeout: seconds that the daemon may be silent before it answers.
    """

    def __init__(self, line: Line, *, timeout: float) -> None:
        self._path = line.path
        self._client = Client(line, timeout=timeout)

    def objects(self, prefixes: tuple[str, ...]) -> tuple[RuntimeObject, ...]:
        """Return what exists, with the claims of the pools whose annotation prefixes these are."""
        with mapped(self._path), self._client as client:
            listed = client.listed()
        return translate.objects(listed, prefixes)

    def version(self) -> str:
        """Return the daemon's version."""
        with mapped(self._path), self._client as client:
            description = client.identity()
        return translate.version(description)

    def follow(self, since: int, hint: Callable[[], None]) -> None:
        """Call ``hint`` when the daemon's events begin, and after each that comes, until there are no more.

        Args:
            since: seconds since the epoch; what happened from then on is told too, where it would be missed else.
            hint: called in this thread.

        Raises:
            RuntimeUnavailable: always, with why there are no more.
        """
        with mapped(self._path), self._client as client, client.happenings(since) as events:
            hint()
            for _ in events.iter_content(PIECE):
                hint()
        raise RuntimeUnavailable(f"Docker at {self._path} ended its events: dockerd was stopped or restarted")
