"""What every container runtime must do for its port."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from domain.evidence import ObjectState, RuntimeView
from domain.ports.runtime import RuntimeUnavailable
from tests.contract.runtime_shown import ShowsWhatExists
from tests.contract.runtime_stage import PATIENCE, Stage, cnf, containers_of, directory, hint, listening


class RuntimeContract(ShowsWhatExists):
    """Subclass it and give a fixture ``stage``."""

    async def test_a_runtime_that_does_not_answer_is_an_error_and_never_an_empty_view(self, stage: Stage) -> None:
        await stage.sandbox("uid-1", "telco", "cnf", {})
        await stage.cut()

        with pytest.raises(RuntimeUnavailable):
            await stage.runtime.snapshot()

    async def test_a_runtime_that_answers_again_shows_what_exists(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        await stage.cut()
        with pytest.raises(RuntimeUnavailable):
            await stage.runtime.snapshot()
        await stage.restore()

        view = await stage.runtime.snapshot()

        assert [thing.id for thing in view.objects] == [sandbox]

    async def test_a_reading_began_when_it_was_asked_for(self, stage: Stage) -> None:
        """Nothing that happened after its beginning can be concluded from a reading."""
        before = stage.clock.monotonic()

        view = await stage.runtime.snapshot()

        assert before <= view.began <= stage.clock.monotonic()

    async def test_readings_at_the_same_time_all_see_what_exists(self, stage: Stage) -> None:
        container = await cnf(stage)

        views = await asyncio.gather(*(stage.runtime.snapshot() for _ in range(5)))

        assert all(container in {thing.id for thing in view.objects} for view in views)
        assert all(directory(stage) in _mounted(view) for view in views)

    async def test_a_runtime_that_hangs_is_an_error_within_the_deadline(self, stage: Stage) -> None:
        await cnf(stage)
        await stage.hang()

        async with asyncio.timeout(PATIENCE):
            with pytest.raises(RuntimeUnavailable):
                await stage.runtime.snapshot()
            with pytest.raises(RuntimeUnavailable):
                await stage.runtime.identity()

    async def test_a_runtime_that_hung_is_read_again_once_it_goes_on(self, stage: Stage) -> None:
        container = await cnf(stage)
        await stage.hang()
        with pytest.raises(RuntimeUnavailable):
            await stage.runtime.snapshot()
        await stage.restore()

        assert container in await containers_of(stage)

    async def test_a_runtime_that_was_restarted_between_two_readings_is_read_as_if_it_had_not(
        self, stage: Stage
    ) -> None:
        container = await cnf(stage)
        await stage.runtime.snapshot()
        await stage.cut()
        await stage.restore()

        assert container in await containers_of(stage)

    async def test_the_runtime_says_which_one_it_is(self, stage: Stage) -> None:
        identity = await stage.runtime.identity()

        assert identity.kind == stage.kind
        assert identity.version

    async def test_a_runtime_that_does_not_answer_has_no_identity(self, stage: Stage) -> None:
        await stage.cut()

        with pytest.raises(RuntimeUnavailable):
            await stage.runtime.identity()
        await stage.restore()
        assert (await stage.runtime.identity()).kind == stage.kind

    async def test_the_first_hint_comes_although_nothing_changes(self, stage: Stage) -> None:
        """So that a listener knows when its feed is up, and reads what it missed before."""
        async with listening(stage):
            pass

    async def test_what_comes_changes_and_goes_is_hinted_at(self, stage: Stage) -> None:
        async with listening(stage) as feed:
            container = await cnf(stage)
            await _await_hint_of(stage, feed, container, ObjectState.CREATED)
            await stage.start(container)
            await _await_hint_of(stage, feed, container, ObjectState.RUNNING)
            await stage.end(container)
            await _await_hint_of(stage, feed, container, ObjectState.EXITED)
            await stage.remove(container)
            await _await_hint_of(stage, feed, container, None)

    async def test_every_listener_is_given_hints_of_its_own(self, stage: Stage) -> None:
        async with listening(stage) as one, listening(stage) as other:
            await cnf(stage)

            await hint(one)
            await hint(other)

    async def test_a_feed_of_a_runtime_that_does_not_answer_is_an_error(self, stage: Stage) -> None:
        await stage.cut()

        with pytest.raises(RuntimeUnavailable):
            await hint(stage.runtime.changes())

    async def test_a_feed_that_is_cut_is_an_error_and_a_new_one_works(self, stage: Stage) -> None:
        async with listening(stage) as feed:
            await stage.cut()
            with pytest.raises(RuntimeUnavailable):
                await _exhausted(feed)
        await stage.restore()

        async with listening(stage) as feed:
            await cnf(stage)
            await hint(feed)

    async def test_it_can_be_closed_unused_used_and_twice(self, stage: Stage) -> None:
        await stage.runtime.snapshot()

        await stage.runtime.aclose()
        await stage.runtime.aclose()


def _mounted(view: RuntimeView) -> set[str]:
    return {path for thing in view.objects for path in thing.mounts.values()}


async def _await_hint_of(stage: Stage, feed: AsyncIterator[None], container: str, state: ObjectState | None) -> None:
    """Read whenever there is a hint, and at least one there must be, until the container is in a state, or gone."""
    seen: ObjectState | str | None = "not yet"
    while seen is not state:
        await hint(feed)
        found = (await containers_of(stage)).get(container)
        seen = found.state if found else None


async def _exhausted(feed: AsyncIterator[None]) -> None:
    """Take hints until the feed breaks; some may still be on their way when it is cut."""
    async with asyncio.timeout(PATIENCE):
        async for _ in feed:
            pass
