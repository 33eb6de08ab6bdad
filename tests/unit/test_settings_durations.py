import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.settings import durations


@pytest.mark.parametrize(
    "text,seconds",
    [("30s", 30.0), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("0s", 0.0), ("0", 0.0)],
)
def test_a_duration_is_read_as_seconds(text: object, seconds: float) -> None:
    assert durations.parse(text) == seconds


@pytest.mark.parametrize("zero", [0, 0.0])
def test_zero_needs_no_unit(zero: float) -> None:
    assert durations.parse(zero) == 0.0


@pytest.mark.parametrize("value", [30, 1.5, -1])
def test_a_number_without_a_unit_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must have a unit"):
        durations.parse(value)


@pytest.mark.parametrize(
    "value", ["", "s", "30", "30 s", "-1s", "1.5s", "1m30s", "30S", "3d", "٣s", "1" * 10 + "s", True, None, [], {}]
)
def test_what_is_no_duration_is_refused_with_an_example(value: object) -> None:
    with pytest.raises(ValueError, match="30s"):
        durations.parse(value)


@pytest.mark.parametrize(
    "seconds,text",
    [(0.0, "0s"), (30.0, "30s"), (90.0, "90s"), (120.0, "2m"), (3600.0, "1h"), (0.5, "500ms"), (1.5, "1500ms")],
)
def test_a_duration_is_shown_in_the_largest_unit_that_keeps_it_whole(seconds: float, text: str) -> None:
    assert durations.show(seconds) == text


@given(st.integers(0, 10**9 - 1), st.sampled_from(["ms", "s", "m", "h"]))
def test_what_is_shown_is_read_as_the_same(number: int, unit: str) -> None:
    seconds = durations.parse(f"{number}{unit}")

    shown = durations.show(seconds)

    assert number == 0 or len(shown) <= len(f"{number}{unit}") + 1
    assert durations.parse(shown) == seconds
