"""Look-up: which memif sockets belong to a pod."""

from typing import Final

from app.use_cases.adopt import Adopt
from app.use_cases.own import Own
from app.use_cases.state import State
from domain import lookup
from domain.evidence import PodDevices, Unknown
from domain.identity import PodUid
from domain.lookup import PodMemif, Question, Reading, UnknownNow
from domain.ports.clock import Clock
from domain.ports.kubelet import KubeletUnavailable, NoSinglePod, PodResources

_SETTLING: Final = 1.0
"""Seconds after an answered Allocate in which the kubelet may not have stored the answer yet."""

_LISTING_INTERVAL: Final = 1.0
"""Seconds between two listings for look-ups, where the kubelet cannot be asked for a single pod."""


class LookUp:
    """Answers for one pod; keeps :class:`domain.ports.inbound.LooksUp`."""

    def __init__(self, *, state: State, adopt: Adopt, own: Own, pod_resources: PodResources, clock: Clock) -> None:
        self._state = state
        self._adopt = adopt
        self._own = own
        self._pod_resources = pod_resources
        self._clock = clock
        self._listed: float | None = None

    async def __call__(self, namespace: str, name: str, uid: str | None = None) -> PodMemif:
        """Return what the pod's newest incarnation, or the one with this uid, holds.

        Raises:
            NoPod, NoMemif: certain answers.
            UnknownNow: nothing certain even at the second reading.
        """
        question = Question(namespace=namespace, name=name, uid=None if uid is None else PodUid(uid))
        try:
            return await self._read(question)
        except UnknownNow:
            return await self._read(question)

    async def _read(self, question: Question) -> PodMemif:
        began = self._clock.monotonic()
        kubelet = await self._ask(question)
        checkpoint = await self._adopt.from_checkpoint()
        await self._own.from_checkpoint(checkpoint)
        reading = Reading(
            kubelet=kubelet,
            checkpoint=checkpoint,
            runtime=self._state.runtime,
            disturbed=self._state.allocated_since(began - _SETTLING),
        )
        return lookup.look_up(question, reading, self._state.ledger, self._state.pools)

    async def _ask(self, question: Question) -> PodDevices | Unknown | None:
        try:
            return await self._pod_resources.pod(question.namespace, question.name)
        except NoSinglePod as error:
            return await self._pick(question, str(error))
        except KubeletUnavailable as error:
            return Unknown(str(error))

    async def _pick(self, question: Question, reason: str) -> PodDevices | Unknown | None:
        now = self._clock.monotonic()
        if not self._state.quiet or (self._listed is not None and now - self._listed < _LISTING_INTERVAL):
            return Unknown(f"{reason}; and it may not be listed at this moment")
        self._listed = now
        try:
            pods = await self._pod_resources.pods()
        except KubeletUnavailable as error:
            return Unknown(str(error))
        wanted = (question.namespace, question.name)
        return next((pod for pod in pods if (pod.namespace, pod.name) == wanted), None)
