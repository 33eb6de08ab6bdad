"""The publications of a device list."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from adapters.kubelet.feed import DeviceFeed


class Counted:
    """A feed of which it is counted how often it reported a change of its streams."""

    def __init__(self, interval: float = 0.0) -> None:
        self.changes = 0
        self.feed = DeviceFeed(changed=self._changed, interval=interval)

    def _changed(self) -> None:
        self.changes += 1


async def _next(occasions: AsyncIterator[None]) -> None:
    async with asyncio.timeout(10):
        await anext(occasions)


async def _rest(occasions: AsyncIterator[None]) -> int:
    """Return how many occasions there still are until the end."""
    async with asyncio.timeout(10):
        return len([None async for _ in occasions])


async def test_a_new_stream_has_an_occasion_at_once() -> None:
    with Counted().feed.watching() as occasions:
        await _next(occasions)


async def test_there_is_no_second_occasion_until_something_is_published() -> None:
    feed = Counted().feed
    with feed.watching() as occasions:
        await _next(occasions)
        waiting = asyncio.ensure_future(_next(occasions))
        for _ in range(20):
            await asyncio.sleep(0)

        assert not waiting.done()
        feed.publish()
        await waiting


async def test_every_open_stream_has_the_occasion() -> None:
    feed = Counted().feed
    with feed.watching() as one, feed.watching() as other:
        await _next(one)
        await _next(other)
        feed.publish()

        await _next(one)
        await _next(other)


async def test_what_is_published_while_a_list_is_on_its_way_is_not_missed() -> None:
    """The list of that moment is computed already."""
    feed = Counted().feed
    with feed.watching() as occasions:
        await _next(occasions)
        feed.publish()

        await _next(occasions)


async def test_a_slow_stream_gets_one_list_for_many_publications() -> None:
    """Every list replaces the one before, so those in between are of no use to anybody."""
    feed = Counted().feed
    with feed.watching() as occasions:
        await _next(occasions)
        for _ in range(50):
            feed.publish()
        await _next(occasions)
        waiting = asyncio.ensure_future(_next(occasions))
        for _ in range(20):
            await asyncio.sleep(0)

        assert not waiting.done()
        waiting.cancel()


async def test_with_an_interval_an_unchanged_list_is_sent_again() -> None:
    """As Contiv-VPP did every 20 seconds."""
    with Counted(interval=0.01).feed.watching() as occasions:
        for _ in range(5):
            await _next(occasions)


async def test_with_an_interval_a_publication_does_not_wait_for_it() -> None:
    feed = Counted(interval=3600.0).feed
    with feed.watching() as occasions:
        await _next(occasions)
        feed.publish()

        await _next(occasions)


@pytest.mark.parametrize("interval", [0.0, 3600.0])
async def test_closing_ends_open_streams(interval: float) -> None:
    feed = Counted(interval=interval).feed
    with feed.watching() as one, feed.watching() as other:
        await _next(one)
        ends = asyncio.gather(_rest(one), _rest(other))
        await asyncio.sleep(0)
        feed.close()

        assert tuple(await ends) == (0, 1)


async def test_a_closed_feed_has_no_occasion_for_anybody() -> None:
    feed = Counted().feed
    feed.close()
    feed.publish()
    with feed.watching() as occasions:
        assert await _rest(occasions) == 0


async def test_streams_are_counted_and_each_change_is_told() -> None:
    counted = Counted()
    with counted.feed.watching():
        with counted.feed.watching():
            assert (counted.feed.streams, counted.changes) == (2, 2)
        assert (counted.feed.streams, counted.changes) == (1, 3)

    assert (counted.feed.streams, counted.changes) == (0, 4)


async def test_a_stream_that_fails_is_counted_out_as_well() -> None:
    counted = Counted()
    with pytest.raises(ConnectionError), counted.feed.watching():
        raise ConnectionError

    assert (counted.feed.streams, counted.changes) == (0, 2)


class TestFlush:
    async def flushed(self, feed: DeviceFeed) -> bool:
        """Tell whether a flush that begins now ends without anything else happening."""
        flushing = asyncio.ensure_future(feed.flush())
        for _ in range(20):
            await asyncio.sleep(0)
        done = flushing.done()
        flushing.cancel()
        return done

    async def test_without_streams_there_is_nothing_to_wait_for(self) -> None:
        feed = Counted().feed
        feed.publish()

        assert await self.flushed(feed)

    async def test_a_new_stream_has_not_written_anything_until_it_asks_for_more(self) -> None:
        """Who asks for the next list has written the one before."""
        feed = Counted().feed
        with feed.watching() as occasions:
            assert not await self.flushed(feed)
            await _next(occasions)
            assert not await self.flushed(feed)
            more = asyncio.ensure_future(_next(occasions))

            assert await self.flushed(feed)
            more.cancel()

    async def test_every_stream_must_have_written_what_was_published_last(self) -> None:
        feed = Counted().feed
        with feed.watching() as one, feed.watching() as other:
            readers = [asyncio.ensure_future(_rest(occasions)) for occasions in (one,)]
            await _next(other)
            feed.publish()
            flushing = asyncio.ensure_future(feed.flush())
            for _ in range(20):
                await asyncio.sleep(0)
            assert not flushing.done()
            readers.append(asyncio.ensure_future(_rest(other)))

            async with asyncio.timeout(10):
                await flushing
            feed.close()
            await asyncio.gather(*readers)

    async def test_a_list_that_was_made_before_the_publication_does_not_count(self) -> None:
        feed = Counted().feed
        with feed.watching() as occasions:
            await _next(occasions)
            feed.publish()
            await _next(occasions)

            assert not await self.flushed(feed)

    async def test_a_stream_that_ends_is_waited_for_no_longer(self) -> None:
        feed = Counted().feed
        with feed.watching():
            flushing = asyncio.ensure_future(feed.flush())
            await asyncio.sleep(0)
            assert not flushing.done()

        async with asyncio.timeout(10):
            await flushing


async def test_another_interval_counts_from_the_next_list_on() -> None:
    feed = Counted(interval=3600.0).feed
    with feed.watching() as occasions:
        await anext(occasions)
        feed.renew(0.01)
        for _ in range(3):
            async with asyncio.timeout(10):
                await anext(occasions)


async def test_the_same_interval_again_sends_nothing() -> None:
    counted = Counted(interval=3600.0)
    with counted.feed.watching() as occasions:
        await anext(occasions)
        counted.feed.renew(3600.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(occasions)
