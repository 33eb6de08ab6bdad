"""What clients ask for, done apart from them."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from adapters.control.jobs import MOST, Jobs
from adapters.control.refusals import TooMuch, TooSlow


class Work:
    """A job that waits to be let go, and counts."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0
        self.at_once = 0
        self.most_at_once = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.begun += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        number = self.begun
        try:
            await self.go.wait()
            if self.error is not None:
                raise self.error
        finally:
            self.at_once -= 1
        self.ended += 1
        return number


@pytest.fixture
async def jobs() -> AsyncIterator[Jobs]:
    jobs = Jobs()
    yield jobs
    await jobs.aclose()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_job_gives_its_result(jobs: Jobs) -> None:
    work = Work()
    work.go.set()

    assert await jobs.run("a", work) == 1
    assert await jobs.run("a", work) == 2


async def test_who_asks_while_one_runs_shares_the_next(jobs: Jobs) -> None:
    """An answer that was begun before the question may be of before what the question is about."""
    work = Work()
    first = asyncio.create_task(jobs.run("a", work))
    await turns()
    later = [asyncio.create_task(jobs.run("a", work)) for _ in range(3)]
    await turns()
    assert work.begun == 1
    work.go.set()

    assert await first == 1
    assert await asyncio.gather(*later) == [2, 2, 2]
    assert (work.begun, work.most_at_once) == (2, 1)


async def test_jobs_of_different_keys_do_not_wait_for_each_other(jobs: Jobs) -> None:
    work = Work()
    asked = [asyncio.create_task(jobs.run(key, work)) for key in "abc"]
    await turns()

    assert work.most_at_once == 3
    work.go.set()
    assert sorted(await asyncio.gather(*asked)) == [1, 2, 3]


async def test_an_error_reaches_everybody_who_shares_it_and_no_later_one(jobs: Jobs) -> None:
    work = Work()
    work.error = ValueError("broken")
    asked = [asyncio.create_task(jobs.run("a", work)) for _ in range(3)]
    await turns()
    work.go.set()

    assert [type(each) for each in await asyncio.gather(*asked, return_exceptions=True)] == [ValueError] * 3
    work.error = None
    assert await jobs.run("a", work) == 3


async def test_a_client_that_gives_up_leaves_the_job_to_its_end(jobs: Jobs) -> None:
    work = Work()
    asking = asyncio.create_task(jobs.run("a", work))
    await turns()
    asking.cancel()
    await asyncio.wait((asking,))
    assert work.at_once == 1
    work.go.set()
    await turns()

    assert work.ended == 1


async def test_a_client_that_waits_no_longer_is_told_so_and_the_job_goes_on(jobs: Jobs) -> None:
    work = Work()

    with pytest.raises(TooSlow):
        await jobs.run("a", work, within=0)
    work.go.set()
    await turns()
    assert work.ended == 1


async def test_an_error_that_nobody_waits_for_is_no_noise(jobs: Jobs, caplog: pytest.LogCaptureFixture) -> None:
    work = Work()
    work.error = ValueError("broken")
    with pytest.raises(TooSlow):
        await jobs.run("a", work, within=0)
    work.go.set()
    await turns()
    gc.collect()

    assert caplog.records == []


async def test_there_are_only_so_many_at_a_time(jobs: Jobs) -> None:
    work = Work()
    asked = [asyncio.create_task(jobs.run(number, work)) for number in range(MOST)]
    await turns()

    with pytest.raises(TooMuch):
        await jobs.run("another", work)
    sharing = asyncio.create_task(jobs.run(0, work))
    await turns()
    assert sharing.done()  # it would be one more, as the next of its key
    work.go.set()
    await asyncio.gather(*asked)
    assert await jobs.run("another", work) == MOST + 1
    with pytest.raises(TooMuch):
        sharing.result()


async def test_closing_ends_what_runs_and_what_waits() -> None:
    jobs, work = Jobs(), Work()
    asked = [asyncio.create_task(jobs.run("a", work)) for _ in range(2)]
    await turns()
    await jobs.aclose()
    await asyncio.wait(asked)

    assert all(each.cancelled() for each in asked)
    assert (work.begun, work.at_once) == (1, 0)
