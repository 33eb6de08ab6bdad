"""The daemon ended at every moment of what it does to the world, and a new one on the same disk and the same kubelet.

After the restart no directory of something alive is lost, and once the grace is over there is nothing that nobody
uses, and ledger, journal, disk and what the kubelet holds are the same.  The moments are before and after each call
of a port, before each system call that changes something, and before each statement of SQLite that does.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.crash import Killed, Power, powered
from tests.integration.crossings import CROSSED, HARMLESS, outbound
from tests.integration.places import memory_place
from tests.integration.scenarios import SCENARIOS, Scenario, restarted
from tests.integration.socketless import Stand
from tests.integration.soundness import Given, check_empty, check_sound, settled


@pytest.fixture(scope="module")
def power() -> Iterator[Power]:
    with powered() as made:
        yield made


@asynccontextmanager
async def staged(power: Power, case: Scenario) -> AsyncIterator[Stand]:
    """A node on which everything has happened but what is cut short."""
    with memory_place() as root:
        stand = Stand(root, power, **case.pool)
        await stand.start_kubelet()
        await case.before(stand)
        try:
            yield stand
        finally:
            await stand.close()
            power.reset()


@pytest.mark.parametrize("name", SCENARIOS)
async def test_nothing_is_lost_and_nothing_is_left(name: str, power: Power) -> None:
    case, cut, done = SCENARIOS[name], 0, False
    while not done:
        cut += 1
        async with staged(power, case) as stand:
            given = Given()
            given.check(stand)
            power.end_before(cut)
            with suppress(Killed):
                await case.step(stand)
            done = not power.dead
            stand.kill()
            await stand.run()
            if case.pods_restart:
                await restarted(stand)
            await check_sound(stand)
            given.check(stand)
            await check_empty(stand)

    assert cut > case.steps


class TestTheseTests:
    """They would prove less than they say if something was no step, or happened after the end."""

    async def test_a_process_that_was_ended_cleans_nothing_up(self, power: Power) -> None:
        """What an exception would undo is still there."""
        case = SCENARIOS["grant_with_files"]
        async with staged(power, case) as stand:
            before = set(stand.directories())
            power.end_before("fchmod")
            await case.step(stand)

            assert power.dead
            assert len(set(stand.directories()) - before) == 1
            assert [each for each in power.steps if "." not in each] == ["BEGIN", "INSERT", "COMMIT", "mkdir", "fchmod"]
            stand.kill()
            await stand.run()
            await settled(stand)
            assert set(stand.directories()) == before

    def test_each_port_is_crossed_or_is_known_to_change_nothing(self) -> None:
        ports, placed = set(outbound()), CROSSED.keys() | HARMLESS

        assert placed <= ports
        assert {each for each in ports if placed.isdisjoint(each.__mro__)} == set()

    async def test_each_call_of_a_port_is_a_step_before_and_after(self, power: Power) -> None:
        async with staged(power, SCENARIOS["grant"]) as stand:
            power.end_before(None)
            await SCENARIOS["grant"].step(stand)
            calls = [each for each in power.steps if "." in each]

            assert {"Worker.run", "Journal.add", "SocketDirectories.make"} <= set(calls)
            assert all(calls.count(each) == calls.count(f"{each} is done") for each in calls if " " not in each)

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda file: file.write_text(""), id="opened to be written"),
            pytest.param(lambda file: os.truncate(file, 0), id="a call that is not in the list"),
        ],
    )
    def test_what_changes_the_disk_in_a_job_and_is_no_step_fails(
        self, change: Callable[[Path], object], power: Power, tmp_path: Path
    ) -> None:
        """As would a new way of writing that nobody thought of here."""
        (tmp_path / "file").touch()
        with power.working(), pytest.raises(AssertionError, match="is no step"):
            change(tmp_path / "file")
