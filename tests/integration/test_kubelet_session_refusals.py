"""A kubelet that does not accept the registration."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from adapters.kubelet.session import KubeletSession, Times
from tests.integration.kubelet import NEVER, QUICK, ScriptedKubelet, Side, a_directory, a_side

INVALID = 'the ResourceName "contivpp.io/memif" is invalid'
"""A real kubelet refuses with code UNKNOWN whatever it is about, and a text."""


@pytest.fixture
def directory() -> Iterator[Path]:
    with a_directory() as made:
        yield made


@pytest.fixture
async def kubelet(directory: Path) -> AsyncIterator[ScriptedKubelet]:
    async with ScriptedKubelet(directory) as made:
        yield made


async def test_a_refusal_is_tried_again_for_ever_and_told_once(directory: Path, kubelet: ScriptedKubelet) -> None:
    kubelet.refuse = (grpc.StatusCode.UNKNOWN, INVALID)
    async with a_side(directory) as side:
        await side.until(lambda: len(kubelet.requests) >= 8)

        assert side.told.reasons() == [f"the kubelet did not accept the registration: {INVALID}"]
        assert len({request.endpoint for request in kubelet.requests}) == len(kubelet.requests)


async def test_its_text_stands_in_the_status_until_the_kubelet_accepts(
    directory: Path, kubelet: ScriptedKubelet
) -> None:
    kubelet.refuse = (grpc.StatusCode.UNKNOWN, INVALID)
    async with a_side(directory, times=replace(QUICK, shortest_pause=0.1, longest_pause=0.1)) as side:
        await side.until(lambda: bool(side.told.warnings))
        before = side.status()
        kubelet.refuse = None
        await side.watched()

        assert INVALID in str(before.reason)
        assert (before.registered, before.watched, before.registrations) == (False, False, 0)
        assert side.status().reason is None


async def test_each_text_is_told_once(directory: Path, kubelet: ScriptedKubelet) -> None:
    kubelet.refusals = [(grpc.StatusCode.UNKNOWN, text) for text in ("one", "one", "two", "two", "two", "one")]
    async with a_side(directory) as side:
        await side.watched()

    told = [each.removeprefix("the kubelet did not accept the registration: ") for each in side.told.reasons()]
    assert told == ["one", "two", "one"]


async def test_a_text_is_told_again_if_it_comes_back_after_a_good_time(
    directory: Path, kubelet: ScriptedKubelet
) -> None:
    kubelet.refusals = [(grpc.StatusCode.UNKNOWN, "no")] * 2
    async with a_side(directory) as side:
        await side.watched()
        kubelet.refusals = [(grpc.StatusCode.UNKNOWN, "no")] * 2
        await kubelet.watchers[0].leave()
        await side.watched(2)

    assert len(side.told.reasons()) == 2


@pytest.mark.parametrize("code", [each for each in grpc.StatusCode if each is not grpc.StatusCode.OK])
async def test_every_status_is_a_refusal(directory: Path, kubelet: ScriptedKubelet, code: grpc.StatusCode) -> None:
    """A kubelet that cannot dial back in time answers so five times, and another plugin gave up at the first."""
    kubelet.refusals = [(code, "failed to dial device plugin")] * 5
    async with a_side(directory) as side:
        await side.watched()

    assert len(kubelet.requests) == 6
    assert side.told.reasons() == ["the kubelet did not accept the registration: failed to dial device plugin"]


async def test_a_refusal_without_a_text_is_told_by_its_code(directory: Path, kubelet: ScriptedKubelet) -> None:
    kubelet.refusals = [(grpc.StatusCode.RESOURCE_EXHAUSTED, "")]
    async with a_side(directory) as side:
        await side.watched()

    assert side.told.reasons() == ["the kubelet did not accept the registration: RESOURCE_EXHAUSTED"]


async def test_a_kubelet_that_never_answers_is_given_up_and_tried_again(
    directory: Path, kubelet: ScriptedKubelet
) -> None:
    kubelet.hold.clear()
    async with a_side(directory, times=replace(QUICK, register=0.1)) as side:
        await side.until(lambda: len(kubelet.requests) >= 3)
        assert "Deadline Exceeded" in side.told.reasons()[0]
        kubelet.hold.set()

        await side.watched()


async def test_a_kubelet_that_dies_inside_the_call_is_followed_by_its_successor(
    directory: Path, kubelet: ScriptedKubelet
) -> None:
    kubelet.hold.clear()
    times = replace(QUICK, shortest_pause=NEVER, longest_pause=NEVER)
    async with a_side(directory, times=times) as side:
        await side.until(lambda: len(kubelet.requests) == 1)
        kubelet.hold.set()
        kubelet.dials = False
        await kubelet.stop()
        kubelet.dials = True
        await kubelet.start()

        await side.watched()


async def test_while_it_pauses_it_serves_nothing(directory: Path, kubelet: ScriptedKubelet) -> None:
    kubelet.refuse = (grpc.StatusCode.UNKNOWN, INVALID)
    async with a_side(directory, times=replace(QUICK, shortest_pause=NEVER, longest_pause=NEVER)) as side:
        await side.until(lambda: bool(side.told.warnings))
        await side.hinted()

        assert len(kubelet.requests) == 1
        assert side.sockets() == []
        assert side.status().endpoint is None


async def test_a_kubelet_that_was_waited_for_is_not_pressed_either(directory: Path) -> None:
    async with a_side(directory, times=replace(QUICK, shortest_pause=NEVER, longest_pause=NEVER)) as side:
        await side.until(lambda: len(side.sockets()) == 1)
        kubelet = ScriptedKubelet(directory)
        kubelet.refuse = (grpc.StatusCode.UNKNOWN, INVALID)
        await kubelet.start(wipe=False)
        await side.until(lambda: INVALID in str(side.status().reason))
        await side.hinted()

        assert len(kubelet.requests) == 1
        await kubelet.stop()


async def test_a_new_kubelet_interrupts_the_pause(directory: Path, kubelet: ScriptedKubelet) -> None:
    kubelet.refuse = (grpc.StatusCode.UNKNOWN, INVALID)
    async with a_side(directory, times=replace(QUICK, shortest_pause=NEVER, longest_pause=NEVER)) as side:
        await side.until(lambda: bool(side.told.warnings))
        await kubelet.stop()
        kubelet.refuse = None
        await kubelet.start()
        await side.watched()

        assert len(kubelet.requests) == 2


async def test_a_new_kubelet_is_not_held_to_account_for_the_refusals_of_the_old(
    directory: Path, kubelet: ScriptedKubelet
) -> None:
    """The pauses begin anew: after ten refusals a single one more would cost a minute."""
    kubelet.refuse = (grpc.StatusCode.UNKNOWN, INVALID)
    times = Times(shortest_pause=0.0005, longest_pause=NEVER, first_check=NEVER)
    async with a_side(directory, times=times) as side:
        await side.until(lambda: len(kubelet.requests) >= 10)
        await kubelet.stop()
        kubelet.refuse = None
        kubelet.refusals = [(grpc.StatusCode.UNKNOWN, INVALID)]
        await kubelet.start()

        await side.watched()


class TestPauses:
    """Their length, without waiting for it."""

    @pytest.fixture
    def session(self) -> KubeletSession:
        side = Side(Path("/d"), times=Times(shortest_pause=0.1, longest_pause=60.0))
        return side.plugins._session(side.core, 0)

    def _pause(self, session: KubeletSession, endings: int) -> float:
        session._endings = endings
        return session._back_off()

    @pytest.mark.parametrize("endings, longest", [(1, 0.1), (2, 0.2), (5, 1.6), (10, 51.2), (11, 60.0), (10**6, 60.0)])
    async def test_a_pause_doubles_with_every_ending_up_to_its_limit(
        self, session: KubeletSession, endings: int, longest: float
    ) -> None:
        pauses = [self._pause(session, endings) for _ in range(200)]

        assert longest / 2 <= min(pauses) <= max(pauses) <= longest

    async def test_no_two_nodes_come_back_in_step(self, session: KubeletSession) -> None:
        assert len({self._pause(session, 11) for _ in range(50)}) > 40
