"""What a process that is killed leaves in the journal."""

import signal
import subprocess
import sys
from pathlib import Path

from adapters.journal.journal import SqliteJournal
from adapters.memory.clock import ManualClock
from domain.ledger import Standing
from tests.contract.journal_values import FULL_POOL, numbered

ROOT = Path(__file__).parents[2]

KILLED = """
import os, signal, sys
from adapters.journal.journal import SqliteJournal
from adapters.memory.clock import ManualClock
from domain.ledger import Standing
from tests.contract.journal_values import FULL_POOL, numbered

journal = SqliteJournal(sys.argv[1], ManualClock())
journal.open()
journal.use([FULL_POOL])
journal.add([numbered(1), numbered(2)])
journal.stand([numbered(1).id], Standing.RELEASING)
journal.add([numbered(3)])
os.kill(os.getpid(), signal.SIGKILL)
"""

ADDS_FOR_EVER = """
import sys
from adapters.journal.journal import SqliteJournal
from adapters.memory.clock import ManualClock
from tests.contract.journal_values import numbered

journal = SqliteJournal(sys.argv[1], ManualClock())
journal.open()
number = 0
while True:
    number += 2
    journal.add([numbered(number), numbered(number + 1)])
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


def test_a_process_that_is_killed_right_after_an_addition_has_recorded_it(tmp_path: Path) -> None:
    path = tmp_path / "s" / "state.db"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=ROOT, check=False)
    journal = SqliteJournal(path, ManualClock())
    recovered = journal.open()
    journal.close()

    assert killed.returncode == -signal.SIGKILL
    assert recovered.set_aside is None
    assert recovered.pools == (FULL_POOL,)
    assert recovered.allocations == (
        (numbered(1), Standing.RELEASING),
        (numbered(2), Standing.LIVE),
        (numbered(3), Standing.LIVE),
    )


def test_a_process_that_is_killed_at_any_moment_leaves_whole_additions(tmp_path: Path) -> None:
    path = tmp_path / "s" / "state.db"
    for _ in range(3):
        path.unlink(missing_ok=True)
        with subprocess.Popen(
            [sys.executable, "-c", ADDS_FOR_EVER, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(150):
                process.stdout.readline()
            process.kill()
            said = process.stdout.read().split("\n")[:-1]
        last = int(said[-1]) if said else 300
        journal = SqliteJournal(path, ManualClock())
        recovered = journal.open()
        journal.close()
        found = [each.id for each, _ in recovered.allocations]

        assert recovered.set_aside is None
        assert found in (
            [numbered(number).id for number in range(2, last + 2)],
            [numbered(number).id for number in range(2, last + 4)],
        )
