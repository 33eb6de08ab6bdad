"""The node's container runtime, when it has to be found first."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from app.use_cases.state import State
from domain import resync
from domain.evidence import CheckpointView, RuntimeView
from domain.identity import PodUid
from domain.ports.reports import Reports
from domain.ports.runtime import ContainerRuntime, RuntimeIdentity, RuntimeUnavailable
from domain.selection import Selected, Sight, select


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One place at which a runtime may answer.

    Attributes:
        kind: docker, containerd or cri.
        place: kind and path, for people.
    """

    kind: str
    place: str
    runtime: ContainerRuntime


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

    async def snapshot(self) -> RuntimeView:
        """Return what the chosen runtime shows; choose first."""
        if self._chosen is not None:
            return await self._chosen.runtime.snapshot()
        views, silences = await self._look()
        sights = [Sight(kind=each.kind, place=each.place, uids=resync.uids_seen(view)) for each, view in views]
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

    def _settled(self) -> ContainerRuntime:
        if self._chosen is None:
            raise RuntimeUnavailable("the container runtime has not been found yet")
        return self._chosen.runtime

    async def _look(self) -> tuple[list[tuple[Candidate, RuntimeView]], list[str]]:
        views: list[tuple[Candidate, RuntimeView]] = []
        silences: list[str] = []
        for each in self._candidates:
            try:
                views.append((each, await each.runtime.snapshot()))
            except RuntimeUnavailable as error:
                silences.append(str(error))
        return views, silences

    def _stored(self) -> frozenset[PodUid]:
        view = self._state.checkpoint
        return frozenset(entry.uid for entry in view.entries) if isinstance(view, CheckpointView) else frozenset()
