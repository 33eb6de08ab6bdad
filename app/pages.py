"""The pages that are served by HTTP: metrics for a scraper, health and readiness for probes."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from adapters.http.messages import Page
from adapters.http.server import Make
from adapters.metrics.exposition import CONTENT_TYPE, Exposition
from app.health import Health, Phase, Readiness
from app.use_cases.figures import TellFigures

_ROLES: Final = {Phase.STANDBY: "standby", Phase.RECOVERING: "active", Phase.SERVING: "active"}

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]


class Pages:
    """Makes the pages, from what is known already.

    Args:
        instance: names this process.
        figures: what is measured; loaded and asked by an active process only.
    """

    def __init__(self, *, instance: str, health: Health, figures: TellFigures, exposition: Exposition) -> None:
        self._instance = instance
        self._health = health
        self._figures = figures
        self._exposition = exposition

    @property
    def by_path(self) -> dict[str, Make]:
        """The pages under their paths."""
        return {"/metrics": self.metrics, "/healthz": self.healthz, "/readyz": self.readyz}

    async def metrics(self) -> Page:
        """Return everything that is measured.  A standby has nothing but itself to tell of."""
        figures = self._figures() if self._health.phase is Phase.SERVING else None
        return Page(body=await self._exposition(figures), content_type=CONTENT_TYPE)

    async def healthz(self) -> Page:
        """Tell whether our own loops turn.  A hung event loop is told by no answer at all."""
        troubles = self._health.troubles()
        return _json(well=not troubles, content={"healthy": not troubles, "reasons": troubles})

    async def readyz(self) -> Page:
        """Tell whether every pool is registered and watched, or a standby's active process lives; and why not."""
        found = self._health.readiness()
        return _json(well=found.ready, content=self._readiness(found))

    def _readiness(self, found: Readiness) -> dict[str, Json]:
        holder = found.holder
        return {
            "ready": found.ready,
            "role": _ROLES.get(found.phase),
            "phase": found.phase.value,
            "instance": self._instance,
            "reasons": found.reasons,
            "obstacle": found.obstacle,
            "pools": [
                {
                    "resource": resource,
                    "registered": each.registered,
                    "watched": each.watched,
                    "reason": each.reason,
                }
                for resource, each in found.pools
            ],
            "active": None
            if holder is None
            else {
                "pid": holder.pid,
                "instance": holder.instance,
                "version": holder.version,
                "heartbeat_age": round(holder.age, 1),
            },
        }


def _json(*, well: bool, content: Mapping[str, Json]) -> Page:
    return Page(
        body=f"{json.dumps(content)}\n".encode(),
        content_type="application/json",
        status=HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE,
    )
