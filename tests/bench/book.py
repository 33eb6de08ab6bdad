"""What was measured: rows of one table, and the table as text, as Markdown and as JSON."""

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Self

BOOK: Final = Path(__file__).parents[2] / "build" / "bench.json"
"""Where the last run is kept."""

_VERSION: Final = 1
"""Of the file's form."""

_SHOWN: Final = 3
"""Significant digits: more than a measurement is good for, so that a ratio can be worked out again."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one thing took, each time that it was measured."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Take measured values as they are."""
        return cls(tuple(values))

    @property
    def median(self) -> float:
        """The value in the middle."""
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """How far the middle half of all values reaches, in per cent of the median; 0 for a single value."""
        if len(self.values) == 1 or not self.median:
            return 0.0
        first, _, third = statistics.quantiles(self.values, n=4, method="inclusive")
        return 100 * (third - first) / self.median

    def over(self, other: "Sample") -> "Sample":
        """Return the ratios to another sample, whose values were measured in turn with these."""
        return Sample(tuple(one / another for one, another in zip(self.values, other.values, strict=True)))

    def times(self, factor: float) -> "Sample":
        """Return the same in another unit."""
        return Sample(tuple(factor * each for each in self.values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        part: what it belongs to; rows of one part stand together.
        what: was measured.
        unit: of ``ours`` and ``bare``.
        ours: the median of what the daemon takes.
        bare: the median of what the least that does the same takes, ``None`` if there is no such thing.
        ratio: the median of the ratios of neighbours in time.
        spread: of the ratio if there is one, else of ours, in per cent.
        rounds: how often it was measured.
        limit: what the ratio, or ours where there is none, must not exceed; ``None`` where nothing was promised.
        limits_ratio: whether the limit is one of the ratio.
        accepted: what is put up with where the limit is out of reach; ``docs/performance.md`` says why it is.
    """

    part: str
    what: str
    unit: str
    ours: float
    bare: float | None = None
    ratio: float | None = None
    spread: float = 0.0
    rounds: int = 1
    limit: float | None = None
    limits_ratio: bool = False
    accepted: float | None = None

    @property
    def reached(self) -> bool:
        """Whether the limit holds; without one there is nothing to miss."""
        return self.limit is None or self._measured <= self.limit

    @property
    def good(self) -> bool:
        """Whether nothing has become worse than is known."""
        return self.reached or (self.accepted is not None and self._measured <= self.accepted)

    @property
    def _measured(self) -> float:
        return self.ratio if self.limits_ratio and self.ratio is not None else self.ours

    @property
    def cells(self) -> tuple[str, ...]:
        """The line as texts."""
        return (
            self.what,
            f"{_number(self.ours)} {self.unit}".strip(),
            "" if self.bare is None else f"{_number(self.bare)} {self.unit}".strip(),
            "" if self.ratio is None else f"{self.ratio:.2f}",
            f"±{self.spread / 2:.0f} %" if self.rounds > 1 else "",
            self._promise,
        )

    @property
    def _promise(self) -> str:
        if self.limit is None:
            return ""
        promised = f"{self.limit:g} x" if self.limits_ratio else f"{self.limit:g} {self.unit}".strip()
        known = ", see below" if self.good else ""
        return f"<= {promised}: {'yes' if self.reached else f'NO{known}'}"


HEADINGS: Final = ("what", "ours", "bare", "ratio", "spread", "promised")


@dataclass(slots=True)
class Book:
    """All rows of a run, in the order in which they were measured."""

    rows: list[Row] = field(default_factory=list)
    taken: str = ""
    machine: dict[str, str] = field(default_factory=dict)

    def ratio(
        self,
        part: str,
        what: str,
        ours: Sample,
        bare: Sample,
        *,
        unit: str,
        limit: float | None = None,
        accepted: float | None = None,
    ) -> Row:
        """Note what we take beside what the bare minimum takes; ``limit`` and ``accepted`` are ones of the ratio."""
        ratios = ours.over(bare)
        return self._add(
            Row(
                part=part,
                what=what,
                unit=unit,
                ours=ours.median,
                bare=bare.median,
                ratio=ratios.median,
                spread=ratios.spread,
                rounds=len(ours.values),
                limit=limit,
                limits_ratio=True,
                accepted=accepted,
            )
        )

    def plain(self, part: str, what: str, ours: Sample | float, *, unit: str, limit: float | None = None) -> Row:
        """Note what we take where nothing can be put beside it; ``limit`` is one of the value."""
        sample = ours if isinstance(ours, Sample) else Sample((ours,))
        return self._add(
            Row(
                part=part,
                what=what,
                unit=unit,
                ours=sample.median,
                spread=sample.spread,
                rounds=len(sample.values),
                limit=limit,
            )
        )

    def save(self, path: Path = BOOK) -> None:
        """Write the rows as JSON, with when and on what they were measured."""
        found = {
            "version": _VERSION,
            "taken": _now(),
            "machine": _machine(),
            "rows": [asdict(row) for row in self.rows],
        }
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def saved(cls, path: Path = BOOK) -> "Book":
        """Read what was written.

        Raises:
            FileNotFoundError: nothing was measured yet.
            ValueError: the file has another form.
        """
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if found.get("version") != _VERSION:
            raise ValueError(f"{path} was written by another version of the benchmarks; run make bench")
        return cls([Row(**row) for row in found["rows"]], found["taken"], found["machine"])

    def parts(self) -> dict[str, list[Row]]:
        """Return the rows by the part that they belong to."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.part, []).append(row)
        return found

    def text(self) -> str:
        """Return the table for people in front of a terminal."""
        table = [HEADINGS, *(row.cells for row in self.rows)]
        widths = [max(len(cells[column]) for cells in table) for column in range(len(HEADINGS))]
        lines = ["", _line(HEADINGS, widths)]
        for part, rows in self.parts().items():
            lines += ["", part, *(_line(row.cells, widths) for row in rows)]
        return "\n".join(lines) + "\n"

    def markdown(self) -> str:
        """Return one table a part."""
        on = ", ".join(f"{name} {text}" for name, text in self.machine.items())
        lines = [f"Measured {self.taken} on {on}."]
        for part, rows in self.parts().items():
            lines += ["", f"### {part}", "", _cells(HEADINGS), _cells(["---"] * len(HEADINGS))]
            lines += [_cells(row.cells) for row in rows]
        return "\n".join(lines) + "\n"

    def _add(self, row: Row) -> Row:
        self.rows.append(row)
        return row


def _number(value: float) -> str:
    """Return a number with the digits that count, and never as a power of ten."""
    if value == 0:
        return "0"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:.{max(0, _SHOWN - whole)}f}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell.ljust(width) if column in {0, 5} else cell.rjust(width) for column, (cell, width) in _at(cells, widths)
    )
    return "  " + "  ".join(padded).rstrip()


def _at(cells: Sequence[str], widths: Sequence[int]) -> "enumerate[tuple[str, int]]":
    return enumerate(zip(cells, widths, strict=True))


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def _machine() -> dict[str, str]:
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "Linux": platform.release().split("-")[0],
        "Python": platform.python_version(),
        "grpcio": metadata.version("grpcio"),
    }
