"""Log lines."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from structlog.contextvars import bound_contextvars

from app.logs import REPEAT, StructlogReports, configure
from app.settings import LogFormat, LogLevel
from domain.secret import Secret


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Leave the process's logging as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


HIDDEN = "HushHush" * 2
"""What stands in a frame's variables and not in its source."""


def fail(hidden: str) -> None:
    raise RuntimeError(f"it has {len(hidden)} characters")


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class TestJson:
    def test_a_line_is_one_object_with_event_level_time_and_facts(self, out: io.StringIO) -> None:
        configure(level=LogLevel.INFO, form=LogFormat.JSON, stream=out)
        StructlogReports().note("bound", allocation="b" * 20, devices=["x/1"])

        (line,) = lines(out)
        assert line.pop("time").endswith("Z")
        assert line == {"event": "bound", "level": "info", "allocation": "b" * 20, "devices": ["x/1"]}

    def test_a_text_of_several_lines_stays_one_line(self, out: io.StringIO) -> None:
        configure(level=LogLevel.INFO, form=LogFormat.JSON, stream=out)
        StructlogReports().warn("refused", reason="one\ntwo\x1b[31m")

        assert len(out.getvalue().splitlines()) == 1
        assert lines(out)[0]["reason"] == "one\ntwo\x1b[31m"

    def test_what_json_does_not_know_is_written_as_text_and_a_secret_as_a_mask(self, out: io.StringIO) -> None:
        configure(level=LogLevel.INFO, form=LogFormat.JSON, stream=out)
        StructlogReports().note("odd", secret=Secret("HushHushHushHush"), all=[Secret("HushHushHushHush")])

        assert lines(out)[0]["secret"] == "***"
        assert "Hush" not in out.getvalue()

    def test_libraries_are_heard_from_warnings_on_whatever_our_level_is(self, out: io.StringIO) -> None:
        """What they say below is for their authors, and some print what they send."""
        configure(level=LogLevel.DEBUG, form=LogFormat.JSON, stream=out)
        library = logging.getLogger("somebody.else")
        library.debug("sending %s", "everything")
        library.info("sent")
        library.warning("could not %s", "send")

        (line,) = lines(out)
        assert (line["event"], line["level"], line["logger"]) == ("could not send", "warning", "somebody.else")

    def test_a_traceback_shows_no_values(self, out: io.StringIO) -> None:
        configure(level=LogLevel.INFO, form=LogFormat.JSON, stream=out)
        try:
            fail(HIDDEN)
        except RuntimeError:
            logging.getLogger("asyncio").exception("a task failed")

        assert "RuntimeError: it has 16 characters" in lines(out)[0]["exception"]
        assert HIDDEN not in out.getvalue()


class TestConsole:
    def test_it_is_text_without_colours_where_nobody_sees_them(self, out: io.StringIO) -> None:
        configure(level=LogLevel.INFO, form=LogFormat.CONSOLE, stream=out)
        StructlogReports().note("bound", allocation="b" * 20, secret=Secret("HushHushHushHush"))

        text = out.getvalue()
        assert "bound" in text
        assert f"allocation={'b' * 20}" in text
        assert "\x1b" not in text
        assert "Hush" not in text

    def test_a_traceback_shows_no_values(self, out: io.StringIO) -> None:
        """Pretty tracebacks would show the variables of every frame, and one of them may be a secret's text."""
        configure(level=LogLevel.INFO, form=LogFormat.CONSOLE, stream=out)
        try:
            fail(HIDDEN)
        except RuntimeError:
            structlog.get_logger().exception("a task failed")

        assert "RuntimeError: it has 16 characters" in out.getvalue()
        assert HIDDEN not in out.getvalue()


class TestLevels:
    @pytest.mark.parametrize(
        "level, expected",
        [
            (LogLevel.DEBUG, ["note", "warn"]),
            (LogLevel.INFO, ["note", "warn"]),
            (LogLevel.WARNING, ["warn"]),
            (LogLevel.ERROR, []),
        ],
    )
    def test_less_important_lines_are_left_out(self, out: io.StringIO, level: LogLevel, expected: list[str]) -> None:
        configure(level=level, form=LogFormat.JSON, stream=out)
        reports = StructlogReports()
        reports.note("note")
        reports.warn("warn")

        assert [line["event"] for line in lines(out)] == expected


class TestRepeating:
    @pytest.fixture
    def time(self) -> Time:
        return Time()

    @pytest.fixture
    def reports(self, out: io.StringIO, time: Time) -> StructlogReports:
        configure(level=LogLevel.INFO, form=LogFormat.JSON, stream=out)
        return StructlogReports(monotonic=time)

    def test_the_same_warning_is_logged_once_an_hour(
        self, out: io.StringIO, reports: StructlogReports, time: Time
    ) -> None:
        """A trouble that lasts is met at every turn."""
        for _ in range(10):
            reports.warn("full", reason="no space")
            time.now += REPEAT / 10 - 0.01
        assert len(lines(out)) == 1
        time.now += 1
        reports.warn("full", reason="no space")

        assert len(lines(out)) == 2

    def test_another_fact_is_another_warning(self, out: io.StringIO, reports: StructlogReports) -> None:
        reports.warn("full", reason="no space")
        reports.warn("full", reason="no inodes")

        assert [line["reason"] for line in lines(out)] == ["no space", "no inodes"]

    def test_notes_are_never_left_out(self, out: io.StringIO, reports: StructlogReports) -> None:
        reports.note("allocated", resource="x")
        reports.note("allocated", resource="x")

        assert len(lines(out)) == 2

    def test_memory_for_them_is_bounded(self, out: io.StringIO, reports: StructlogReports) -> None:
        for number in range(5000):
            reports.warn("refused", reason=str(number))

        assert len(lines(out)) == 5000
        assert len(reports._said) <= 1000

    def test_an_abandoned_job_is_a_warning_with_its_name(self, out: io.StringIO, reports: StructlogReports) -> None:
        reports.lost("storing an allocation", OSError("no space"))

        (line,) = lines(out)
        assert (line["level"], line["event"]) == ("warning", "an abandoned storage job failed")
        assert (line["job"], line["fault"], line["reason"]) == ("storing an allocation", "OSError", "no space")


class TestInTheEventLoop:
    @pytest.fixture
    def reports(self, out: io.StringIO) -> StructlogReports:
        configure(level=LogLevel.INFO, form=LogFormat.JSON, stream=out)
        return StructlogReports()

    async def test_an_answer_does_not_wait_for_its_line(self, reports: StructlogReports, out: io.StringIO) -> None:
        reports.note("allocated")
        before = lines(out)
        await asyncio.sleep(0)

        assert (before, [line["event"] for line in lines(out)]) == ([], ["allocated"])

    async def test_a_warning_is_a_line_at_once_and_comes_in_its_turn(
        self, reports: StructlogReports, out: io.StringIO
    ) -> None:
        reports.note("first")
        reports.warn("second")
        reports.note("third")
        told = [line["event"] for line in lines(out)]
        await asyncio.sleep(0)

        assert (told, [line["event"] for line in lines(out)]) == (["first", "second"], ["first", "second", "third"])

    async def test_a_line_belongs_to_the_request_in_which_it_was_noted(
        self, reports: StructlogReports, out: io.StringIO
    ) -> None:
        for request in ("one", "two"):
            with bound_contextvars(request=request):
                reports.note("allocated")
        await asyncio.sleep(0)

        assert [line["request"] for line in lines(out)] == ["one", "two"]

    def test_the_last_words_are_heard(self, reports: StructlogReports, out: io.StringIO) -> None:
        async def end() -> None:
            reports.note("stopped")

        asyncio.run(end())

        assert [line["event"] for line in lines(out)] == ["stopped"]

    def test_what_waits_when_a_loop_fails_is_told_by_the_next(
        self, reports: StructlogReports, out: io.StringIO
    ) -> None:
        loop = asyncio.new_event_loop()
        loop.call_soon(reports.note, "lost in the old")
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()

        async def go_on() -> None:
            reports.note("new")

        asyncio.run(go_on())

        assert [line["event"] for line in lines(out)] == ["lost in the old", "new"]
