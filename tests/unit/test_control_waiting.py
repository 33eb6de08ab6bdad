"""Waiting for a pod's memif."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import pytest

from adapters.control import waiting
from adapters.control.jobs import Jobs
from adapters.control.refusals import TooSlow
from adapters.control.waiting import PodLookUp
from domain.errors import MemifError
from domain.events import Event
from domain.lookup import NoMemif, NoPod, PodMemif, Question, UnknownNow

QUESTION = Question(namespace="telco", name="cnf")
FOUND = PodMemif(namespace="telco", name="cnf", uid=None, stale=False, containers=())


class Answers:
    """A look-up that says what it is told to: first all of a list, then for ever its last."""

    def __init__(self, *answers: MemifError | PodMemif) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, str, str | None]] = []
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, namespace: str, name: str, uid: str | None = None) -> PodMemif:
        self.asked.append((namespace, name, uid))
        await self.go.wait()
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, MemifError):
            raise answer
        return answer


class Changes:
    """The part of a watch that a look-up needs."""

    instance = "one"
    busy = False

    def __init__(self) -> None:
        self.wakers: list[Callable[[], None]] = []

    @contextmanager
    def watched(self, wake: Callable[[], None]) -> Iterator[None]:
        self.wakers.append(wake)
        try:
            yield
        finally:
            self.wakers.remove(wake)

    def begin(self) -> tuple[Event, ...]:
        raise NotImplementedError

    def resume(self, seq: int, instance: str) -> tuple[Event, ...]:
        raise NotImplementedError

    def after(self, seq: int) -> tuple[Event, ...]:
        raise NotImplementedError


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
async def jobs() -> AsyncIterator[Jobs]:
    jobs = Jobs()
    yield jobs
    await jobs.aclose()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a change is followed by another look, and at once."""
    monkeypatch.setattr(waiting, "RETRY", 3600.0)
    monkeypatch.setattr(waiting, "SETTLE", 0.0)


def look_up(answers: Answers, changes: Changes, jobs: Jobs) -> PodLookUp:
    return PodLookUp(look_up=answers, watches=changes, jobs=jobs)


async def asked(answers: Answers, times: int) -> None:
    while len(answers.asked) < times:  # noqa: ASYNC110 - the loop's turns are what is waited for
        await asyncio.sleep(0)


@pytest.mark.parametrize("answer", [NoPod("telco", "cnf"), NoMemif("telco", "cnf"), UnknownNow("telco", "cnf", "why")])
async def test_without_waiting_the_first_answer_counts(changes: Changes, jobs: Jobs, answer: MemifError) -> None:
    answers = Answers(answer, FOUND)

    with pytest.raises(type(answer)):
        await look_up(answers, changes, jobs)(QUESTION, wait=0, within=None)
    assert answers.asked == [("telco", "cnf", None)]
    assert changes.wakers == []


@pytest.mark.parametrize("answer", [NoPod("telco", "cnf"), NoMemif("telco", "cnf"), UnknownNow("telco", "cnf", "why")])
async def test_waiting_ends_at_the_first_answer_that_says_something(
    changes: Changes, jobs: Jobs, answer: MemifError
) -> None:
    answers = Answers(answer, answer, FOUND)
    task = asyncio.create_task(look_up(answers, changes, jobs)(QUESTION, wait=3600, within=None))
    for times in (1, 2):
        await asked(answers, times)
        await asyncio.sleep(0.01)
        assert len(answers.asked) == times  # nothing changed, so nobody asks
        for wake in changes.wakers:
            wake()

    assert await task == FOUND
    assert changes.wakers == []


async def test_a_change_while_it_looks_is_not_missed(changes: Changes, jobs: Jobs) -> None:
    answers = Answers(NoPod("telco", "cnf"), FOUND)
    answers.go.clear()
    task = asyncio.create_task(look_up(answers, changes, jobs)(QUESTION, wait=3600, within=None))
    await asked(answers, 1)
    changes.wakers[0]()
    answers.go.set()

    assert await task == FOUND


async def test_without_any_change_it_looks_from_time_to_time(
    changes: Changes, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet's own record grows without our doing."""
    monkeypatch.setattr(waiting, "RETRY", 0.001)
    answers = Answers(NoPod("telco", "cnf"), NoPod("telco", "cnf"), FOUND)

    assert await look_up(answers, changes, jobs)(QUESTION, wait=3600, within=None) == FOUND


async def test_when_the_time_is_over_it_looks_once_more_and_gives_the_last_answer(changes: Changes, jobs: Jobs) -> None:
    answers = Answers(NoPod("telco", "cnf"), NoMemif("telco", "cnf"))

    with pytest.raises(NoMemif):
        await look_up(answers, changes, jobs)(QUESTION, wait=0.02, within=None)
    assert len(answers.asked) == 2


async def test_another_trouble_ends_the_waiting(changes: Changes, jobs: Jobs) -> None:
    class Broken(MemifError):
        pass

    with pytest.raises(Broken):
        await look_up(Answers(Broken("a test")), changes, jobs)(QUESTION, wait=3600, within=None)


async def test_many_who_wait_for_a_pod_ask_the_kubelet_once_at_a_time(changes: Changes, jobs: Jobs) -> None:
    answers = Answers(NoPod("telco", "cnf"), FOUND)
    answers.go.clear()
    ask = look_up(answers, changes, jobs)
    tasks = [asyncio.create_task(ask(QUESTION, wait=3600, within=None)) for _ in range(20)]
    await asked(answers, 1)
    await asyncio.sleep(0.01)
    assert len(answers.asked) == 1
    answers.go.set()
    await asyncio.sleep(0.01)
    for wake in changes.wakers:
        wake()

    assert await asyncio.gather(*tasks) == [FOUND] * 20
    assert len(answers.asked) <= 4


async def test_a_look_that_takes_longer_than_the_client_waits_is_given_up(changes: Changes, jobs: Jobs) -> None:
    answers = Answers(FOUND)
    answers.go.clear()

    with pytest.raises(TooSlow):
        await look_up(answers, changes, jobs)(QUESTION, wait=0, within=0.001)
