"""Health that does not flicker."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from domain.health import STEADY, Pulse


def after(*seen: str | None, start: Pulse | None = None) -> Pulse:
    pulse = start or Pulse()
    for each in seen:
        pulse = pulse.after(each)
    return pulse


def test_a_trouble_that_is_seen_once_does_not_count() -> None:
    assert after("read-only").healthy
    assert after("read-only", None, "read-only").healthy


def test_a_trouble_that_is_seen_twice_in_a_row_does() -> None:
    assert after("read-only", "read-only") == Pulse(trouble="read-only")


def test_two_different_troubles_are_trouble_too_and_the_newest_words_count() -> None:
    assert after("missing", "read-only").trouble == "read-only"
    assert after("missing", "missing", "read-only").trouble == "read-only"


def test_it_is_over_when_it_is_gone_twice_in_a_row() -> None:
    ill = Pulse(trouble="read-only")

    assert not after(None, start=ill).healthy
    assert after(None, None, start=ill) == Pulse()
    assert not after(None, "read-only", None, start=ill).healthy


@given(st.lists(st.sampled_from([None, "a", "b"])))
def test_health_changes_only_after_equal_observations_in_a_row(seen: Sequence[str | None]) -> None:
    pulse = Pulse()
    for number, each in enumerate(seen):
        before, pulse = pulse, pulse.after(each)
        if before.healthy != pulse.healthy:
            assert all((one is None) == pulse.healthy for one in seen[number + 1 - STEADY : number + 1])
