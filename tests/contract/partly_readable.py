"""What a container runtime must do besides if a reading may leave out what is known already."""

from typing import Protocol

import pytest

from domain.evidence import RuntimeObject, RuntimeView
from domain.ports.runtime import PartlyReadable, RuntimeUnavailable
from tests.contract.runtime import RuntimeContract
from tests.contract.runtime_stage import Stage, cnf


class PartlyReadableStage(Stage, Protocol):
    """A stage whose runtime can be read in part."""

    @property
    def runtime(self) -> PartlyReadable:
        """The adapter under test."""
        ...


def by_id(view: RuntimeView) -> dict[str, RuntimeObject]:
    """Return what a reading shows; the order is nobody's promise."""
    return {each.id: each for each in view.objects}


class PartlyReadableContract(RuntimeContract):
    """Subclass it and give a fixture ``stage``."""

    async def test_besides_nothing_is_everything(self, stage: PartlyReadableStage) -> None:
        await cnf(stage)

        whole = by_id(await stage.runtime.snapshot())

        assert by_id(await stage.runtime.besides(())) == whole

    async def test_what_is_known_is_left_out_and_the_rest_shown_as_ever(self, stage: PartlyReadableStage) -> None:
        container = await cnf(stage)
        await stage.start(container)
        whole = by_id(await stage.runtime.snapshot())
        others = [name for name in whole if name != container]

        assert (await stage.runtime.besides(others)).objects == (whole[container],)

    async def test_besides_everything_is_nothing(self, stage: PartlyReadableStage) -> None:
        """Of hundreds, as many as a node may have; those that are gone do not matter."""
        await cnf(stage)
        known = by_id(await stage.runtime.snapshot())

        assert (await stage.runtime.besides([*known, *(f"{number:064x}" for number in range(500))])).objects == ()

    async def test_a_part_of_a_reading_spoils_nothing_for_the_next_whole_one(self, stage: PartlyReadableStage) -> None:
        container = await cnf(stage)
        before = by_id(await stage.runtime.snapshot())
        await stage.runtime.besides([container])

        assert by_id(await stage.runtime.snapshot()) == before

    async def test_a_runtime_that_does_not_answer_has_no_part_to_show(self, stage: PartlyReadableStage) -> None:
        await stage.cut()

        with pytest.raises(RuntimeUnavailable):
            await stage.runtime.besides(())
