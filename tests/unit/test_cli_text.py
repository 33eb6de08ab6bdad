"""Answers for people: aligned, coloured where somebody sees it, and nothing that a terminal would obey."""

from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from app.cli import text
from app.cli.base import ExitCode, main
from app.cli.control import DEFAULT_SOCKET, refuse
from app.settings import ControlSettings

STATUS: dict[str, Any] = {
    "version": "1.2.3",
    "instance": "ab12",
    "role": "active",
    "since": "2030-01-02T03:04:05Z",
    "runtime": {"kind": None, "version": None, "reachable": False, "since": "2030-01-02T03:04:05Z"},
    "kubelet": {"reachable": False, "restarts": 0},
    "views": {"runtime": "unknown: not read yet since 2030-01-02T03:04:05Z", "checkpoint": "known"},
    "pools": [
        {
            "resource": "contivpp.io/memif",
            "registered": True,
            "watched": False,
            "capacity": 100,
            "healthy": 99,
            "allocated": 5,
            "endpoint": None,
            "reason": "nobody listens",
        },
        {
            "resource": "x/y",
            "registered": False,
            "watched": False,
            "capacity": 1,
            "healthy": 0,
            "allocated": 0,
            "endpoint": "a.sock",
            "reason": None,
        },
    ],
    "allocations": {"pending": 1, "bound": 4},
    "reconcile": {"last": None, "result": None, "reason": None},
    "config": {"loaded": "2030-01-02T03:04:05Z", "error": None},
}
ALLOCATION: dict[str, Any] = {
    "id": "bcdfghjklmnpqrstvwxz",
    "resource": "contivpp.io/memif",
    "devices": ["contivpp.io/memif/63", "contivpp.io/memif/95"],
    "state": "bound",
    "pod": {"namespace": "telco", "name": "cnf", "uid": "u"},
    "container": "app",
    "host_socket": "/x/memif.sock",
    "container_socket": "/run/vpp/memif.sock",
    "secret": "***",
    "granted": "2030-01-02T03:04:05Z",
    "held_by": ["checkpoint", "grace 3s"],
}


def printed(show: Callable[[Any], None], answer: Any, *, color: bool = False) -> list[str]:
    """Return the lines of an answer, as a terminal or a file gets them."""
    with CliRunner().isolation(color=color) as (out, _, _):
        show(answer)
    return out.getvalue().decode().splitlines()


class TestPlain:
    @pytest.mark.parametrize(
        "value,shown", [(None, "-"), (True, "yes"), (False, "no"), (0, "0"), ("", ""), ("réseau", "réseau")]
    )
    def test_a_value(self, value: object, shown: str) -> None:
        assert text.plain(value) == shown

    def test_what_a_terminal_would_obey_is_not_printed(self) -> None:
        assert text.plain("\x1b[2J\nname\r\x07\u202e") == "?[2J?name???"


class TestStatus:
    def test_tables_are_aligned(self) -> None:
        header, first, second = printed(text.status, STATUS)[-3:]

        assert header.split() == [
            "RESOURCE",
            "REGISTERED",
            "WATCHED",
            "CAPACITY",
            "HEALTHY",
            "ALLOCATED",
            "ENDPOINT",
            "REASON",
        ]
        assert first.split() == ["contivpp.io/memif", "yes", "no", "100", "99", "5", "-", "nobody", "listens"]
        assert [header.index("REGISTERED"), header.index("ENDPOINT")] == [first.index("yes"), second.index("a.sock")]

    def test_what_is_not_known_is_said_in_words(self) -> None:
        lines = printed(text.status, STATUS)

        assert "runtime        not found, not reachable since 2030-01-02T03:04:05Z" in lines
        assert "reconcile      none yet" in lines
        assert "configuration  loaded at 2030-01-02T03:04:05Z" in lines

    def test_troubles_are_told_with_their_reason(self) -> None:
        status = {
            **STATUS,
            "reconcile": {"last": "2030-01-02T03:04:06Z", "result": "error", "reason": "OSError: broken"},
            "config": {"loaded": "2030-01-02T03:04:05Z", "error": "pools.0: no"},
        }
        lines = printed(text.status, status)

        assert "reconcile      error at 2030-01-02T03:04:06Z: OSError: broken" in lines
        assert lines[6].endswith("a later one was not taken: pools.0: no")


class TestColours:
    def test_somebody_sees_them(self) -> None:
        lines = printed(text.status, STATUS, color=True)

        assert "\x1b[32myes" in lines[-2]
        assert "\x1b[31mno" in lines[-2]

    def test_a_coloured_table_is_as_wide_as_a_plain_one(self) -> None:
        plain, coloured = (printed(text.status, STATUS, color=color) for color in (False, True))

        assert [click.unstyle(line) for line in coloured] == plain

    @pytest.mark.parametrize("variable,coloured", [("1", False), ("", True), (None, True)])
    def test_no_color_switches_them_off(self, variable: str | None, coloured: bool) -> None:  # noqa: FBT001
        @main.command("planted")
        def planted() -> None:
            click.secho("word", fg="red")

        try:
            result: Result = CliRunner().invoke(main, ["planted"], color=True, env={"NO_COLOR": variable})
        finally:
            del main.commands["planted"]

        assert (result.output == "word\n") is not coloured


class TestAllocations:
    def test_none_is_said_in_words(self) -> None:
        assert printed(text.allocations, []) == ["no allocations"]

    @pytest.mark.parametrize(
        "pod,shown",
        [
            ({"namespace": "telco", "name": "cnf", "uid": "u"}, "telco/cnf"),
            ({"namespace": None, "name": None, "uid": "u"}, "uid u"),
            (None, "-"),
        ],
    )
    def test_a_pod_is_named_as_well_as_it_is_known(self, pod: dict[str, str] | None, shown: str) -> None:
        header, row = printed(text.allocations, [{**ALLOCATION, "pod": pod, "held_by": None}])

        assert row[header.index("POD") :].startswith(f"{shown}  ")
        assert row.endswith("  -")

    def test_what_holds_it_is_told(self) -> None:
        assert printed(text.allocations, [ALLOCATION])[1].endswith("checkpoint, grace 3s")


def test_a_pod_says_when_it_is_stale() -> None:
    answer = {"pod": ALLOCATION["pod"], "stale": True, "containers": []}

    assert printed(text.pod, answer)[1] == "stale: the kubelet could not confirm that it is so now"


def test_an_event_is_one_line() -> None:
    (line,) = printed(text.event, {"instance": "one", "seq": 7, "type": "BOUND", "allocation": ALLOCATION})
    (bookmark,) = printed(text.event, {"instance": "one", "seq": 7, "type": "SYNCED", "allocation": None})

    assert line.split() == ["7", "BOUND", ALLOCATION["id"], "telco/cnf", "app", "/x/memif.sock"]
    assert bookmark.split() == ["7", "SYNCED"]


def test_a_reconcile_says_what_would_be_done() -> None:
    effects = [{"effect": "ask", "allocation": None, "reason": "a dead pod"}]
    views = {"runtime": "known", "checkpoint": "unknown: gone"}
    dry = printed(text.reconcile, {"dry_run": True, "views": views, "effects": effects})
    idle = printed(text.reconcile, {"dry_run": False, "views": views, "effects": []})

    assert dry[0:2] == ["runtime        known", "checkpoint     unknown: gone"]
    assert "this would be done:" in dry
    assert dry[-1].split() == ["ask", "-", "a", "dead", "pod"]
    assert idle[-1] == "nothing to do"


def test_a_released_allocation_has_a_line() -> None:
    assert printed(text.released, {"released": ["a", "b"]}) == ["released a", "released b"]


def test_a_probe_tells_who_answered_and_what() -> None:
    peer = {"name": "VPP\x1b[2J", "lowest": "2.0", "highest": "2.1"}
    answer = {"socket": "/x/memif.sock", "allocation": None, "peer": peer, "interface": 2}
    refused = printed(text.probe, {**answer, "accepted": False, "refusal": "incorrect secret"})
    accepted = printed(text.probe, {**answer, "accepted": True, "refusal": None})

    assert refused == [
        "socket         /x/memif.sock",
        "allocation     -",
        "peer           VPP?[2J, memif 2.0 to 2.1",
        "id, secret     id 2 refused: incorrect secret",
    ]
    assert accepted[-1] == "id, secret     id 2 accepted"


def test_a_refusal_may_have_an_exit_code_that_is_not_its_reason_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        refuse("UNREACHABLE", "no daemon answers", as_json=False, code=ExitCode.REFUSED)

    assert left.value.code == ExitCode.REFUSED
    assert capsys.readouterr().err == "Error: no daemon answers\n"


def test_a_reason_of_a_newer_daemon_cannot_be_told_now(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        refuse("QUITE_NEW", "two\nlines", as_json=False)

    assert left.value.code == ExitCode.UNKNOWN_NOW
    assert capsys.readouterr().err == "Error: two?lines\n"


def test_the_default_socket_is_the_configuration_s() -> None:
    assert ControlSettings().socket == DEFAULT_SOCKET
