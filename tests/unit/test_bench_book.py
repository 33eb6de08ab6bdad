"""The table of the benchmarks: what it says, and how it gets into the documentation."""

from pathlib import Path

import pytest

from tests.bench.book import Book, Row, Sample
from tests.bench.report import BEGIN, END, PAGE, with_tables


def measured() -> Book:
    book = Book()
    book.ratio("Allocate", "p50", Sample.of([3.0, 6.0, 4.0]), Sample.of([2.0, 2.0, 2.0]), unit="ms", limit=1.5)
    book.plain("Memory", "idle", 64.0, unit="MiB", limit=72)
    book.plain("Memory", "very many devices", 80.0, unit="MiB")
    return book


def reached(book: Book) -> list[bool]:
    return [row.reached for row in book.rows]


def test_a_ratio_is_the_median_of_the_ratios_of_neighbours() -> None:
    book = Book()
    row = book.ratio("Start", "all", Sample.of([10.0, 80.0, 30.0]), Sample.of([5.0, 20.0, 15.0]), unit="ms")

    assert (row.ours, row.bare, row.ratio) == (30.0, 15.0, 2.0)


def test_only_a_limit_can_be_missed() -> None:
    assert reached(measured()) == [False, True, True]


@pytest.mark.parametrize("accepted, told", [(None, "NO"), (1.9, "NO"), (2.0, "NO, see below")])
def test_what_is_out_of_reach_may_be_put_up_with_to_a_point(accepted: float | None, told: str) -> None:
    samples = Sample.of([4.0]), Sample.of([2.0])
    row = Book().ratio("Allocate", "p50", *samples, unit="ms", limit=1.5, accepted=accepted)

    assert (row.reached, row.good, row.cells[-1]) == (False, told != "NO", f"<= 1.5 x: {told}")


def test_a_single_value_has_no_spread() -> None:
    assert [row.cells[4] for row in measured().rows] == ["±19 %", "", ""]


@pytest.mark.parametrize(
    "value, shown",
    [(0.0, "0"), (0.0461, "0.046"), (0.5, "0.500"), (6.09, "6.09"), (76.6, "76.6"), (1057.2, "1057")],
)
def test_numbers_have_three_digits_that_count(value: float, shown: str) -> None:
    assert Row(part="", what="", unit="ms", ours=value).cells[1] == f"{shown} ms"


def test_the_table_names_what_is_missed() -> None:
    lines = measured().text().splitlines()

    assert [line.split()[-1] for line in lines if "<=" in line] == ["NO", "yes"]


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    book = measured()
    book.save(tmp_path / "bench.json")

    assert Book.saved(tmp_path / "bench.json").rows == book.rows


def test_numbers_of_another_version_are_not_mistaken(tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text('{"version": 0, "rows": []}')

    with pytest.raises(ValueError, match="run make bench"):
        Book.saved(tmp_path / "bench.json")


def test_tables_are_replaced_and_the_words_around_them_stay() -> None:
    page = f"before\n{BEGIN}old\n{END}after\n"

    assert with_tables(page, "new") == f"before\n{BEGIN}\nnew\n{END}after\n"


@pytest.mark.parametrize("page", ["no place", f"{BEGIN}", f"{END}{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_one_place_for_tables_is_left_alone(page: str) -> None:
    with pytest.raises(ValueError, match="one place for the tables"):
        with_tables(page, "new")


def test_the_page_of_the_documentation_has_a_place() -> None:
    assert "Allocate" in with_tables(PAGE.read_text(encoding="utf-8"), measured().markdown())
