"""Waiting for a pod's memif."""

import asyncio
from contextlib import suppress
from typing import Final

from adapters.control.jobs import Jobs
from adapters.control.refusals import TooMuch
from domain.lookup import NoMemif, NoPod, PodMemif, Question, UnknownNow
from domain.ports.inbound import LooksUp, Watches

RETRY: Final = 0.5
"""Seconds after which is asked again although nothing changed here: the kubelet may have got on."""

SETTLE: Final = 0.05
"""Seconds between a change and the question: the kubelet writes its record a moment after it has our answer."""


class PodLookUp:
    """Looks pods up, one question a pod at a time, however many ask."""

    def __init__(self, *, look_up: LooksUp, watches: Watches, jobs: Jobs) -> None:
        self._look_up = look_up
        self._watches = watches
        self._jobs = jobs

    async def __call__(self, question: Question, *, wait: float, within: float | None) -> PodMemif:
        """Return what a pod was given.

        Args:
            question: whose.
            wait: seconds in which an answer that says nothing is followed by another look.
            within: seconds that one look may take, ``None`` for as long as it takes.

        Raises:
            NoPod, NoMemif, UnknownNow: the last answer.
            TooSlow: not even one look was done.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        changed = asyncio.Event()
        with self._watches.watched(changed.set):
            while True:
                changed.clear()
                try:
                    return await self._once(question, within)
                except (NoPod, NoMemif, UnknownNow, TooMuch):
                    left = until - loop.time()
                    if left <= 0:
                        raise
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, RETRY)):
                        await changed.wait()
                        await asyncio.sleep(SETTLE)

    async def _once(self, question: Question, within: float | None) -> PodMemif:
        return await self._jobs.run(
            question, lambda: self._look_up(question.namespace, question.name, question.uid), within=within
        )
