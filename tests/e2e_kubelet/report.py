"""What was seen, for people: a page of Markdown that is written whatever comes of it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path


class Report:
    """Collects what the scenes find; a check that does not hold ends the play.

    Args:
        title: what was run.
        about: with which kubelet and runtime.
    """

    def __init__(self, title: str, about: str) -> None:
        began = datetime.now(UTC).isoformat(timespec="seconds")
        self._lines = [f"# {title}", "", f"{about}; begun {began}.", ""]
        self._ended = False

    @contextmanager
    def scene(self, title: str) -> Iterator[None]:
        """Everything that is found meanwhile belongs to this scene."""
        self._lines += [f"## {title}", ""]
        began = time.monotonic()
        try:
            yield
        except BaseException as error:
            self._lines += [f"* **ended here**: {type(error).__name__}: {error}", ""]
            raise
        self._lines += ["", f"{time.monotonic() - began:.1f} s", ""]

    def check(self, holds: bool, text: str) -> None:  # noqa: FBT001 -- check(this, "is so") reads as it is meant
        """Say that something is so; it must be."""
        self._lines.append(f"* {'ok' if holds else '**NO**'}: {text}")
        assert holds, text

    def saw(self, text: str) -> None:
        """Say what was seen."""
        self._lines.append(f"* seen: {text}")

    def end(self) -> None:
        """Say that everything was played."""
        self._lines += ["Every scene was played to its end.", ""]
        self._ended = True

    def write(self, path: Path) -> None:
        """Write the page."""
        last = [] if self._ended else ["Not every scene was played.", ""]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*self._lines, *last]), encoding="utf-8")
