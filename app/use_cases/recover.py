"""Recovery: from what was left by the process before us to the state that the kubelet is served with.

Everything here comes before registering, because the kubelet may start containers from its own record at once.  So
nothing that may take long is done here: what earlier removals left is deleted by the first reconcile, which follows
the registration.
"""

from app.use_cases.adopt import Adopt
from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain.carry_over import carry_over
from domain.identity import AllocationId
from domain.ledger import Ledger
from domain.ports.clock import Clock
from domain.ports.journal import JournalUnusable, Recovered
from domain.ports.reports import Reports
from domain.ports.sockets import DirectoryUnusable, NoRoom
from domain.ports.worker import Worker


class Recover:
    """Journal, base directories, adoption, repair: in this order, once, when the process becomes active."""

    def __init__(
        self, *, state: State, storage: Storage, worker: Worker, adopt: Adopt, clock: Clock, reports: Reports
    ) -> None:
        self._state = state
        self._storage = storage
        self._worker = worker
        self._adopt = adopt
        self._clock = clock
        self._reports = reports

    async def __call__(self) -> None:
        """Bring the ledger up to date and every live directory back.

        Raises:
            JournalUnusable: not even an empty journal can be made.
            DirectoryUnusable, NoRoom: the base directory of a configured pool cannot be used or made.
            DeviceIdsChanged: the configuration does not suit what lives.
        """
        recovered = await self._worker.run("opening the journal", self._storage.journal.open)
        if recovered.set_aside is not None:
            self._reports.warn(
                "the journal could not be used and was set aside; allocations are adopted from the kubelet's record",
                reason=recovered.set_aside,
            )
        self._state.active_since = self._clock.monotonic()
        self._state.earlier = recovered.pools
        self._state.ledger = _ledger(recovered, at=self._state.active_since)
        await self._worker.run("opening the base directories", self._open)
        checkpoint = await self._adopt.from_checkpoint()
        await self._repair()
        served = carry_over(tuple(self._state.pools.values()), recovered.pools, self._state.ledger.live(), checkpoint)
        self._state.pools = {pool.resource: pool for pool in served}
        await self._worker.run("recording the pools", self._use_pools)

    def _open(self) -> None:
        configured = {pool.host_dir for pool in self._state.pools.values()}
        recorded = {each.allocation.host_dir for each in self._state.ledger}
        for host_dir in sorted(configured):
            self._storage.sockets.open(host_dir)
        for host_dir in sorted(recorded - configured):
            try:
                self._storage.sockets.open(host_dir)
            except (DirectoryUnusable, NoRoom) as error:
                self._reports.warn("a base directory that living allocations use cannot be used", reason=str(error))

    async def _repair(self) -> None:
        live = self._state.ledger.live()
        inodes, troubles = await self._worker.run("repairing directories", lambda: self._storage.ensure(live))
        self._state.ledger = self._state.ledger.made(inodes)
        for trouble in troubles:
            self._reports.warn(
                "the directory of a living allocation cannot be had", allocation=trouble.id, reason=str(trouble.error)
            )

    def _use_pools(self) -> None:
        try:
            self._storage.journal.use(self._state.pools.values())
        except JournalUnusable as error:
            self._reports.warn("the pools are not in the journal", reason=str(error))


def _ledger(recovered: Recovered, *, at: float) -> Ledger:
    """Times from before this process count as the moment at which it became active."""
    ledger = Ledger().with_live((allocation for allocation, _ in recovered.allocations), at=at)
    for allocation, standing in recovered.allocations:
        ledger = ledger.standing(AllocationId(allocation.id), standing)
    return ledger
