"""Random histories of a node: all of them end with nothing lost and nothing left, and nothing changes that must not.

Five hundred here, ten thousand in ``make soak``.  A history that goes wrong is made short and printed as a text that
``python -m tests.soak.replay`` lives again.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from domain import resync
from domain.identity import AllocationId
from domain.sights import Sights
from tests.integration.crash import Power, powered
from tests.integration.histories import made
from tests.integration.history import History, Step, read, shortened, written
from tests.integration.life import examined, trouble
from tests.integration.soundness import Unsound
from tests.soak import replay

HISTORIES, AT_ONCE = 500, 50


@pytest.fixture(scope="module")
def power() -> Iterator[Power]:
    with powered() as made_for_all:
        yield made_for_all


@pytest.mark.parametrize("first", range(0, HISTORIES, AT_ONCE))
async def test_nothing_is_lost_and_nothing_is_left(first: int, power: Power) -> None:
    """Whatever happens: pods come and go in every way, the daemon, kubelet and runtime fail, and so do disks."""
    print(f"seeds {first} to {first + AT_ONCE - 1}")  # noqa: T201 -- shown with a failure
    await examined(range(first, first + AT_ONCE), power)


class TestMaking:
    def test_the_same_seed_makes_the_same_history(self) -> None:
        assert made(7) == made(7)
        assert made(7) != made(8)

    def test_everything_happens_in_some_history(self) -> None:
        happening = {step.verb for seed in range(HISTORIES) for step in made(seed).steps}

        assert happening >= {
            *("admit", "start", "restart", "delete", "force", "finish", "complete", "release", "reconcile", "time"),
            *("run", "kill", "kill-before", "meanwhile", "reboot", "power-loss", "lose-journal", "empty", "stray"),
            *("kubelet-stop", "kubelet-start", "kubelet-stays-alone", "kubelet-comes-first", "kubelet-dies"),
            *("runtime-down", "runtime-hides", "runtime-up", "disk-fails", "disk-works"),
        }

    @pytest.mark.parametrize("seed", range(20))
    def test_a_history_is_the_same_when_it_is_read_from_its_text(self, seed: int) -> None:
        assert read(written(made(seed))) == made(seed)

    def test_a_text_may_have_notes_and_empty_lines(self) -> None:
        text = "# of last night\nseed 3\n\ndelivery file\nadmit 0 1 1\n# and then\nkill\n"

        assert read(text) == History(seed=3, delivery="file", steps=(Step("admit", (0, 1, 1)), Step("kill")))


class TestShortening:
    async def test_no_step_of_what_is_left_can_be_left_out(self) -> None:
        history = made(1)
        needed = (history.steps[1], history.steps[-2])

        async def fails(other: History) -> bool:
            return set(needed) <= set(other.steps)

        assert (await shortened(history, fails)).steps == needed

    async def test_one_that_fails_with_no_step_at_all_becomes_empty(self) -> None:
        async def fails(other: History) -> bool:
            return other.seed == 1

        assert (await shortened(made(1), fails)).steps == ()


class TestReplaying:
    def test_a_history_that_goes_well(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        text = written(made(3))
        (tmp_path / "script").write_text(text, encoding="utf-8")

        assert replay.main([str(tmp_path / "script")]) == 0
        assert capsys.readouterr().out == f"{text}\nNothing was lost and nothing is left.\n"

    def test_one_that_goes_wrong(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "script").write_text("seed 1\ndelivery env\nadmit 0 0 1\ntime 60\n", encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(resync, "_ask", lambda *_: ())

            assert replay.main([str(tmp_path / "script")]) == 1
        assert "Unsound: " in capsys.readouterr().err

    def test_a_wrong_call(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert replay.main([]) == 2
        assert capsys.readouterr().err == "usage: python -m tests.soak.replay FILE\n"


class TestAFault:
    """Histories find a rule that is broken, and say how to see it again."""

    @pytest.fixture
    def _release_looks_at_the_runtime_alone(self) -> Iterator[None]:
        def mounted_by(self: Sights, name: AllocationId) -> str | None:
            return next(iter(self.mounted.get(name, ())), None)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Sights, "holder", mounted_by)
            yield

    @pytest.mark.usefixtures("_release_looks_at_the_runtime_alone")
    async def test_it_is_found_made_short_and_printed_so_that_it_can_be_replayed(self, power: Power) -> None:
        with pytest.raises(Unsound) as found:
            await examined(range(HISTORIES), power)
        told = str(found.value)
        text = told[told.index("\nseed ") :]
        short = read(text)

        assert f"the history of seed {short.seed} went wrong: " in told
        assert "python -m tests.soak.replay" in told
        assert len(short.steps) < len(made(short.seed).steps)
        assert len(short.steps) <= 6
        assert isinstance(await trouble(short, power), Unsound)

    async def test_what_was_printed_goes_well_once_the_fault_is_mended(self, power: Power) -> None:
        """The same text, which fails while release looks at the runtime alone."""
        text = "seed 1\ndelivery env\nadmit 0 0 0\nadmit 1 0 1\ntime 60\ntime 60\n"
        assert await trouble(read(text), power) is None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Sights, "holder", lambda *_: None)

            assert isinstance(await trouble(read(text), power), Unsound)
