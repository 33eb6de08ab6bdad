"""Whatever is done to it in whatever order, the journal in a file holds what the one in memory holds."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from adapters.journal.journal import SqliteJournal
from adapters.memory.clock import ManualClock
from adapters.memory.journal import MemoryJournal
from domain.allocation import Allocation, Owner
from domain.identity import AllocationId
from domain.ledger import Standing
from domain.pool import Pool
from domain.ports.journal import JournalUnusable
from tests.contract.journal_values import allocations, numbered, owners, pools

NAMES = [numbered(number).id for number in range(6)]

names = st.sampled_from(NAMES)
few = st.lists(names, max_size=3)
granted = st.lists(
    st.builds(
        lambda allocation, name: Allocation(
            **{each: getattr(allocation, each) for each in Allocation.__slots__ if each != "id"}, id=name
        ),
        allocations,
        names,
    ),
    max_size=3,
    unique_by=lambda each: each.id,
)


class JournalMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._root = Path(tempfile.mkdtemp(dir="/tmp"))
        self._path = self._root / "0" / "state.db"
        self._crashes = 0
        self._file = SqliteJournal(self._path, ManualClock())
        self._crashed: list[SqliteJournal] = []
        self._model = MemoryJournal()
        self._file.open()
        self._model.open()

    @rule(new=granted, durable=st.booleans())
    def add(self, new: list[Allocation], *, durable: bool) -> None:
        self._model.add(new, durable=durable)
        self._file.add(new, durable=durable)

    @rule(name=names, owner=owners)
    def own(self, name: AllocationId, owner: Owner) -> None:
        self._model.own(name, owner)
        self._file.own(name, owner)

    @rule(chosen=few, standing=st.sampled_from(Standing))
    def stand(self, chosen: list[AllocationId], standing: Standing) -> None:
        self._model.stand(chosen, standing)
        self._file.stand(chosen, standing)

    @rule(chosen=few)
    def drop(self, chosen: list[AllocationId]) -> None:
        self._model.drop(chosen)
        self._file.drop(chosen)

    @rule(used=st.lists(pools, max_size=2))
    def use(self, used: list[Pool]) -> None:
        self._model.use(used)
        self._file.use(used)

    @rule(new=granted)
    def add_while_the_file_is_away(self, new: list[Allocation]) -> None:
        away = self._path.with_name("away")
        self._path.rename(away)
        try:
            self._file.add(new)
        except JournalUnusable:
            assert new
        else:
            assert not new
        finally:
            away.rename(self._path)

    @rule()
    def restart(self) -> None:
        self._file.close()
        self._file = SqliteJournal(self._path, ManualClock())

    @rule()
    def crash(self) -> None:
        self._crashes += 1
        old, self._path = self._path, self._root / str(self._crashes) / "state.db"
        shutil.copytree(old.parent, self._path.parent)
        self._crashed.append(self._file)
        self._file = SqliteJournal(self._path, ManualClock())

    @rule()
    def lose_the_log(self) -> None:
        self._path.with_name("state.db-wal").unlink(missing_ok=True)
        # Noticed at the next change, which moves what the log holds into the database.
        self._model.own(NAMES[0], Owner())
        self._file.own(NAMES[0], Owner())

    @invariant()
    def both_hold_the_same(self) -> None:
        found = self._file.open()

        assert found == self._model.open()

    def teardown(self) -> None:
        for each in (*self._crashed, self._file):
            each.close()
        shutil.rmtree(self._root)


JournalMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestJournal = JournalMachine.TestCase
