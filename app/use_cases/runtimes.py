"""The node's container runtime, when it has to be found first."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace

from app.use_cases.state import State
from domain.evidence import CheckpointView, RuntimeView, uids_seen
from domain.identity import PodUid
from domain.ports.reports import Reports
from domain.ports.runtime import (
    AnswerTooLarge,
    ContainerRuntime,
    PartlyReadable,
    RuntimeIdentity,
    RuntimeUnavailable,
)
from domain.selection import Selected, Sight, select


class Substitute:
    """Reads a runtime by two APIs, when what it has to say is too large for the one.

    Args:
        main: shows everything, and can leave out what the other one shows.
        other: makes the one that shows the same pods in less words, but nothing that is no pod's; when it is needed.
    """

    def __init__(self, *, main: PartlyReadable, other: Callable[[], ContainerRuntime]) -> None:
        self._main = main
        self._make = other
        self._other: ContainerRuntime | None = None

    async def snapshot(self) -> RuntimeView:
        """Return everything that exists.

        Raises:
            RuntimeUnavailable: one of the two does not answer.
        """
        if self._other is None:
            self._other = self._make()
        view = await self._other.snapshot()
        rest = await self._main.besides([each.id for each in view.objects])
        return replace(view, objects=(*view.objects, *rest.objects))

    async def aclose(self) -> None:
        """Let go of the other API's connections."""
        if self._other is not None:
            await self._other.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One place at which a runtime may answer.

    Attributes:
        kind: docker, containerd or cri.
        place: kind and path, for people.
        substitute: for when its answer is too large.
    """

    kind: str
    place: str
    runtime: ContainerRuntime
    substitute: Substitute | None = None


class FoundRuntime:
    """Chooses among candidates by what they hold; keeps :class:`domain.ports.runtime.ContainerRuntime`.

    Until one is chosen every view is unknown and each snapshot looks again; the choice is kept until the process ends.

    Args:
        candidates: in the order of preference.
        trusted: the operator named the kind, so the only one that answers is it, even if it holds no pod yet.
    """

    def __init__(
        self, *, candidates: Sequence[Candidate], state: State, reports: Reports, trusted: bool = False
    ) -> None:
        self._candidates = candidates
        self._state = state
        self._reports = reports
        self._trusted = trusted
        self._chosen: Candidate | None = None
        self._substituted: set[str] = set()

    async def snapshot(self) -> RuntimeView:
        """Return what the chosen runtime shows; choose first."""
        if self._chosen is not None:
            return await self._read(self._chosen)
        views, silences = await self._look()
        sights = [Sight(kind=each.kind, place=each.place, uids=uids_seen(view)) for each, view in views]
        verdict = select(sights, self._stored())
        if not isinstance(verdict, Selected):
            if self._trusted and len(views) == 1:
                return views[0][1]
            detail = "; ".join(silences)
            raise RuntimeUnavailable(f"{verdict.reason}{f': {detail}' if detail and not views else ''}")
        chosen, view = views[sights.index(verdict.sight)]
        self._chosen = chosen
        if verdict.rivals:
            self._reports.warn(
                "several container runtimes hold pods; the one that holds the kubelet's was chosen",
                chosen=chosen.place,
                others=list(verdict.rivals),
            )
        else:
            self._reports.note("container runtime found", chosen=chosen.place)
        return view

    async def identity(self) -> RuntimeIdentity:
        """Return which runtime was chosen."""
        return await self._settled().identity()

    def changes(self) -> AsyncIterator[None]:
        """Yield the hints of the chosen runtime."""
        return self._settled().changes()

    async def aclose(self) -> None:
        """Let go of every candidate."""
        for each in self._candidates:
            await each.runtime.aclose()
            if each.substitute is not None:
                await each.substitute.aclose()

    def _settled(self) -> ContainerRuntime:
        if self._chosen is None:
            raise RuntimeUnavailable("the container runtime has not been found yet")
        return self._chosen.runtime

    async def _read(self, candidate: Candidate) -> RuntimeView:
        """Read a candidate, by its substitute if it has too much to say.

        A tenant can bring that about by a container with an environment of megabytes, and must not keep everybody
        else's directories for as long as it pleases.
        """
        try:
            view = await candidate.runtime.snapshot()
        except AnswerTooLarge as error:
            if candidate.substitute is None:
                raise
            return await self._read_instead(candidate, candidate.substitute, str(error))
        if candidate.place in self._substituted:
            self._substituted.remove(candidate.place)
            self._reports.note("the container runtime is read by its own API again", runtime=candidate.place)
        return view

    async def _read_instead(self, candidate: Candidate, substitute: Substitute, reason: str) -> RuntimeView:
        try:
            view = await substitute.snapshot()
        except RuntimeUnavailable as error:
            raise RuntimeUnavailable(f"{reason}; nor can it be read with the help of the CRI: {error}") from error
        if candidate.place not in self._substituted:
            self._substituted.add(candidate.place)
            self._reports.warn(
                "the container runtime's answer is too large; it is read with the help of the CRI until it is not",
                runtime=candidate.place,
                reason=reason,
            )
        return view

    async def _look(self) -> tuple[list[tuple[Candidate, RuntimeView]], list[str]]:
        views: list[tuple[Candidate, RuntimeView]] = []
        silences: list[str] = []
        for each in self._candidates:
            try:
                views.append((each, await self._read(each)))
            except RuntimeUnavailable as error:
                silences.append(str(error))
        return views, silences

    def _stored(self) -> frozenset[PodUid]:
        view = self._state.checkpoint
        return frozenset(entry.uid for entry in view.entries) if isinstance(view, CheckpointView) else frozenset()
