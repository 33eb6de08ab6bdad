"""Puts what was measured last into the documentation: ``python -m tests.bench.report``.

The tables stand between two markers and are replaced as a whole; the words around them are people's.
"""

import sys
from pathlib import Path
from typing import Final

from tests.bench.book import BOOK, Book

PAGE: Final = BOOK.parents[1] / "docs" / "performance.md"
BEGIN: Final = "<!-- measured: made by python -m tests.bench.report, not by hand -->\n"
END: Final = "<!-- end of what was measured -->\n"


def with_tables(page: str, tables: str) -> str:
    """Return a page with other tables.

    Raises:
        ValueError: it has not one place for them.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end) or BEGIN in rest or END in after:
        raise ValueError(f"the page must have one place for the tables, between {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}\n{tables}\n{END}{after}"


def main(page: Path = PAGE) -> None:
    """Rewrite the page; what is missing is said in one line."""
    try:
        book = Book.saved()
    except FileNotFoundError:
        sys.exit(f"there is no {BOOK}: run make bench first")
    page.write_text(with_tables(page.read_text(encoding="utf-8"), book.markdown()), encoding="utf-8")


if __name__ == "__main__":
    main()
