"""PreStartContainer: a container is about to start.

It may be the first start or the hundredth, before or after a reboot; whatever it is going to mount must be there, at
the same path and with the same secret as before.
"""

from collections.abc import Sequence

from app.use_cases.adopt import Adopt
from app.use_cases.allocate import BUDGET
from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain import start
from domain.ledger import Standing
from domain.pool import Pool
from domain.ports.clock import Clock
from domain.ports.kubelet import DeviceLists
from domain.ports.reports import Reports
from domain.ports.worker import Worker
from domain.start import NothingKnown


class PreStart:
    """Makes sure of the directories of everything that holds one of the ids."""

    def __init__(
        self,
        *,
        state: State,
        storage: Storage,
        worker: Worker,
        adopt: Adopt,
        lists: DeviceLists,
        clock: Clock,
        reports: Reports,
    ) -> None:
        self._state = state
        self._storage = storage
        self._worker = worker
        self._adopt = adopt
        self._lists = lists
        self._clock = clock
        self._reports = reports

    async def __call__(self, pool: Pool, devices: Sequence[str]) -> None:
        """Return when every directory that may be meant exists.

        Raises:
            NothingKnown: nobody holds these ids; the device list is sent again, so that the kubelet writes its
                record anew and a later try may find it there.
            NoRoom, DirectoryUnusable: a directory that is surely meant cannot be had; trouble with another holder's
                is reported and stops nobody.
            OverBudget: storage is slow.
        """
        if not devices:  # the kubelet asks so for a container that wants none
            return
        checkpoint = await self._adopt.from_checkpoint(budget=BUDGET)
        try:
            plan = start.plan(pool.resource, devices, self._state.ledger, checkpoint)
        except NothingKnown:
            self._lists.publish((pool.resource,))
            raise
        names = [record.allocation.id for record in plan.candidates]
        back = [record.allocation.id for record in plan.candidates if record.standing is not Standing.LIVE]
        self._state.ledger = self._state.ledger.touched(names, at=self._clock.monotonic())
        if back:
            await self._worker.run("reviving", lambda: self._storage.revive(back), budget=BUDGET)
        allocations = [record.allocation for record in plan.candidates]
        inodes, troubles = await self._worker.run(
            "making sure of directories", lambda: self._storage.ensure(allocations), budget=BUDGET
        )
        self._state.ledger = self._state.ledger.made(inodes)
        for trouble in troubles:
            self._reports.warn(
                "a directory that a starting container may need cannot be had",
                allocation=trouble.id,
                reason=str(trouble.error),
            )
        for trouble in troubles:
            if trouble.id in plan.meant:
                raise trouble.error
