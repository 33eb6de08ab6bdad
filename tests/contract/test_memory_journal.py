"""The fake journal keeps the port's promises."""

import pytest

from adapters.memory.journal import MemoryJournal
from domain.ports.journal import JournalUnusable
from tests.contract.journal import JournalContract, Stage
from tests.contract.journal_values import FULL, numbered


class _Stage:
    def __init__(self) -> None:
        self.journal = MemoryJournal()

    def crash(self) -> None:
        self.journal.is_open = False

    def damage(self) -> None:
        self.journal.damage("the test wrote over it")

    def obstruct(self) -> None:
        self.journal.fail(JournalUnusable("no space is left"))

    def clear(self) -> None:
        self.journal.fail(None)


class TestMemoryJournal(JournalContract):
    @pytest.fixture
    def stage(self) -> Stage:
        return _Stage()

    def test_it_remembers_what_it_was_asked(self, stage: _Stage) -> None:
        stage.journal.open()
        stage.journal.add([numbered(1)])
        stage.journal.add([FULL], durable=True)
        stage.journal.drop([numbered(1).id])
        stage.journal.close()

        assert stage.journal.asked == ["open", "add", "add", "drop", "close"]
        assert stage.journal.durable == {FULL.id}
        assert list(stage.journal.contents) == [FULL.id]

    def test_fail_next_fails_once(self, stage: _Stage) -> None:
        stage.journal.open()
        stage.journal.fail_next(JournalUnusable("just once"))
        with pytest.raises(JournalUnusable, match="just once"):
            stage.journal.add([numbered(1)])
        stage.journal.add([numbered(2)])

        assert list(stage.journal.contents) == [numbered(2).id]

    def test_an_open_that_fails_leaves_it_closed(self, stage: _Stage) -> None:
        stage.journal.fail_next(JournalUnusable("no disk"))
        with pytest.raises(JournalUnusable, match="no disk"):
            stage.journal.open()

        assert not stage.journal.is_open
