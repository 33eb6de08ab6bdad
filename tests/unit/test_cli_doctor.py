"""A finding as the line that an operator reads."""

from click import unstyle

from app.cli.doctor import line
from domain.diagnosis.findings import doubtful, fine, wrong


def test_what_is_fine_is_short() -> None:
    assert unstyle(line(fine("inotify", "a watch can be had"))) == "ok    inotify: a watch can be had"


def test_what_is_wrong_says_what_to_do_in_the_same_line() -> None:
    assert unstyle(line(wrong("room", "none is left", "make some"))) == "fail  room: none is left. Cure: make some"


def test_a_verdict_has_its_colour() -> None:
    lines = [line(each) for each in (fine("a", "b"), doubtful("a", "b", "c"), wrong("a", "b", "c"))]

    assert [each[:5] for each in lines] == ["\x1b[32m", "\x1b[33m", "\x1b[31m"]


def test_what_a_tenant_wrote_does_not_reach_the_terminal() -> None:
    found = line(wrong("mounts of containers", "/run/vpp is \x1b[2J\n/x", "give it another path"))

    assert unstyle(found) == "fail  mounts of containers: /run/vpp is ?[2J?/x. Cure: give it another path"
