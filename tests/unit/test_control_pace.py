"""Whose turn it is: an Allocate comes before watchers."""

import asyncio

import pytest

from adapters.control import pace
from adapters.control.pace import BURST, SLICE, Pace


class Urgent:
    """Whether something is urgent, as a test wants it."""

    def __init__(self) -> None:
        self.now = False

    def __call__(self) -> bool:
        return self.now


@pytest.fixture
def urgent() -> Urgent:
    return Urgent()


async def given_in_a_loop_turn(tasks: list[asyncio.Task[None]]) -> int:
    """Let the loop turn until somebody has a turn, and return how many got one then."""
    done = sum(task.done() for task in tasks)
    while (now := sum(task.done() for task in tasks)) == done:  # noqa: ASYNC110 - the loop's turns are counted
        await asyncio.sleep(0)
    return now - done


async def test_turns_come_in_the_order_in_which_they_were_asked_for(urgent: Urgent) -> None:
    paced, order = Pace(busy=urgent), list[int]()

    async def one(number: int) -> None:
        await paced.turn()
        order.append(number)

    await asyncio.gather(*(one(number) for number in range(50)))

    assert order == list(range(50))


async def test_the_loop_gets_round_between_a_few_turns(urgent: Urgent) -> None:
    paced = Pace(busy=urgent)
    tasks = [asyncio.create_task(paced.turn()) for _ in range(3 * BURST)]

    assert [await given_in_a_loop_turn(tasks) for _ in range(3)] == [BURST] * 3


async def test_while_something_is_urgent_there_is_a_slice_and_then_a_pause(
    urgent: Urgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "PAUSE", 3600.0)
    paced = Pace(busy=urgent)
    urgent.now = True
    tasks = [asyncio.create_task(paced.turn()) for _ in range(SLICE + 1)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)

    monkeypatch.setattr(pace, "PAUSE", 0.0)
    hurried = Pace(busy=urgent)
    more = [asyncio.create_task(hurried.turn()) for _ in range(SLICE + 1)]
    assert await given_in_a_loop_turn(more) == SLICE
    assert await given_in_a_loop_turn(more) == 1
    paced.close()
    await asyncio.gather(*tasks)


async def test_news_wait_until_something_happens(urgent: Urgent) -> None:
    paced = Pace(busy=urgent)
    waiting = [asyncio.create_task(paced.news()) for _ in range(2)]
    await asyncio.sleep(0)
    await paced.turn()
    assert not any(task.done() for task in waiting)
    paced.stir()

    await asyncio.gather(*waiting)


async def test_a_turn_that_somebody_gave_up_is_nobodys(urgent: Urgent) -> None:
    paced = Pace(busy=urgent)
    tasks = [asyncio.create_task(paced.turn()) for _ in range(2 * BURST)]
    await asyncio.sleep(0)
    for task in tasks[:BURST]:
        task.cancel()

    assert await given_in_a_loop_turn(tasks[BURST:]) == BURST


async def test_at_the_end_everybody_has_a_turn(urgent: Urgent) -> None:
    urgent.now = True
    paced = Pace(busy=urgent)
    tasks = [asyncio.create_task(paced.turn()), asyncio.create_task(paced.news())]
    await asyncio.sleep(0)
    paced.close()

    await asyncio.gather(*tasks)
